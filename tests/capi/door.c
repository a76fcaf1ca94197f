/* A door of the conformance suite (tests/conformance/door_capi.py): commands on standard input, events on standard output, one thread, the
 * context's descriptor beside standard input in one poll.
 *
 *   door CONTEXT CONNECTION        two JSON objects
 *
 *   start ID TIMEOUT HELD METHOD PARAMS     event ID NAME JSON
 *   feed ID SIZE, then the bytes            chunk ID CHANNEL SIZE, then the bytes
 *   close ID · stop ID · hold ID · go ID    end ID JSON · fail ID JSON · refused ID JSON */
#include <abx/abx.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 65536
#define PIECE ((size_t)65536)

typedef struct call {
    int id;
    abx_call *call;
    char *input; /* what could not be sent yet */
    size_t length;
    int closing;
} call;

static abx_provider *provider;
static call calls[CALLS];
static char *line_buf; /* what came in */
static size_t line_len, line_cap;

static void give(const char *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, stdout) != n)
        exit(3);
}

static void send_input(call *c)
{
    size_t sent = 0;
    while (c->call && sent < c->length) {
        size_t n = c->length - sent < PIECE ? c->length - sent : PIECE;
        if (abx_call_send(c->call, c->input + sent, n, 0) != 1)
            break; /* ABX_KIND_WRITABLE will come */
        sent += n;
    }
    memmove(c->input, c->input + sent, c->length - sent);
    c->length -= sent;
    if (c->call && c->length == 0 && c->closing)
        abx_call_send_end(c->call);
}

static void on_event(abx_call *handle, const abx_event *e, void *user)
{
    call *c = user;
    if (e->kind == ABX_KIND_CHUNK)
        printf("chunk %d %s %zu\n", c->id, e->name, e->length);
    else if (e->kind == ABX_KIND_EVENT)
        printf("event %d %s ", c->id, e->name);
    else if (e->kind == ABX_KIND_END)
        printf("%s %d ", e->error ? "fail" : "end", c->id);
    else
        send_input(c);
    if (e->kind == ABX_KIND_WRITABLE)
        return;
    give(e->data, e->length);
    if (e->kind != ABX_KIND_CHUNK)
        give("\n", 1);
    if (e->kind != ABX_KIND_END)
        return;
    abx_call_free(handle);
    c->call = NULL;
    free(c->input);
    c->input = NULL;
    c->length = 0;
}

static void start(call *c, char *rest)
{
    abx_error *err = NULL;
    char *save, *timeout = strtok_r(rest, " ", &save), *held = strtok_r(NULL, " ", &save);
    char *method = strtok_r(NULL, " ", &save);
    c->call = abx_call_start(provider, method, save, atol(timeout), on_event, c, &err);
    if (c->call) {
        if (held[0] == '1')
            abx_call_flow(c->call, 0);
        return;
    }
    char *text = abx_error_to_json(err);
    printf("refused %d %s\n", c->id, text);
    abx_free(text);
    abx_error_free(err);
}

static void feed(call *c, const char *bytes, size_t n)
{
    if (!c->call)
        return;
    c->input = realloc(c->input, c->length + n);
    if (!c->input)
        exit(4);
    memcpy(c->input + c->length, bytes, n);
    c->length += n;
    send_input(c);
}

static void obey(call *c, const char *word)
{
    if (strcmp(word, "close") == 0) {
        c->closing = 1;
        send_input(c);
    } else if (!c->call) {
        return;
    } else if (strcmp(word, "stop") == 0) {
        abx_call_stop(c->call);
        abx_call_flow(c->call, 1);
    } else {
        abx_call_flow(c->call, strcmp(word, "go") == 0);
    }
}

/* One command of those that have come whole: the bytes that it takes, or 0. */
static size_t command(char *at, size_t left)
{
    char *end = memchr(at, '\n', left), *save;
    if (!end)
        return 0;
    size_t took = (size_t)(end - at) + 1, n = 0;
    if (strncmp(at, "feed ", 5) == 0) {
        int id;
        if (sscanf(at, "feed %d %zu", &id, &n) != 2 || left < took + n)
            return 0;
        feed(&calls[id], end + 1, n);
        return took + n;
    }
    *end = 0;
    char *word = strtok_r(at, " ", &save), *id = strtok_r(NULL, " ", &save);
    call *c = &calls[atoi(id)];
    c->id = atoi(id);
    if (strcmp(word, "start") == 0)
        start(c, save);
    else
        obey(c, word);
    return took;
}

/* 0 at the end of the input. */
static int read_commands(void)
{
    if (line_cap - line_len < PIECE) {
        line_cap = line_cap * 2 + PIECE;
        line_buf = realloc(line_buf, line_cap);
        if (!line_buf)
            exit(4);
    }
    ssize_t n = read(STDIN_FILENO, line_buf + line_len, line_cap - line_len);
    if (n <= 0)
        return 0;
    line_len += (size_t)n;
    size_t at = 0, took;
    while ((took = command(line_buf + at, line_len - at)) > 0)
        at += took;
    memmove(line_buf, line_buf + at, line_len - at);
    line_len -= at;
    return 1;
}

int main(int argc, char **argv)
{
    abx_error *err = NULL;
    abx_context *ctx = argc == 3 ? abx_context_new(argv[1], &err) : NULL;
    provider = ctx ? abx_provider_open(ctx, argv[2], &err) : NULL;
    int fd = provider ? abx_context_fd(ctx, &err) : -1;
    if (fd < 0) {
        fprintf(stderr, "door: %s\n",
                err ? abx_error_message(err) : "usage: door CONTEXT CONNECTION");
        return 1;
    }
    for (int open = 1; open;) {
        struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}};
        fflush(stdout);
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents)
            open = read_commands();
        abx_context_run(ctx, 0);
    }
    abx_provider_close(provider);
    abx_context_free(ctx);
    free(line_buf);
    return 0;
}
