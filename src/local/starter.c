/* The starting end. */
#include "local/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/create.h"
#include "local/starter_message.h"
#include "net/child.h"

#define LIMIT_MS 60000u

typedef struct starting {
    abx_local *local;
    abx_local_created_cb cb;
    void *data;
    abx_child *child;
    int pair, first_fd;
    abx_buf out, in;
    size_t sent;
    uv_poll_t poll;
    uv_timer_t timer;
    int open_handles;
    bool ended;
    yyjson_doc *answer;
    abx_error *error;
} starting;

static void starting_free(starting *s)
{
    if (s->child)
        abx_child_release(s->child); /* only where nothing was started with it */
    abx_close_fd(&s->pair);
    abx_close_fd(&s->first_fd);
    abx_buf_clear(&s->out);
    abx_buf_clear(&s->in);
    yyjson_doc_free(s->answer);
    abx_error_free(s->error);
    free(s);
}

/* The end: answered, both handles closed, the program gone and reaped. */
static void finish(starting *s)
{
    yyjson_val *root = s->answer ? yyjson_doc_get_root(s->answer) : NULL;
    yyjson_val *info = abx_json_get(root, "info"), *why = abx_json_get(root, "error");
    if (!s->error && !info)
        s->error = why ? abx_error_from_json(why)
                       : abx_error_new(ABX_ERR_LOCAL_STATE,
                                       "the program that starts sandboxes gave no answer");
    if (s->error)
        s->cb(s->data, NULL, -1, s->error);
    else
        s->cb(s->data, info, abx_take_fd(&s->first_fd), NULL);
    starting_free(s);
}

static void on_closed(uv_handle_t *handle)
{
    starting *s = (starting *)handle->data;
    if (--s->open_handles == 0 && !s->child)
        finish(s);
}

static void end(starting *s, abx_error *why)
{
    s->error = why;
    s->ended = true;
    if (s->child) /* it has nothing more to do; its sandbox is in a session of its own */
        abx_child_signal(s->child, SIGKILL);
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->timer, on_closed);
}

static int send_some(starting *s)
{
    ssize_t n = send(s->pair, s->out.data + s->sent, s->out.len - s->sent, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    s->sent += (size_t)n;
    return 0;
}

/* Bytes of the answer, and the first connection when it comes along. 1: some, 0: none yet, -1: the end. */
static int receive_some(starting *s)
{
    uint8_t *room = abx_buf_room(&s->in, 16384);
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec io = {room, 16384};
    struct msghdr msg = {.msg_iov = &io,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    if (!room)
        return -1;
    ssize_t n = recvmsg(s->pair, &msg, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        abx_close_fd(&s->first_fd);
        memcpy(&s->first_fd, CMSG_DATA(c), sizeof(int));
    }
    abx_buf_grow(&s->in, (size_t)n);
    return n > 0 ? 1 : -1;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    starting *s = (starting *)poll->data;
    if (s->sent < s->out.len) {
        if (send_some(s) < 0) {
            end(s, NULL); /* it ended without reading: no answer */
            return;
        }
        if (s->sent == s->out.len)
            uv_poll_start(&s->poll, UV_READABLE, on_poll);
        return;
    }
    int got = receive_some(s);
    if (got == 0)
        return;
    abx_error *err = NULL;
    int rc = abx_starter_parse(&s->in, &s->answer, &err);
    if (rc != 0 || got < 0)
        end(s, err);
}

static void on_timer(uv_timer_t *timer)
{
    end((starting *)timer->data,
        abx_error_new(ABX_ERR_TIMEOUT, "the program that starts sandboxes did not answer"));
}

static void on_child_end(abx_child *child, int status, void *data)
{
    starting *s = (starting *)data;
    s->child = NULL; /* its answer, or the end of the socket, says the rest */
    if (s->ended && s->open_handles == 0)
        finish(s);
}

/* Nothing of this process's environment but what finding files needs. */
static char **scrubbed_environment(const abx_local *local)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "TMPDIR"};
    char **env = (char **)abx_alloc_array(ABX_COUNT(names) + 2, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value)
            env[n++] = abx_format("%s=%s", names[i], value);
    }
    env[n] = abx_format("ABX_HOME=%s", local->home);
    return env;
}

int abx_starter_spawn(abx_local *local, int theirs,
                      void (*on_exit)(abx_child *child, int status, void *data), void *data,
                      abx_child **child, abx_error **err)
{
    char **words = abx_starter_words(local->starter, err);
    if (!words)
        return -1;
    size_t n = 0;
    while (words[n])
        n++;
    words = (char **)abx_realloc(words, (n + 2) * sizeof(*words));
    words[n] = abx_strdup(ABX_STARTER_VERB);
    words[n + 1] = NULL;
    char **env = scrubbed_environment(local);
    abx_child_options options = {
        .path = words[0],
        .argv = words,
        .envp = env,
        .stdio = {-1, -1, -1},
        .fd3 = theirs,
        .keeper = local->keeper,
        .on_exit = on_exit,
        .data = data,
    };
    ABX_AUTO_ERROR why = NULL;
    int rc = abx_child_start(local->loop, &options, child, &why);
    if (rc < 0 && abx_is_shortage(why->sys_errno)) {
        abx_shortage_error(err, why->sys_errno, "the program that makes it");
    } else if (rc < 0) {
        abx_wrap(&why, "cannot start a local sandbox");
        abx_error_take(err, ABX_TAKE(why));
    }
    abx_words_free(words);
    abx_words_free(env);
    return rc;
}

static int make_request(starting *s, const abx_local_spec *spec, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "home", s->local->home);
    abx_mut_put(d, root, "spec", abx_starter_spec(d, spec));
    if (abx_starter_frame(root, &s->out) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "metadata and environment are over 8 MiB");
    return 0;
}

int abx_starter_create(abx_local *local, const abx_local_spec *spec, abx_local_created_cb cb,
                       void *data, abx_error **err)
{
    int ends[2] = {-1, -1};
    starting *s = ABX_NEW(starting);
    s->local = local;
    s->cb = cb;
    s->data = data;
    s->pair = s->first_fd = -1;
    abx_buf_init(&s->out, ABX_STARTER_MAX + 4);
    abx_buf_init(&s->in, ABX_STARTER_MAX + 4 + 16384);
    int rc = make_request(s, spec, err);
    if (rc == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        rc = abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a socket");
    if (rc < 0) {
        starting_free(s);
        return -1;
    }
    s->pair = ends[0];
    rc = abx_starter_spawn(local, ends[1], on_child_end, s, &s->child, err);
    close(ends[1]);
    if (rc == 0 && (fcntl(s->pair, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
                    uv_poll_init(local->loop, &s->poll, s->pair) < 0))
        rc = abx_fail(err, ABX_ERR_LOCAL_STATE, "cannot watch the program that starts sandboxes");
    if (rc < 0) {
        starting_free(s);
        return -1;
    }
    s->poll.data = s->timer.data = s;
    uv_timer_init(local->loop, &s->timer);
    s->open_handles = 2;
    uv_poll_start(&s->poll, UV_WRITABLE, on_poll);
    uv_timer_start(&s->timer, on_timer, LIMIT_MS, 0);
    return 0;
}
