/* Requests to the control plane of a service; for src/e2b/control*.c and service*.c only.
 *
 * One abx__ctl is one question with its answer, however often it had to be sent: after a refusal to connect, a 429 with Retry-After,
 * a 502 or 503, and only where a repeat is safe. Its time ends with the caller's deadline. */
#ifndef ABX_E2B_CONTROL_H
#define ABX_E2B_CONTROL_H

#include "base/buf.h"
#include "base/json.h"
#include "e2b/service.h"
#include "net/http_client.h"

#define ABX__CTL_MAX_BODY  ((size_t)16 * 1024 * 1024) /* of an answer */
#define ABX__CTL_MAX_HEAD  ((size_t)64 * 1024)
#define ABX__CTL_MAX_ERROR ((size_t)64 * 1024) /* of a body that explains a failure */
#define ABX__CTL_REPEATS   3
#define ABX__CTL_WAIT_MS                                                                           \
    60000 /* the longest wait that a service may ask for when no deadline bounds it */

typedef struct abx__ctl abx__ctl;

/* What a request is about: it decides what "not found" means. */
typedef enum abx__about {
    ABX__ABOUT_SERVICE,
    ABX__ABOUT_SANDBOX,
    ABX__ABOUT_TEMPLATE,
    ABX__ABOUT_SNAPSHOT
} abx__about;

typedef struct abx__ctl_request {
    const char *method, *path; /* "POST", "/v2/sandboxes"; with query */
    /* Another address than the control plane's, to which no key goes, with headers of its own (NULL at the end); path only names it in
     * messages. NULL: the control plane. */
    const char *url;
    const char *const *headers;
    yyjson_mut_doc *body; /* borrowed during the call; NULL: none */
    bool repeat;          /* has one effect, however often it is sent */
    abx__about about;
    const char *subject; /* the sandbox, template or snapshot, for messages; or NULL */
    uint64_t deadline;   /* abx_now_mono_ms, or ABX_FOREVER */
    uint64_t timeout_ms; /* of one sending */
    uint64_t delay_ms;   /* wait so long before */
} abx__ctl_request;

typedef struct abx__ctl_answer {
    int status;
    yyjson_val *root;  /* NULL: nothing, or no JSON */
    const char *next;  /* X-Next-Token, or NULL */
    bool no_route;     /* the service does not know this route (its error says so too) */
    bool again;        /* it was sent more than once: the first may have had its effect */
    uint64_t after_ms; /* Retry-After, ABX_FOREVER: none */
} abx__ctl_answer;

/* answer: NULL when there was none. err (owned by the receiver): NULL exactly when the status was 2xx and a body, where there was
 * one, JSON. */
typedef void (*abx__ctl_done)(void *data, const abx__ctl_answer *answer, abx_error *err);

/* done runs once, later, from the loop; the question is gone then. Never NULL. */
abx__ctl *abx__ctl_start(abx_e2b_service *service, const abx__ctl_request *request,
                         abx__ctl_done done, void *data);
/* done does not run any more. NULL allowed. */
void abx__ctl_cancel(abx__ctl *ctl);

/* --- errors (control_errors.c) --------------------------------------------------------------------------- */
typedef struct abx__ctl_reply {
    const char *method, *path; /* of the request, without query */
    abx__about about;
    const char *subject;
    int status;
    const char *type, *location, *request_id; /* headers, or NULL */
    uint64_t after_ms;
    const abx_buf *body;
    yyjson_val *root; /* the body as JSON, or NULL */
} abx__ctl_reply;

/* 404 without an explanation in JSON, 405, 410: nobody serves this route. */
bool abx__ctl_no_route(const abx__ctl_reply *reply);
/* Why an answer is not the one that was asked for. Owned. */
abx_error *abx__ctl_error(const abx__ctl_reply *reply);
/* "the answer of POST /sandboxes does not fit: TEXT". Owned. */
abx_error *abx__ctl_misfit(const char *route, const char *fmt, ...) ABX_PRINTF(2, 3);

#endif
