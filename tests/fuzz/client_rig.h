/* The client of envd over connections whose other end is this program: one call at a time, and what the server answers is
 * fed in pieces. */
#ifndef ABX_TESTS_FUZZ_CLIENT_RIG_H
#define ABX_TESTS_FUZZ_CLIENT_RIG_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "e2b/client.h"
#include "ops/call_host.h"
#include "picks.h"

#define CLIENT_CONNS 8

typedef struct client_rig {
    uv_loop_t loop;
    abx_envd_client *client;
    abx_call *call;
    int peers[CLIENT_CONNS]; /* the server's ends; -1: closed */
    int count;
    int ends;
    bool pauses; /* the caller stops at each chunk, once */
    bool paused;
    size_t bytes;
} client_rig;

static inline int client_dial(void *data, abx_error **err)
{
    client_rig *r = data;
    int pair[2];
    if (r->count == CLIENT_CONNS)
        return abx_fail(err, ABX_ERR_NETWORK, "no more connections");
    ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    r->peers[r->count++] = pair[0];
    return pair[1];
}

static inline int client_alive(void *data)
{
    return 0;
}

static inline void client_on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    ABX_CHECK(type && yyjson_is_obj(event));
}

static inline void client_on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n,
                                   void *data)
{
    client_rig *r = data;
    r->bytes += n;
    r->paused = r->pauses;
    if (r->pauses)
        abx_call_pause(c);
}

static inline void client_on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    client_rig *r = data;
    ABX_CHECK((result != NULL) != (err != NULL));
    r->ends++;
    r->call = NULL;
}

static inline void client_open(client_rig *r, bool abx)
{
    *r = (client_rig){0};
    (void)signal(SIGPIPE, SIG_IGN);
    ABX_CHECK(uv_loop_init(&r->loop) == 0);
    abx_envd_client_options o = {.loop = &r->loop,
                                 .base_url = "http://envd",
                                 .sandbox_id = "s",
                                 .token = "t",
                                 .codec = ABX_E2B_JSON,
                                 .abx = abx,
                                 .dial = client_dial,
                                 .dial_data = r,
                                 .alive = client_alive};
    ABX_CHECK(abx_envd_client_open(&o, &r->client, NULL) == 0);
}

/* 0; -1: it was refused. */
static inline int client_start(client_rig *r, const char *method, const char *params)
{
    static const abx_call_handlers handlers = {client_on_event, client_on_chunk, NULL,
                                               client_on_end};
    yyjson_doc *doc = yyjson_read(params, strlen(params), 0);
    ABX_AUTO_ERROR err = NULL;
    ABX_CHECK(doc != NULL);
    r->call = abx_call_new(&r->loop, abx_op_find(method)->id, doc, &handlers, r);
    abx_call_enter_start(r->call);
    int rc = abx_envd_client_start(r->client, r->call, &err);
    abx_call_leave_start(r->call);
    if (rc < 0)
        abx_call_discard(ABX_TAKE(r->call));
    return rc;
}

static inline void client_turn(client_rig *r)
{
    (void)uv_run(&r->loop, UV_RUN_NOWAIT);
    if (r->paused && r->call) {
        r->paused = false;
        abx_call_resume(r->call);
    }
    (void)uv_run(&r->loop, UV_RUN_NOWAIT);
}

/* The server's newest connection; -1: none. */
static inline int *client_peer(client_rig *r)
{
    static int none = -1;
    none = -1;
    return r->count > 0 ? &r->peers[r->count - 1] : &none;
}

static inline void client_feed(client_rig *r, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    int fd = *client_peer(r);
    char heard[4096];
    for (int i = 0; i < 100 && n > 0 && fd >= 0; i++) {
        ssize_t put = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EAGAIN)
            return;
        at += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
        client_turn(r);
        while (recv(fd, heard, sizeof(heard), MSG_DONTWAIT) > 0)
            ;
    }
}

/* The connections end, the call with them; nothing stays. */
static inline void client_close(client_rig *r)
{
    r->pauses = false;
    for (int i = 0; i < 1000 && r->call; i++) {
        for (int k = 0; k < r->count; k++)
            abx_close_fd(&r->peers[k]);
        client_turn(r);
        if (i == 500 && r->call)
            abx_call_cancel(r->call);
    }
    while (r->call)
        (void)uv_run(&r->loop, UV_RUN_ONCE);
    abx_envd_client_close(r->client, NULL, NULL);
    (void)uv_run(&r->loop, UV_RUN_DEFAULT);
    ABX_CHECK(uv_loop_close(&r->loop) == 0);
    for (int k = 0; k < r->count; k++)
        abx_close_fd(&r->peers[k]);
}

#endif
