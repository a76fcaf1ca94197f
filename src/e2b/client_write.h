/* fs.write, shared by its files (src/e2b/client_write*.c) only.
 *
 * Our own envd takes all that the call may ask for in one request. A stranger's knows nothing of `whole`, `mode` and
 * `modifiedAt`; there they are steps around the upload:
 *   look      Stat of the target, for `whole`: a link is followed, an old file's mode is kept
 *   send      the upload; for `whole` to a name beside the target
 *   arrange   a command in the sandbox: chmod, touch
 *   move      Move to the target, for `whole`
 * When one of them fails, what was uploaded beside the target is removed again. */
#ifndef ABX_E2B_CLIENT_WRITE_H
#define ABX_E2B_CLIENT_WRITE_H

#include "e2b/client_inner.h"

typedef struct abx__writing {
    int64_t expected; /* -1: unknown */
    int64_t size;     /* that came */
    bool refused;     /* the answer came before the body had ended */
    bool cancelled;
    /* the request */
    char *to;        /* where the upload goes: the target, or a name beside it */
    char *target;    /* where it moves then; NULL: it is there already */
    char **metadata; /* header lines */
    size_t metadata_count;
    bool form;
    char boundary[28];
    /* what the call asks for besides the bytes, in the dialect of strangers */
    bool whole;
    int mode;       /* -1: as it comes */
    char *modified; /* "@SECONDS.NANOSECONDS", or NULL */
    /* what came before the upload began */
    abx_buf early;
    bool sending, input_ended;
    /* what came of it */
    char *path; /* absolute */
    int removals;
    abx_error *why; /* the failure, while what was uploaded is removed */
} abx__writing;

/* client_write_request.c: read the parameters; 0, or -1 and *err. */
int abx__write_params(abx__envd_job *job, abx_error **err);
/* The query of our own envd's additions, appended. 0, or -1 and *err. */
int abx__write_additions(const abx__envd_job *job, abx_buf *path, abx_error **err);
/* The text in front of the bytes of a form, and behind them. */
int abx__write_form_head(const abx__writing *w, abx_buf *out);
int abx__write_form_tail(const abx__writing *w, abx_buf *out);

/* client_write.c: begin the upload to w->to. 0, or -1 and *err. */
int abx__write_send(abx__envd_job *job, abx_error **err);
/* The end of the call, with the path that was written. */
void abx__write_done(abx__envd_job *job);

/* client_write_steps.c: before the upload; 0, or -1 and *err. */
int abx__write_look(abx__envd_job *job, abx_error **err);
/* After a good upload: what is left to do, then the end of the call. */
void abx__write_arrange(abx__envd_job *job);
/* The call fails with err (taken over) when what was uploaded beside the target is gone. */
void abx__write_fail(abx__envd_job *job, abx_error *err);

#endif
