/* A service of E2B's shape as a provider: its control plane for sandbox.*, one client of envd (client.h) a sandbox for everything
 * inside. Adapters give it a dialect, what the user configured, and each call; the node runtime uses it the same way.
 *
 * What is known of a sandbox (its tokens, domain, version) is kept in memory and asked for again after a new start.
 * Requests are repeated only where that is safe: reads and what has one effect however often it is sent; whatever never left
 * this machine; what was refused with 429 and Retry-After. A create is sent once. Redirects are not followed.
 *
 * Threads: the loop's. */
#ifndef ABX_E2B_SERVICE_H
#define ABX_E2B_SERVICE_H

#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "e2b/dialect.h"
#include "ops/call.h"

/* "https://api.example.com:8080/x" → "example.com:8080". Owned. */
char *abx_e2b_domain_of(const char *url);

typedef struct abx_e2b_service abx_e2b_service;

typedef struct abx_e2b_service_options {
    uv_loop_t *loop;
    const char *provider;           /* its id, for messages */
    const abx_e2b_dialect *dialect; /* borrowed until close's cb */
    const char *api_url;            /* of the control plane: "https://api.example.com" */
    const char *domain;             /* of the sandboxes; NULL: host of api_url without "api." */
    const char *api_key;            /* NULL: none */
    const char *template_name;      /* instead of the dialect's default; or NULL */
    const char *user;               /* likewise; or NULL */
    uint64_t call_timeout_ms;       /* of one request; 0: 60 s, 300 s where a sandbox is made */
    /* Labels of each new sandbox beside those that the call names, which count more: an object of texts; or NULL. */
    yyjson_val *metadata;
    /* Say more about a call that failed, wherever in the service: change *err. May be NULL. */
    void (*explain)(void *data, abx_op_id op, abx_error *err);
    void *explain_data;
    const abx_log *log;
} abx_e2b_service_options;

/* options is copied but for the dialect. 0; -1 and *err (PROVIDER_CONFIG: an address that cannot be used; API_KEY: a key is needed
 * and not there). Nothing is sent. */
int abx_e2b_service_open(const abx_e2b_service_options *options, abx_e2b_service **out,
                         abx_error **err);
/* Run a call that passed the gate. 0: it will end; -1: *err, not started. */
int abx_e2b_service_start(abx_e2b_service *service, abx_call *call, abx_error **err);
/* Cancel what runs, then cb(data) on the loop. cb may be NULL. */
void abx_e2b_service_close(abx_e2b_service *service, void (*cb)(void *data), void *data);

/* Whether any such service can do this at all: what a feature brings along but E2B's protocol lacks is not there. */
bool abx_e2b_service_has(abx_op_id op);
/* A map of features (name to state) without what abx_e2b_service_has denies. Owned by the caller. */
yyjson_doc *abx_e2b_service_features(yyjson_val *declared);

#endif
