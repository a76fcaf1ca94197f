/* What differs between services that speak E2B's protocol. One constant of this type describes a service; the client of the control
 * plane (service.h) reads it. A dialect of zeros, with a name, is E2B itself: each member is a difference from that. */
#ifndef ABX_E2B_DIALECT_H
#define ABX_E2B_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "e2b/client.h"
#include "ops/ops.h"

/* How a sandbox is connected to, and woken when it is paused. */
typedef enum abx_e2b_way {
    ABX_E2B_WAY_END,
    ABX_E2B_CONNECT_V2, /* POST /v2/sandboxes/ID/connect */
    ABX_E2B_CONNECT_V1, /* POST /sandboxes/ID/connect */
    ABX_E2B_RESUME /* POST /sandboxes/ID/resume: refuses one that runs, which is then asked for */
} abx_e2b_way;
#define ABX_E2B_WAYS 4

typedef struct abx_e2b_dialect {
    const char *name; /* for messages; never NULL */

    /* --- the control plane ------------------------------------------------------------------------------ */
    const char *auth_header; /* NULL: X-API-Key */
    const char *auth_scheme; /* word in front of the key ("Bearer"); NULL: none */
    bool key_optional;       /* works without a key */
    bool
        v1_first; /* create by POST /sandboxes before /v2/sandboxes; whichever is there is remembered */
    abx_e2b_way connect[ABX_E2B_WAYS + 1]; /* in this order; empty: v2, v1 */
    /* "[METHOD ]/path/{id}" by operation where another route is used, NULL elsewhere; or NULL. create and connect are then tried
     * at that route only. */
    const char *const *routes;
    const char *default_template; /* NULL: "base". "": there is none, a caller must name one */
    /* Life of a sandbox, by the old create and by connect, where the caller names none; 0: 300. */
    uint32_t default_s;
    /* A refused connect (400 that says that the sandbox cannot be resumed yet, 409, 503) is tried again after so long, within the
     * deadline; Retry-After counts more. 0: it is not. */
    uint32_t connect_again_ms;
    bool connect_lies;     /* 200 does not mean that it runs: ask, until it does */
    bool idle_timeout;     /* timeouts are idle windows: traffic renews them */
    bool endless;          /* timeout -1: no limit */
    bool no_network_rules; /* create knows allow_internet_access, and no `network` */
    bool no_auto_pause;    /* onTimeout pause is not there */
    bool no_cursor;        /* list has no pages: what comes is all */
    bool no_filter;        /* list's filter by metadata cannot be relied on */
    bool camel_network;    /* the network's update wants allowInternetAccess */

    /* --- the data plane --------------------------------------------------------------------------------- */
    /* URL of a port of a sandbox. Words: {port} {id} {domain} {api} (the control plane's URL). Without {id} the headers
     * E2b-Sandbox-Id and -Port choose. NULL: "https://{port}-{id}.{domain}". */
    const char *data_url;
    bool own_domain;        /* {domain} is the configured one, whatever answers say */
    const char *connect_to; /* "HOST:PORT" of the proxy that answers for all names; or NULL */
    bool json_only;         /* envd is spoken to in JSON */
    abx_envd_upload upload;
    bool distrust_version;    /* envdVersion says nothing about what envd can do */
    bool poll_watch;          /* changes of files are asked for: streams are held up on the way */
    const char *default_user; /* who runs what names nobody; NULL: envd's own default */
    bool token_on_ports;      /* X-Access-Token is asked for on all ports */
    bool ready_late;          /* after create envd is out of reach for a while */
} abx_e2b_dialect;

/* E2B itself. */
extern const abx_e2b_dialect abx_e2b_plain;

/* Take the members that `words` (the keys of [rest] in a manifest) name and that hold no text with {words}: all but the template, user and addresses of
 * the data plane. What is missing or of another type stays as E2B has it. words must stay; routes: room for a text an operation. */
void abx_e2b_dialect_take(abx_e2b_dialect *d, yyjson_val *words, const char *routes[ABX_OP_COUNT]);

#endif
