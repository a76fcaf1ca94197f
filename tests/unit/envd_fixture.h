/* An envd in this process over real processes and files, as the caller's own user, for the tests of it. */
#ifndef ABX_TESTS_ENVD_FIXTURE_H
#define ABX_TESTS_ENVD_FIXTURE_H

#include <uv.h>

#include "base/buf.h"
#include "local/envd/envd.h"

#define FIXTURE_TOKEN "0123456789abcdef"

typedef struct envd_fixture {
    uv_loop_t loop;
    abx_envd *envd;
    char home[64]; /* a new folder: home of "user" */
    char passwd[96];
    bool ended; /* on_end ran */
    bool closed;
    char *token; /* set before open: NULL asks for none */
} envd_fixture;

/* config may be NULL; its listen_fd and first_fd are used as they are when it is given. */
void fixture_open(envd_fixture *f, const abx_envd_config *config);
/* Closes; aborts when a handle of the loop is left. */
void fixture_close(envd_fixture *f);
/* A connection to it: our end, non-blocking. */
int fixture_connect(envd_fixture *f);
/* Send text, then turn the loop until the answer is whole (by its length, its last chunk or the end of the
 * connection) or ms have passed. out gets all that came. Returns the HTTP status, 0 without one. */
int fixture_ask(envd_fixture *f, int fd, const char *text, size_t n, abx_buf *out, int ms);
/* One request on a connection of its own: body may be NULL. headers: "Name: value\r\n…" or "". */
int fixture_call(envd_fixture *f, const char *verb, const char *target, const char *headers,
                 const void *body, size_t n, abx_buf *out);
/* JSON to an RPC; stream: in an envelope. out: the body without head, chunks joined. */
int fixture_rpc(envd_fixture *f, const char *path, bool stream, const char *json, abx_buf *out);
/* Turn the loop for so long, reading what comes on fd (or -1) into out. */
void fixture_turn(envd_fixture *f, int fd, abx_buf *out, int ms);
/* Body of an answer in raw, chunks joined. */
void fixture_body(const abx_buf *raw, abx_buf *body);
/* The k-th envelope of a body: its flags, *json a view (not 0-terminated), or -1. */
int fixture_frame(const abx_buf *body, size_t k, const char **json, size_t *n);
/* Joined bytes of all data events of this member ("stdout", …). */
void fixture_data(const abx_buf *body, const char *member, abx_buf *out);
/* Text of the first envelope that holds this text, or NULL. Owned. */
char *fixture_frame_with(const abx_buf *body, const char *text);

#endif
