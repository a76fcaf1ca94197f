/* The routes of the control plane. */
#include <string.h>

#include "base/mem.h"
#include "doors/e2b/control.h"

extern const e2b_route e2b_routes[];
const e2b_route e2b_routes[] = {
    {"GET", "/health", e2b_do_health},
    {"POST", "/sandboxes", e2b_do_create},
    {"POST", "/v2/sandboxes", e2b_do_create},
    {"GET", "/sandboxes", e2b_do_list},
    {"GET", "/v2/sandboxes", e2b_do_list},
    {"GET", "/sandboxes/metrics", e2b_do_metrics_of_many},
    {"GET", "/sandboxes/{}", e2b_do_info},
    {"DELETE", "/sandboxes/{}", e2b_do_kill},
    {"POST", "/sandboxes/{}/timeout", e2b_do_timeout},
    {"POST", "/sandboxes/{}/refreshes", e2b_do_refresh},
    {"POST", "/sandboxes/{}/pause", e2b_do_pause},
    {"POST", "/sandboxes/{}/resume", e2b_do_resume},
    {"POST", "/sandboxes/{}/connect", e2b_do_connect},
    {"POST", "/v2/sandboxes/{}/connect", e2b_do_connect},
    {"POST", "/sandboxes/{}/fork", e2b_do_fork},
    {"POST", "/sandboxes/{}/snapshots", e2b_do_snapshot_create},
    {"GET", "/snapshots", e2b_do_snapshot_list},
    {"GET", "/sandboxes/{}/metrics", e2b_do_metrics},
    {"GET", "/sandboxes/{}/logs", e2b_do_logs},
    {"GET", "/v2/sandboxes/{}/logs", e2b_do_logs},
    {"PUT", "/sandboxes/{}/network", e2b_do_network},
    {"GET", "/templates", e2b_do_template_list},
    {"GET", "/templates/aliases/{}", e2b_do_template_alias},
    {"DELETE", "/templates/{}", e2b_do_template_remove},
    {NULL, NULL, NULL},
};

/* Families that programs of E2B's ask for and that are not here: what to say of them. */
static const struct {
    const char *prefix, *text;
} absent[] = {
    {"/templates",
     "building templates is not supported by this server: 'abx template add' makes one"},
    {"/v2/templates",
     "building templates is not supported by this server: 'abx template add' makes one"},
    {"/v3/templates",
     "building templates is not supported by this server: 'abx template add' makes one"},
    {"/volumes", "volumes are not supported by this server"},
    {"/volumecontent", "volumes are not supported by this server"},
    {"/secrets", "secrets are not supported by this server"},
    {"/teams", "teams are not supported by this server: it has one user"},
};

const char *e2b_route_absent(const char *path)
{
    for (size_t i = 0; i < ABX_COUNT(absent); i++) {
        size_t n = strlen(absent[i].prefix);
        if (strncmp(path, absent[i].prefix, n) == 0 && (path[n] == 0 || path[n] == '/'))
            return absent[i].text;
    }
    return NULL;
}
