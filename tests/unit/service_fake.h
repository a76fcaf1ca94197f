/* A scripted service of E2B's shape on a port of this machine, a client of it (src/e2b/service.h), and calls whose ends are written
 * down. Each request takes the next answer of the script and must be the one that this answer is for. */
#ifndef TESTS_SERVICE_FAKE_H
#define TESTS_SERVICE_FAKE_H

#include "kit.h"

#include <uv.h>

#include "base/buf.h"
#include "base/json.h"
#include "e2b/service.h"
#include "net/http_server.h"

#define SVC_MAX 64

typedef struct svc_answer {
    const char *request; /* "POST /v2/sandboxes": method and target */
    int status;          /* 0: the connection breaks before an answer */
    const char *body;    /* NULL: none */
    const char *headers[4];
    bool hold; /* nothing is sent before svc_go_on */
} svc_answer;

typedef struct svc_request {
    char *line, *body;
    char *headers; /* "name: value\n" each, names in lower case */
} svc_request;

typedef struct svc {
    uv_loop_t loop;
    abx_http_server *server;
    int port;
    char *url;
    abx_e2b_service *service;
    svc_answer answers[SVC_MAX];
    size_t answer_count, answer_next;
    svc_request requests[SVC_MAX];
    size_t request_count;
    abx_exchange *held;
    int told; /* by the adapter's explain */
    bool closed, server_closed;
} svc;

typedef struct svc_run {
    svc *s;
    abx_call *call;
    char *result; /* JSON text */
    abx_error *err;
    int ends;
} svc_run;

void svc_open(svc *s, const abx_e2b_dialect *dialect);
/* The same, the client with another key (NULL: none) and without a server if `deaf`. */
void svc_open_with(svc *s, const abx_e2b_dialect *dialect, const char *key, bool deaf);
void svc_close(svc *s); /* every answer has been asked for */

/* Add an answer. */
svc_answer *svc_say(svc *s, const char *request, int status, const char *body);
void svc_go_on(svc *s);

void svc_start(svc *s, svc_run *run, const char *method, const char *params);
void svc_wait(svc_run *run);
void svc_call(svc *s, svc_run *run, const char *method, const char *params);
void svc_run_clear(svc_run *run);
/* One call from start to end. */
void svc_gives(svc *s, const char *method, const char *params, const char *result);
void svc_fails(svc *s, const char *method, const char *params, const char *id, const char *text);
/* A header of request i: "name: value" is there. */
bool svc_has_header(const svc *s, size_t i, const char *line);
void svc_until(svc *s, bool (*cond)(void *data), void *data);

#endif
