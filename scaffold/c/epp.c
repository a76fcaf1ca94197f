#include "epp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW (1 << 20) /* bytes of a stream that may be on their way before the host has taken any */
#define CHUNK  (256 * 1024)

bool epp_is_utf8(const void *bytes, size_t n); /* json.c */

typedef struct piece {
    long long request; /* that brought it */
    uint8_t *bytes;    /* NULL: the end */
    size_t n;
    bool taken;
    struct piece *next;
} piece;

/* One lock for all that threads share: the calls, their windows and pieces. Writing has its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, write_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static epp_call *calls;
static const epp_method *methods;
static bool flow, raw;

/* --- writing ------------------------------------------------------------------------------------------------- */

static void write_all(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done < 0 && errno != EINTR)
            _exit(1); /* the host has gone */
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
}

/* A message with the raw bytes behind it, if any. */
static void send_line(epp_text *line, const void *bytes, size_t n)
{
    epp_add(line, "}\n", 2);
    pthread_mutex_lock(&write_lock);
    write_all(line->data, line->len);
    if (n > 0) {
        write_all(bytes, n);
        write_all("\n", 1);
    }
    pthread_mutex_unlock(&write_lock);
    free(line->data);
}

static epp_text message(void)
{
    epp_text line = {0};
    epp_addf(&line, "{\"jsonrpc\":\"2.0\"");
    return line;
}

static void answer(long long id, const char *members)
{
    epp_text line = message();
    epp_addf(&line, ",\"id\":%lld,\"result\":{%s}", id, members ? members : "");
    send_line(&line, NULL, 0);
}

static void answer_error(long long id, int number, const char *text, const char *code)
{
    epp_text line = message();
    epp_addf(&line, ",\"id\":%lld,\"error\":{\"code\":%d", id, number);
    epp_member(&line, "message", text);
    if (code)
        epp_addf(&line, ",\"data\":{\"code\":\"%s\"}", code);
    epp_add(&line, "}", 1);
    send_line(&line, NULL, 0);
}

void epp_notify(epp_call *call, const char *method, const char *members)
{
    epp_text line = message();
    epp_addf(&line, ",\"method\":\"%s\",\"params\":{\"stream\":%lld%s%s}", method, call->id, members ? "," : "",
             members ? members : "");
    send_line(&line, NULL, 0);
}

static void add_base64(epp_text *t, const uint8_t *s, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned long b = (unsigned long)s[i] << 16 | (i + 1 < n ? s[i + 1] : 0u) << 8 | (i + 2 < n ? s[i + 2] : 0u);
        char out[4] = {digits[b >> 18], digits[b >> 12 & 63], i + 1 < n ? digits[b >> 6 & 63] : '=',
                       i + 2 < n ? digits[b & 63] : '='};
        epp_add(t, out, 4);
    }
}

/* Wait until the host has room for some bytes: how many of n may go, 0 when the call was cancelled. */
static size_t take_room(epp_call *call, size_t n)
{
    pthread_mutex_lock(&lock);
    while (flow && call->room <= 0 && !call->cancelled)
        pthread_cond_wait(&change, &lock);
    if (flow && (long long)n > call->room)
        n = (size_t)(call->room > 0 ? call->room : 0);
    if (call->cancelled)
        n = 0;
    call->room -= (long long)n;
    pthread_mutex_unlock(&lock);
    return n;
}

int epp_send(epp_call *call, const char *method, const char *channel, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0) {
        size_t part = take_room(call, n < CHUNK ? n : CHUNK);
        if (part == 0)
            return -1;
        epp_text line = message();
        epp_addf(&line, ",\"method\":\"%s\",\"params\":{\"stream\":%lld", method, call->id);
        epp_member(&line, "channel", channel);
        if (raw) {
            epp_number(&line, "raw", (long long)part);
        } else if (epp_is_utf8(at, part)) {
            epp_addf(&line, ",\"text\":");
            epp_add_json(&line, (const char *)at, part);
        } else {
            epp_addf(&line, ",\"base64\":\"");
            add_base64(&line, at, part);
            epp_add(&line, "\"", 1);
        }
        epp_add(&line, "}", 1);
        send_line(&line, at, raw ? part : 0);
        at += part;
        n -= part;
    }
    return 0;
}

/* --- a call ------------------------------------------------------------------------------------------------------ */

int epp_fail(epp_call *call, const char *code, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    if (call->failed)
        return -1;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    call->failed = true;
    epp_addf(&call->error, "%s %s", code, text);
    free(text);
    return -1;
}

int epp_fail_errno(epp_call *call, const char *path)
{
    int why = errno;
    const char *code = why == ENOENT ? "E3002" : why == ENOSPC || why == EDQUOT ? "E4003" : "E6005";
    return epp_fail(call, code, "'%s': %s", path, strerror(why));
}

int epp_accept(epp_call *call, const char *words)
{
    for (const epp_json *p = call->params ? call->params->first : NULL; p; p = p->next) {
        size_t len = strlen(p->name);
        const char *at = words;
        while ((at = strstr(at, p->name)) && ((at > words && at[-1] != ' ') || (at[len] != ' ' && at[len] != 0)))
            at += len;
        if (!at)
            return epp_fail(call, "E8004", "this provider has no '%s' here", p->name);
    }
    return 0;
}

bool epp_is_cancelled(epp_call *call)
{
    pthread_mutex_lock(&lock);
    bool is = call->cancelled;
    pthread_mutex_unlock(&lock);
    return is;
}

void epp_on_cancel(epp_call *call, void (*f)(void *data), void *data)
{
    pthread_mutex_lock(&lock);
    call->on_cancel = f;
    call->data = data;
    if (call->cancelled && f)
        f(data);
    pthread_mutex_unlock(&lock);
}

int epp_body(epp_call *call, uint8_t **bytes, size_t *n)
{
    long long done = -1;
    pthread_mutex_lock(&lock);
    piece *p = call->first_piece;
    if (p && p->taken) {
        done = p->request;
        call->first_piece = p->next;
        free(p);
    }
    pthread_mutex_unlock(&lock);
    if (done >= 0)
        answer(done, NULL);
    pthread_mutex_lock(&lock);
    while (!call->first_piece && !call->cancelled)
        pthread_cond_wait(&change, &lock);
    int rc = -1;
    if (!call->cancelled) {
        p = call->first_piece;
        p->taken = true;
        *bytes = p->bytes;
        *n = p->n;
        p->bytes = NULL;
        rc = *bytes != NULL;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static void end_call(epp_call *call)
{
    pthread_mutex_lock(&lock);
    epp_call **at = &calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    bool cancelled = call->cancelled;
    pthread_mutex_unlock(&lock);
    if (cancelled) {
        answer_error(call->id, -32000, "cancelled", "E5002");
    } else if (call->failed) {
        call->error.data[5] = 0; /* behind the code */
        answer_error(call->id, -32000, call->error.data + 6, call->error.data);
    } else {
        answer(call->id, call->result.data);
    }
    while (call->first_piece) {
        piece *p = call->first_piece;
        call->first_piece = p->next;
        answer(p->request, NULL);
        free(p->bytes);
        free(p);
    }
    epp_free(call->message);
    free(call->result.data);
    free(call->error.data);
    free(call);
}

static void *run_call(void *data)
{
    epp_call *call = data;
    const epp_method *m = methods;
    while (m->name && strcmp(m->name, call->method) != 0)
        m++;
    if (m->run(call) < 0)
        epp_fail(call, "E6002", "it failed");
    end_call(call);
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool is_known(const char *method)
{
    for (const epp_method *m = methods; m->name; m++)
        if (strcmp(m->name, method) == 0)
            return true;
    return false;
}

static void start_call(long long id, const char *method, epp_json *all)
{
    pthread_t thread;
    epp_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    *call = (epp_call){.id = id, .method = method, .params = epp_get(all, "params"), .message = all, .room = WINDOW};
    pthread_mutex_lock(&lock);
    call->next = calls;
    calls = call;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, run_call, call) != 0)
        abort();
    pthread_detach(thread);
}

static void cancel(epp_call *call)
{
    call->cancelled = true;
    if (call->on_cancel)
        call->on_cancel(call->data);
}

/* The bytes of a message: in it, or raw behind its line. */
static uint8_t *read_bytes(const epp_json *params, size_t *n)
{
    if (!epp_get(params, "raw"))
        return epp_bytes(params, n);
    *n = (size_t)epp_int(params, "raw", 0);
    uint8_t *bytes = *n <= 1 << 20 ? malloc(*n + 1) : NULL; /* and the newline */
    if (!bytes || fread(bytes, 1, *n + 1, stdin) != *n + 1)
        exit(1);
    return bytes;
}

/* What names a call by its stream. True when it was taken. */
static bool take_stream(long long id, const char *method, const epp_json *params)
{
    bool write = strcmp(method, "stream.write") == 0, end = strcmp(method, "stream.end") == 0, taken = false;
    size_t n = 0;
    uint8_t *bytes = write ? read_bytes(params, &n) : NULL;
    pthread_mutex_lock(&lock);
    epp_call *call = calls;
    while (call && call->id != epp_int(params, "stream", -1))
        call = call->next;
    if (call && (write || end)) {
        piece *p = calloc(1, sizeof *p), **last = &call->first_piece;
        if (!p)
            abort();
        p->request = id;
        p->bytes = bytes;
        p->n = n;
        bytes = NULL;
        while (*last)
            last = &(*last)->next;
        *last = p;
        taken = true;
    } else if (call && strcmp(method, "stream.window") == 0) {
        call->room += epp_int(params, "bytes", 0);
    } else if (call && strcmp(method, "cancel") == 0) {
        cancel(call);
    }
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    free(bytes);
    return taken;
}

/* True when it was the last message. */
static bool take(const char *features, const char *line, size_t n)
{
    epp_json *all = epp_parse(line, n);
    const epp_json *params = epp_get(all, "params");
    const char *method = epp_str(all, "method", "");
    long long id = epp_int(all, "id", -1);
    bool last = strcmp(method, "shutdown") == 0;
    if (strcmp(method, "initialize") == 0) {
        epp_text members = {0};
        flow = epp_is(params, "flow");
        epp_addf(&members, "\"protocol\":\"epp/1\",\"features\":%s,\"flow\":true,\"raw\":true", features);
        answer(id, members.data);
        raw = epp_is(params, "raw");
        free(members.data);
    } else if (last) {
        answer(id, NULL);
    } else if (strncmp(method, "stream.", 7) == 0 || strcmp(method, "cancel") == 0) {
        if (!take_stream(id, method, params) && id >= 0)
            answer(id, NULL); /* of a call that has ended: nobody needs the bytes */
    } else if (is_known(method)) {
        start_call(id, method, all);
        return false;
    } else if (id >= 0) {
        answer_error(id, -32601, "no such method", NULL);
    }
    epp_free(all);
    return last;
}

void epp_serve(const char *features, const epp_method *known)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    methods = known;
    signal(SIGPIPE, SIG_IGN);
    while ((n = getline(&line, &size, stdin)) > 0)
        if (take(features, line, (size_t)n))
            break;
    free(line);
    pthread_mutex_lock(&lock);
    for (epp_call *call = calls; call; call = call->next)
        cancel(call);
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}
