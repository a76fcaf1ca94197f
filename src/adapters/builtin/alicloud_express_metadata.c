/* Extensions of the service that travel as metadata of a new sandbox, each a JSON text. */
#include <string.h>

#include "adapters/builtin/alicloud_express.h"
#include "base/mem.h"

static const struct {
    const char *option, *key;
} extensions[] = {{"vpc", "fc.sandbox.network.vpc"}, {"oss", "fc.sandbox.storage.oss"}};

int express_metadata(yyjson_val *options, yyjson_doc **out, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    *out = NULL;
    for (size_t i = 0; i < ABX_COUNT(extensions); i++) {
        const char *text = abx_json_str(options, extensions[i].option, NULL);
        if (!text)
            continue;
        ABX_AUTO_FREE char *what = abx_format("option '%s'", extensions[i].option);
        ABX_AUTO_JSON parsed =
            abx_json_parse(text, strlen(text), ABX_ERR_PROVIDER_CONFIG, what, err);
        if (!parsed)
            return -1;
        if (!yyjson_is_obj(yyjson_doc_get_root(parsed)))
            return abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "%s must be a JSON object", what);
        abx_mut_str(d, root, extensions[i].key, text);
    }
    if (yyjson_mut_obj_size(root) > 0)
        *out = abx_json_freeze(d);
    return 0;
}
