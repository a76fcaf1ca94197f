/* The one error object. What can fail returns 0 (or a count) on success and < 0 on failure, takes
 * `abx_error **err` last and fills it exactly when it fails; a NULL err is allowed and drops the text.
 * Text: lower case, no full stop, what failed first, the subject in single quotes, the cause after a
 * colon. Advice is the hint, not the text. Errors are for the world; impossible states are ABX_CHECK.
 *
 * An error belongs to whoever holds the pointer; abx_error_free ends it. Not shared between threads. */
#ifndef ABX_BASE_ERROR_H
#define ABX_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

typedef enum abx_err_id {
#define ABX_ERR(id, code, type, http, exit, retry, what, hint) ABX_ERR_##id,
#include "base/errors.def"
#undef ABX_ERR
    ABX_ERR_COUNT
} abx_err_id;

typedef enum abx_retry { ABX_RETRY_UNKNOWN = -1, ABX_RETRY_NO = 0, ABX_RETRY_YES = 1 } abx_retry;

/* One row of errors.def. */
typedef struct abx_err_row {
    const char *name; /* "FEATURE_MISSING" */
    const char *code; /* "E8004" */
    const char *type; /* "ProviderFeatureNotSupportedError" */
    int http_status;
    int exit_code;
    abx_retry retryable;
    const char *meaning;
    const char *hint; /* default hint or NULL */
} abx_err_row;

typedef struct abx_error {
    abx_err_id id;
    int sys_errno; /* the errno behind it, 0 if none */
    const char *
        about; /* static: the parameter that it is about, where somebody asks ("user", "cwd"); or NULL */
    abx_retry retryable;
    char *message;    /* never NULL */
    char *hint;       /* NULL: the row's default */
    char *request_id; /* the backend's, or NULL */
    char *provider;   /* or NULL */
    char *sandbox;    /* or NULL */
} abx_error;

#define ABX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ABX_EXPORTED          __attribute__((visibility("default")))
#define ABX_MUST_CHECK        __attribute__((warn_unused_result))

/* The row of an id. Never NULL. */
const abx_err_row *abx_err_row_of(abx_err_id id);
/* The row with this code ("E8004"); *id is set when found. Returns 1, or 0 when no row has it. */
int abx_err_find(const char *code, abx_err_id *id);

/* Fill *err (if err is not NULL and *err is NULL: the first error wins) and return -1. */
int abx_fail(abx_error **err, abx_err_id id, const char *fmt, ...) ABX_PRINTF(3, 4);
/* The same, with ": strerror(sys_errno)" behind the text; keeps sys_errno. ENOSPC and EDQUOT become
 * NO_SPACE, EMFILE, ENFILE and EFBIG become QUOTA, whatever the id. */
int abx_fail_errno(abx_error **err, abx_err_id id, int sys_errno, const char *fmt, ...)
    ABX_PRINTF(4, 5);
/* Put "TEXT: " in front of the message of *err, same code. Returns -1. */
int abx_wrap(abx_error **err, const char *fmt, ...) ABX_PRINTF(2, 3);
/* Replace the hint of *err. Returns -1, so that it can end a failing function. */
int abx_hint(abx_error **err, const char *fmt, ...) ABX_PRINTF(2, 3);

/* A new error without the err** frame, for callbacks. The caller owns it. */
abx_error *abx_error_new(abx_err_id id, const char *fmt, ...) ABX_PRINTF(2, 3);
abx_error *abx_error_copy(const abx_error *e);
ABX_EXPORTED void abx_error_free(abx_error *e); /* NULL allowed */
/* Hand `from` over to *err (freed when err is NULL or already set). Returns -1. */
int abx_error_take(abx_error **err, abx_error *from);

/* These, and abx_error_free, are functions of libabx as well (include/abx/abx.h says the same of them). */
ABX_EXPORTED const char *abx_error_code(const abx_error *e);
ABX_EXPORTED const char *abx_error_type(const abx_error *e);
ABX_EXPORTED const char *abx_error_hint(const abx_error *e); /* own hint, else the row's, or NULL */
/* For printf("%s"): the message, or "unknown error" for NULL. */
const char *abx_error_text(const abx_error *e);

static inline void abx_error_auto_(abx_error **e)
{
    abx_error_free(*e);
}
#define ABX_AUTO_ERROR __attribute__((cleanup(abx_error_auto_))) abx_error *

/* An impossible state: says where, and aborts. */
#define ABX_CHECK(cond)                                                                            \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abx_check_failed(__FILE__, __LINE__, #cond);                                           \
    } while (0)
_Noreturn void abx_check_failed(const char *file, int line, const char *what);

#endif
