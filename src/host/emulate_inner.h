/* Shared by emulate*.c: one call of a door (outer) that is made of several calls of the provider (inner), one after
 * the other. All on the loop's thread. */
#ifndef ABX_HOST_EMULATE_INNER_H
#define ABX_HOST_EMULATE_INNER_H

#include <uv.h>

#include "base/buf.h"
#include "host/emulate.h"
#include "host/host_private.h"

typedef struct abx__emulation abx__emulation;

/* An inner call ended well; output: bytes of its channels stdout and body. One that failed ends the outer call with
 * its error; nothing is called once that has ended. */
typedef void (*abx__emulation_cb)(abx__emulation *e, yyjson_val *result, const abx_buf *output);

struct abx__emulation {
    abx_host *host;
    char *provider;
    abx_call *outer; /* NULL once it is gone */
    abx_call *inner; /* the one that runs, or NULL */
    bool done;       /* the outer call was given its end */
    int pins;        /* inner calls and handles that still point here */
    abx_buf output;
    abx__emulation_cb on_inner;
    /* Of a relay: sees each event before the outer call gets it. NULL allowed. */
    void (*on_event)(abx__emulation *e, const char *type, yyjson_val *event);
    /* Of a relay: its end, before the outer call's; result: NULL after a failure. NULL allowed. */
    void (*on_relay_end)(abx__emulation *e, yyjson_val *result);
    /* Frees what the kind of emulation holds, and the emulation itself. */
    void (*release)(abx__emulation *e);
    /* The outer call can take more again. NULL allowed. */
    void (*on_resume)(abx__emulation *e);
};

/* Fill in what all have. */
void abx__emulation_init(abx__emulation *e, abx_host *host, const char *provider, abx_call *outer);
/* Accept the outer call with the usual backend: a cancel goes to the inner call, or ends the outer one. */
void abx__emulation_accept(abx__emulation *e);
/* Callbacks of that backend, for one with more of its own. */
void abx__emulation_on_cancel(abx_call *c, void *state);
void abx__emulation_on_release(abx_call *c, void *state);
void abx__emulation_on_resume(abx_call *c, void *state);
void abx__emulation_unpin(abx__emulation *e);
/* End the outer call, unless it has ended; what is given is taken over. */
void abx__emulation_end(abx__emulation *e, yyjson_mut_doc *result);
void abx__emulation_fail(abx__emulation *e, abx_error *err);
/* Free the members of init. */
void abx__emulation_clear(abx__emulation *e);

/* Run an inner call. params is taken over; body (n bytes, copied; NULL: none) is its input; at most keep bytes of what
 * it gives are kept for cb, more is an error. */
void abx__emulation_ask(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params, const void *body,
                        size_t n, size_t keep, abx__emulation_cb cb);
/* Run an inner call with these handlers; their data is e. Its end has to forget e->inner and to unpin. */
void abx__emulation_call(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params,
                         const abx_call_handlers *handlers);
/* Run an inner call whose events, bytes and end are the outer call's, with backpressure. */
void abx__emulation_relay(abx__emulation *e, abx_op_id op, yyjson_mut_doc *params);

/* Parameters for an inner call: those of the outer one that are named (NULL at the end), as they are. */
yyjson_mut_doc *abx__emulation_params(const abx__emulation *e, yyjson_mut_val **root,
                                      const char *const *names);
/* 'text' for a shell. */
char *abx__shell_word(const char *text);

/* The kinds. Each accepts the call. */
void abx__emulate_stat(abx_host *host, const char *provider, abx_call *call);
void abx__emulate_range(abx_host *host, const char *provider, abx_call *call);
void abx__emulate_watch(abx_host *host, const char *provider, abx_call *call);
void abx__emulate_start(abx_host *host, const char *provider, abx_call *call);
void abx__emulate_stdin(abx_host *host, const char *provider, abx_call *call);

/* A process whose standard input is a folder of files: 0, 1, 2 …, then `end`. Owned by the host. */
typedef struct abx__file_input {
    struct abx__file_input *next;
    char *provider, *sandbox, *process, *user; /* user: or NULL */
    char *folder;                              /* as process.start made it */
    uint64_t written;                          /* the name of the next file */
    bool busy;                                 /* somebody writes */
    bool over;                                 /* the process has ended */
} abx__file_input;

abx__file_input *abx__file_input_find(abx_host *host, const char *provider, const char *sandbox,
                                      const char *process);
/* The process has ended: nobody reads any more. The folder goes once nobody writes. */
void abx__file_input_end(abx_host *host, abx__file_input *input);
void abx__file_inputs_free(abx_host *host);

#endif
