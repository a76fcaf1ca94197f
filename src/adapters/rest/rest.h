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
    const char *api_url, *domain; /* of the manifest, or NULL */
    char **texts;                 /* owned: what the others point to */
    size_t text_count;
    const char *routes[ABX_OP_COUNT];
} rest_plan;

int rest_plan_init(rest_plan *plan, const abx_connection *connection, abx_error **err);
void rest_plan_clear(rest_plan *plan);

#endif
