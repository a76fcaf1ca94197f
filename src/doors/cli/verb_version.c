#include <stdlib.h>
#include <string.h>

#include "abx_build.h"
#include "base/mem.h"
#include "base/protocols.h"
#include "doors/cli/print.h"
#include "doors/cli/schema.h"
#include "doors/cli/verbs.h"
#include "licenses.h"

static int print_json(abx_cli *cli, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "version", ABX_VERSION);
    abx_mut_str(d, root, "commit", ABX_COMMIT);
    abx_mut_str(d, root, "platform", ABX_PLATFORM);
    yyjson_mut_val *protocols = abx_mut_obj(d, root, "protocols");
    abx_mut_int(d, protocols, "schema", ABX_PROTOCOL_SCHEMA);
    abx_mut_str(d, protocols, "envd", ABX_PROTOCOL_ENVD);
    yyjson_mut_val *providers = abx_mut_arr(d, root, "providers");
    for (size_t i = 0; cli->adapters && cli->adapters[i]; i++)
        for (const char *const *id = cli->adapters[i]->builtin_ids; id && *id; id++)
            yyjson_mut_arr_add_strcpy(d, providers, *id);
    return abx_print_json_mut(cli, root, err);
}

int abx_verb_version(abx_cli *cli, abx_error **err)
{
    if (abx_has_flag(cli->args, ABX_FLAG_LICENSES)) {
        size_t n = 0;
        ABX_AUTO_FREE char *text = abx_licenses_text(&n);
        if (!text)
            return abx_fail(err, ABX_ERR_INTERNAL, "no licence texts were built in");
        return abx_print(cli, text, n, err);
    }
    if (abx_cli_json(cli))
        return print_json(cli, err);
    return abx_print_line(cli, "abx " ABX_VERSION " (" ABX_COMMIT ", " ABX_PLATFORM ")", err);
}

int abx_verb_schema(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_MUT d = abx_schema();
    return abx_print_json_mut(cli, yyjson_mut_doc_get_root(d), err);
}
