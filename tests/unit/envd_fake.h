/* A scripted envd at the other end of socket pairs, a client of it, and calls whose events are written down. Each
 * request takes the next answer of the script; all on one loop. */
#ifndef TESTS_ENVD_FAKE_H
#define TESTS_ENVD_FAKE_H

#include "kit.h"

#include <uv.h>

#include "base/buf.h"
#include "base/json.h"
#include "e2b/client.h"

#define FAKE_MAX 64

typedef struct fake_request {
    char *head;   /* request line and header lines */
    abx_buf body; /* without the chunks' framing */
    abx_buf raw;  /* what came of the body so far */
    bool chunked;
    size_t length;
} fake_request;

typedef struct fake_answer {
    char *bytes;
    size_t n;
    bool close;   /* end the connection behind it */
    bool at_once; /* when the head came, not after the body */
    bool hold;    /* nothing is sent before fake_go_on */
    size_t piece; /* bytes a write, 0: all at once */
} fake_answer;

typedef struct fake {
    uv_loop_t loop;
    abx_envd_client *client;
    int dials, conns;
    bool refuse;   /* dial fails */
    int alive;     /* what alive() says */
    bool no_alive; /* no such function */
    bool well;     /* GET /health is answered, outside of the script: where there is an alive() */
    void *data;    /* a test's own */
    fake_answer answers[FAKE_MAX];
    size_t answer_count, answer_next;
    fake_request *requests[FAKE_MAX];
    size_t request_count;
    struct fake_conn *held; /* waits for fake_go_on */
    struct fake_conn *list;
    bool closed;
} fake;

/* What a call did. */
typedef struct fake_run {
    fake *f;
    abx_call *call;
    abx_buf events; /* "TYPE JSON\n", one a line */
    abx_buf out[ABX_CH_COUNT];
    size_t chunks;
    char *result; /* JSON text */
    abx_error *err;
    int ends, writable;
    bool pause_each; /* pause at each chunk, go on from the loop */
    uv_timer_t timer;
} fake_run;

void fake_open(fake *f, abx_e2b_codec codec, bool abx);
/* Like fake_open, but there is no alive(): the client asks /health. */
void fake_open_asking(fake *f, abx_e2b_codec codec, bool abx);
/* Like fake_open_asking, with these options; loop, dial, id and token are its own. */
void fake_open_options(fake *f, const abx_envd_client_options *options);
void fake_close(fake *f);

/* Add an answer. bytes may hold zeros. */
fake_answer *fake_say(fake *f, const void *bytes, size_t n);
/* A whole answer with a length: status line "200 OK", a type, a body. */
fake_answer *fake_reply(fake *f, const char *status, const char *type, const char *body);
/* A stream of envelopes in JSON, one a text, NULL at the end; a text that begins with '!' has the end flag. */
fake_answer *fake_stream(fake *f, const char *const *messages);
/* Send what is held. */
void fake_go_on(fake *f);

/* Start a call; an error of the start is put into run->err. */
void fake_start(fake *f, fake_run *run, const char *method, const char *params);
/* Turn the loop until the call has ended. */
void fake_wait(fake_run *run);
/* Turn the loop until cond(data) says so. */
void fake_until(fake *f, bool (*cond)(void *data), void *data);
void fake_run_clear(fake_run *run);
/* fake_start and fake_wait. */
void fake_call(fake *f, fake_run *run, const char *method, const char *params);

/* The body of request i; the value of a header, or NULL (owned). */
const char *fake_body(const fake *f, size_t i);
char *fake_header(const fake *f, size_t i, const char *name);
/* The body of request i is one envelope: its message. */
const char *fake_message(const fake *f, size_t i);

/* It has failed, with an error of this name that says this text; it has ended with this result. */
void fake_assert_error(const fake_run *run, const char *name, const char *text);
void fake_assert_result(const fake_run *run, const char *result);
/* fake_run_clear and fake_close. */
void fake_done(fake *f, fake_run *run);

#define assert_request(f, i, start)                                                                \
    assert_memory_equal((f)->requests[i]->head, start, strlen(start))

#endif
