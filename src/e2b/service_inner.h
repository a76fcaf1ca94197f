/* What the parts of a service share; for src/e2b/service*.c and control*.c only. */
#ifndef ABX_E2B_SERVICE_INNER_H
#define ABX_E2B_SERVICE_INNER_H

#include "e2b/client.h"
#include "e2b/control.h"

typedef struct abx__svc_box abx__svc_box;
typedef struct abx__svc_job abx__svc_job;

#define ABX__SVC_REQUEST_MS 60000
#define ABX__SVC_MAKE_MS    300000 /* a request that makes or wakes a sandbox */

struct abx_e2b_service {
    uv_loop_t *loop;
    const abx_e2b_dialect *dialect;
    char *provider, *api_url, *domain, *template_name, *user;
    char *auth; /* header line with the key, or NULL */
    char *key;  /* what no error may show; or NULL */
    uint64_t call_timeout_ms;
    yyjson_doc *metadata; /* of each new sandbox; or NULL */
    void (*explain)(void *data, abx_op_id op, abx_error *err);
    void *explain_data;
    const abx_log *log;
    abx_http *http; /* opened by the first request */
    abx__ctl *questions;
    abx__svc_box *boxes;
    abx__svc_job *jobs;
    /* what was found to work, 0: not known yet */
    bool create_known, create_v1;
    abx_e2b_way way;
    bool closing;
    int open; /* what must end before the service can */
    void (*close_cb)(void *data);
    void *close_data;
};
void abx__svc_hold(abx_e2b_service *s); /* one more thing is open */
void abx__svc_drop(abx_e2b_service *s); /* and one less: s may be gone */
uint64_t abx__svc_timeout(const abx_e2b_service *s, bool makes);

/* --- sandboxes that are known (service_box.c) ------------------------------------------------------------- */
struct abx__svc_box {
    abx__svc_box *next;
    abx_e2b_service *service;
    char *id, *token, *traffic_token, *domain, *version;
    bool known;  /* the service has told of it */
    bool closed; /* its ports are closed to those without a traffic token */
    bool paused;
    abx_envd_client *client;
    abx__ctl *question;
    abx__ctl *look; /* whether it is gone */
    struct abx__svc_waiter *waiters;
};

abx__svc_box *abx__svc_box_find(abx_e2b_service *s, const char *id);
/* The box of a sandbox of which an answer (already checked) tells. */
abx__svc_box *abx__svc_box_learn(abx_e2b_service *s, yyjson_val *sandbox);
/* Forget a sandbox; gone: calls that run in it end with SANDBOX_ENDED. NULL is fine. */
void abx__svc_box_forget(abx__svc_box *box, bool gone);
/* Run a call inside its sandbox: as abx_e2b_service_start. */
int abx__svc_box_start(abx_e2b_service *s, abx_call *call, abx_error **err);
/* Letters, digits, '.', '-' and a port: what may stand in an address. */
bool abx__svc_is_domain(const char *s);
/* URL of a port, without a slash at its end. Owned. NULL and *err: an answer named a domain that is none. */
char *abx__svc_port_url(const abx_e2b_service *s, const char *id, const char *domain, int port);

/* --- calls that the control plane answers (service_job.c) -------------------------------------------------- */
struct abx__svc_job {
    abx_e2b_service *service;
    abx__svc_job *next, **at;
    abx_call *call; /* NULL once it let go */
    bool ended;
    abx__ctl *request;
    void (*then)(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err);
    /* The caller wants the end. NULL: the request is dropped, the call fails. */
    void (*cancel)(abx__svc_job *job);
    const char *route; /* of the request, for messages */
    char *route_text;
    char *sandbox; /* parameter sandboxId, or NULL */
    /* of a connect: the sandbox was reached. NULL: the call ends with its object */
    void (*reached)(abx__svc_job *job, yyjson_val *sandbox);
    uint64_t deadline;
    /* for those who need them */
    yyjson_doc *body;
    abx_error *why; /* told once what is not wanted is gone; or NULL */
    uint64_t ready_until, silent_until;
    unsigned step;
    char *mark; /* a cursor of the list that was there */
    bool repeated, unwanted;
    abx__about about; /* of a create: what is missing when it says "not found" */
    yyjson_mut_doc *result;
    yyjson_mut_val *items;
};

/* Connect to the job's sandbox; job->reached hears of it, a failure ends the call. seconds: its new life. */
void abx__svc_reach(abx__svc_job *job, int64_t seconds);
/* Accept the call. */
abx__svc_job *abx__svc_job_new(abx_e2b_service *s, abx_call *call);
/* Send a request; one at a time. METHOD and PATH (path is a format; texts in it must be escaped). */
typedef struct abx__svc_send {
    const char *method;
    char *path;      /* taken over */
    const char *url; /* as in abx__ctl_request */
    const char *const *headers;
    yyjson_mut_doc *body;
    bool repeat, makes;
    abx__about about;
    const char *subject;
    uint64_t delay_ms;
    void (*then)(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err);
} abx__svc_send;
void abx__svc_job_send(abx__svc_job *job, const abx__svc_send *send);
void abx__svc_job_end(abx__svc_job *job, yyjson_mut_doc *result); /* taken over */
void abx__svc_job_fail(abx__svc_job *job, abx_error *err);        /* taken over */
void abx__svc_jobs_close(abx_e2b_service *s);
/* A cancel of what makes a sandbox: its end is waited for, since the sandbox may be born all the same. */
void abx__svc_unwant(abx__svc_job *job);
/* End the sandbox job->sandbox, which was made and is not wanted, then fail the job with `why` (taken over). */
void abx__svc_kill_unwanted(abx__svc_job *job, abx_error *why);
/* End the job with `result` (taken over) once envd of the new sandbox answers (service_ready.c). */
void abx__svc_wait_ready(abx__svc_job *job, yyjson_mut_doc *result);
/* The cursor of the next page of a list (borrowed of the answer); NULL: that was the last one, or there is no last one: *err. */
const char *abx__svc_next_page(abx__svc_job *job, const abx__ctl_answer *answer, abx_error **err);
/* The path of an operation for a sandbox or another {id} (or NULL): the dialect's own route, else `otherwise`. *method is set when
 * the dialect names one. Owned. */
char *abx__svc_route(const abx_e2b_service *s, abx_op_id op, const char *otherwise, const char *id,
                     const char **method);

/* --- sandbox objects (service_object.c) -------------------------------------------------------------------- */
/* Does an object of the service tell of a sandbox: its id can be used. 0; -1 and *err, which names route and field. */
int abx__svc_check_sandbox(const char *route, yyjson_val *v, abx_error **err);
/* Is a sandbox that an answer tells of paused, and stays so whoever calls? */
bool abx__svc_is_paused(yyjson_val *sandbox);
/* Put what the service tells into an object of ours. */
void abx__svc_put_sandbox(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v);
/* The label of a sandbox that is its name: such a service has none. */
#define ABX__SVC_NAME_LABEL "abx-name"

/* --- operations -------------------------------------------------------------------------------------------- */
int abx__svc_create(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_info(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_kill(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_connect(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_list(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_set_timeout(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_pause(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_host(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_metrics(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_logs(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_set_network(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_snapshot_create(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_snapshot_list(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_snapshot_remove(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_fork(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_template_list(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_template_info(abx_e2b_service *s, abx_call *call, abx_error **err);
int abx__svc_template_remove(abx_e2b_service *s, abx_call *call, abx_error **err);

/* A question about the call's sandbox at this route; repeat: it has one effect however often it is sent. */
void abx__svc_ask(abx__svc_job *job, abx_op_id op, const char *method, const char *path,
                  yyjson_mut_doc *body, bool repeat,
                  void (*then)(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err));
/* "network" (none, internet, allow:HOST,…) as members of a create's body, or of an update of its network. 0; -1 and *err. */
int abx__svc_put_network(const abx_e2b_service *s, const char *network, bool update,
                         yyjson_mut_doc *d, yyjson_mut_val *body, abx_error **err);

/* Seconds of a timeout in milliseconds, rounded up. */
int64_t abx__svc_seconds(int64_t ms);
/* "timeout" of a request by a timeoutMs that may be absent (< 0). 0; -1 and *err: 0 means no limit, which the service lacks. */
int abx__svc_put_timeout(const abx_e2b_service *s, yyjson_mut_doc *d, yyjson_mut_val *body,
                         int64_t timeout_ms, abx_error **err);

#endif
