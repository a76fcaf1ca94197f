/* pid 1's server in this process, over the namespaces of jail.h, and a client's ends of some connections to it. */
#ifndef ABX_TESTS_FUZZ_ENVD_RIG_H
#define ABX_TESTS_FUZZ_ENVD_RIG_H

#include <errno.h>
#include <sys/wait.h>

#include "jail.h"
#include "local/envd/inner.h"
#include "picks.h"

#define RIG_CONNS 6

typedef struct rig {
    uv_loop_t loop;
    abx_envd *envd;
    bool closed;
    int conns[RIG_CONNS]; /* -1: none */
    size_t answers;       /* bytes that came back */
} rig;

/* Once. */
static inline void rig_prepare(int *argc, char ***argv)
{
    jail_quiet(argc, argv);
    jail_enter();
    (void)signal(SIGPIPE, SIG_IGN);
    FILE *f = fopen("/mnt/passwd", "we");
    ABX_CHECK(f != NULL);
    (void)fprintf(f, "user:x:0:0::/mnt:/bin/sh\nroot:x:0:0:root:/root:/bin/sh\n");
    (void)fclose(f);
}

static inline void rig_open(rig *r)
{
    static const char *const env[] = {"G=1", NULL};
    const abx_envd_config config = {.listen_fd = -1,
                                    .first_fd = -1,
                                    .lock_fd = -1,
                                    .log_fd = -1,
                                    .id = "fuzz",
                                    .env = env,
                                    .workdir = "/mnt",
                                    .passwd = "/mnt/passwd",
                                    .timeout_ms = ABX_FOREVER};
    *r = (rig){0};
    for (size_t i = 0; i < RIG_CONNS; i++)
        r->conns[i] = -1;
    ABX_CHECK(uv_loop_init(&r->loop) == 0);
    ABX_CHECK(abx_envd_open(&r->loop, &config, NULL, NULL, &r->envd, NULL) == 0);
    r->envd->is_init = true; /* it is, here */
}

static inline void rig_drain(rig *r, size_t i)
{
    char bytes[16384];
    ssize_t n;
    while (r->conns[i] >= 0 && (n = recv(r->conns[i], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        r->answers += (size_t)n;
}

static inline void rig_reap(rig *r)
{
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        abx__proc *p = abx__proc_by_pid(r->envd, pid);
        if (p)
            abx__proc_reaped(p, status);
        abx__pause_check(r->envd);
    }
}

static inline void rig_turn(rig *r)
{
    rig_reap(r);
    (void)uv_run(&r->loop, UV_RUN_NOWAIT);
    (void)uv_run(&r->loop, UV_RUN_NOWAIT);
}

static inline void rig_hang_up(rig *r, size_t i)
{
    if (r->conns[i] >= 0)
        close(r->conns[i]);
    r->conns[i] = -1;
}

/* Send on connection i, which is made when it is not there. */
static inline void rig_send(rig *r, size_t i, const void *bytes, size_t n)
{
    int fds[2];
    if (r->conns[i] < 0) {
        ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        ABX_CHECK(abx_envd_adopt(r->envd, fds[1], NULL) == 0);
        r->conns[i] = fds[0];
    }
    (void)!send(r->conns[i], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One request with a JSON body, NULL: none. */
static inline void rig_ask(rig *r, size_t i, const char *verb, const char *path, const char *more,
                           const abx_buf *body)
{
    ABX_AUTO_BUF text = ABX_BUF(1 << 20);
    ABX_CHECK(abx_buf_addf(&text,
                           "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\n%s\r\n",
                           verb, path, body ? body->len : 0, more) == 0);
    if (body && body->len > 0)
        ABX_CHECK(abx_buf_add(&text, body->data, body->len) == 0);
    rig_send(r, i, text.data, text.len);
}

static inline void rig_on_closed(void *data)
{
    ((rig *)data)->closed = true;
}

/* Everything goes, and nothing of it is left on the loop. */
static inline void rig_close(rig *r)
{
    for (size_t i = 0; i < RIG_CONNS; i++)
        rig_hang_up(r, i);
    rig_turn(r);
    abx_envd_close(r->envd, rig_on_closed, r);
    for (int i = 0; i < 10000 && !r->closed; i++)
        (void)uv_run(&r->loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 100 && uv_run(&r->loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    ABX_CHECK(r->closed && uv_loop_close(&r->loop) == 0);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

#endif
