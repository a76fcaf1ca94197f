/* Providers of kind rest: a manifest and nothing else; the client of src/e2b speaks to the service that it describes. */
#ifndef ABX_ADAPTERS_REST_REST_H
#define ABX_ADAPTERS_REST_REST_H

#include "e2b/dialect.h"
#include "host/adapter.h"

extern const abx_adapter abx_adapter_rest;

/* --- for src/adapters/rest/ only ------------------------------------------------------------------------- */
/* [rest] of a manifest with the options of the user in it. */
typedef struct rest_plan {
    abx_e2b_dialect dialect;
    const char *api_url, *domain, *api_key; /* or NULL */
    char **texts;                           /* owned: what the others point to */
    size_t text_count;
    const char *routes[ABX_OP_COUNT];
} rest_plan;

/* Texts of the connection are borrowed. */
void rest_plan_init(rest_plan *plan, const abx_connection *connection);
void rest_plan_clear(rest_plan *plan);
/* Is there an address and a key, if one is needed? 0; -1 and *err, which says where each was looked for. */
int rest_plan_check(const rest_plan *plan, const abx_connection *connection, abx_error **err);

#endif
