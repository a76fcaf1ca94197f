/* The environment of a client of the door. */
#include <stdlib.h>

#include "base/mem.h"
#include "doors/e2b/authority.h"
#include "doors/e2b/life.h"

/* A variable that a shell has from a server without TLS would win over the domain. Empty counts as unset. */
static void take_back(yyjson_mut_doc *d, yyjson_mut_val *root, const char *name)
{
    const char *set = getenv(name);
    if (set && *set)
        abx_mut_str(d, root, name, "");
}

int e2b_variables(const char *home, yyjson_val *info, bool by_names, yyjson_mut_doc *d,
                  yyjson_mut_val *root, abx_error **err)
{
    const char *url = abx_json_str(info, "url", "");
    const char *domain = abx_json_str(info, "domain", NULL);
    abx_mut_str(d, root, "E2B_API_KEY", abx_json_str(info, "key", ""));
    if (!domain || !by_names) {
        abx_mut_str(d, root, "E2B_API_URL", url);
        abx_mut_str(d, root, "E2B_SANDBOX_URL", url);
    }
    if (!domain)
        return 0;
    ABX_AUTO_FREE char *bundle = NULL;
    if (e2b_authority_bundle(home, &bundle, NULL, err) < 0)
        return -1;
    if (by_names) {
        take_back(d, root, "E2B_API_URL");
        take_back(d, root, "E2B_SANDBOX_URL");
    }
    abx_mut_str(d, root, "E2B_DOMAIN", domain);
    abx_mut_str(d, root, "SSL_CERT_FILE", bundle);
    abx_mut_str(d, root, "NODE_EXTRA_CA_CERTS", abx_json_str(info, "certificateAuthority", ""));
    return 0;
}
