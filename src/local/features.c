/* What this backend has. */
#include "base/mem.h"
#include "local/local.h"
#include "ops/ops.h"

void abx_local_features(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
    /* every feature of the table is ours by nature, but what only a service on the net has */
    static const char *const names[] = {
#define ABX_FEATURE(id, name, text) name,
#include "ops/features.def"
#undef ABX_FEATURE
    };
    for (size_t i = 0; i < ABX_COUNT(names); i++)
        abx_mut_str(d, obj, names[i],
                    i == ABX_FEATURE_LOGS || i == ABX_FEATURE_NETWORK ? "unsupported" : "native");
    abx_mut_str(d, obj, "sandbox.host", "unsupported");
}
