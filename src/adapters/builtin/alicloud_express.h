/* Alibaba Cloud Agent Sandbox, Flash edition: a service of E2B's shape with names, errors and limits of its own. For
 * src/adapters/builtin/alicloud_express*.c only. */
#ifndef ABX_ADAPTERS_BUILTIN_ALICLOUD_EXPRESS_H
#define ABX_ADAPTERS_BUILTIN_ALICLOUD_EXPRESS_H

#include "e2b/dialect.h"
#include "host/adapter.h"

#define EXPRESS_ID "alicloud-express"

/* What the addresses are made from. All borrowed, NULL: not given. */
typedef struct express_wish {
    const char *region, *family, *api_url, *domain;
} express_wish;

/* The addresses of a region, or of a domain of the user's own. */
typedef struct express_place {
    char *api_url, *domain;
    char *region; /* by the names, NULL: not one of the service's own names */
} express_place;

/* Both addresses from what was given: one from the other, or from region and family ("fc" without one). 0; -1 and *err
 * (PROVIDER_CONFIG): nothing tells the region, a region that is no name, or addresses of two regions or families. Pure. */
int express_place_init(express_place *place, const express_wish *wish, abx_error **err);
void express_place_clear(express_place *place);
/* The regions that are known, separated by '|'. */
const char *express_regions(void);

/* What differs from E2B's own service. */
extern const abx_e2b_dialect express_dialect;

/* Complete a failure: what this service means by it, and what to do. key: that is used; place: that is spoken to. */
void express_explain(const express_place *place, const char *key, abx_op_id op, abx_error *err);

/* Its options as metadata of new sandboxes. *out (may be NULL: none) is the caller's. 0; -1 and *err (PROVIDER_CONFIG): an option is no
 * JSON object. */
int express_metadata(yyjson_val *options, yyjson_doc **out, abx_error **err);

#endif
