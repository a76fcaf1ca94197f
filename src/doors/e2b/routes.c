/* The routes of the control plane. */
#include "doors/e2b/control.h"

extern const e2b_route e2b_routes[];
const e2b_route e2b_routes[] = {
    {"GET", "/health", e2b_do_health},        {"POST", "/sandboxes", e2b_do_create},
    {"POST", "/v2/sandboxes", e2b_do_create}, {"GET", "/sandboxes", e2b_do_list},
    {"GET", "/v2/sandboxes", e2b_do_list},    {"GET", "/sandboxes/{}", e2b_do_info},
    {"DELETE", "/sandboxes/{}", e2b_do_kill}, {NULL, NULL, NULL},
};
