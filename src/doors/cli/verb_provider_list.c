/* provider list, use: which providers there are, and the one that new sandboxes come from. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/print.h"
#include "doors/cli/provider_view.h"
#include "doors/cli/verbs.h"

int abx_verb_provider_list(abx_cli *cli, abx_error **err)
{
    static const char *const headers[] = {"ID", "VERSION", "KIND", "TRUST", "USED", "NAME", NULL};
    abx_providers known;
    if (abx_cli_providers(cli, &known, err) < 0)
        return -1;
    ABX_AUTO_MUT d = abx_providers_list(&known, err);
    if (!d)
        return -1;
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(doc), "providers");
    int rc = abx_print_list(cli, "providers", list, "id", err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o)
    {
        const char *problem = abx_json_str(o, "problem", NULL);
        const char *cells[] = {abx_json_str(o, "id", NULL),
                               abx_json_str(o, "version", NULL),
                               abx_json_str(o, "kind", NULL),
                               abx_json_str(o, "trust", NULL),
                               abx_json_bool(o, "chosen", false) ? "*" : NULL,
                               problem ? problem : abx_json_str(o, "name", NULL)};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

/* The file says one thing, and something that comes before it another. */
static void note_other(abx_cli *cli, const char *id)
{
    const char *where = NULL;
    const char *now = abx_config_get(cli->_config, "provider", NULL, &where);
    if (!abx_str_eq(now, id))
        abx_cli_note(cli, "abx: '%s' is used all the same: %s sets it, which comes before", now,
                     where);
}

int abx_verb_provider_use(abx_cli *cli, abx_error **err)
{
    const char *id = cli->args->words[0];
    abx_providers known;
    if (abx_cli_providers(cli, &known, err) < 0)
        return -1;
    if (!abx_providers_has(&known, id))
        return abx_providers_unknown(&known, id, err);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "key", "provider");
    if (cli->dry_run)
        abx_mut_str(d, root, "value", id);
    abx_mut_str(d, root, "file", abx_config_user_path(cli->_config));
    if (cli->dry_run)
        return abx_dry_run_add(cli, "config.set", NULL, d, err);
    int rc = abx_config_write(cli->_config, "provider", id, err);
    if (rc == 0)
        note_other(cli, id);
    if (rc == 0 && abx_cli_json(cli))
        rc = abx_print_json_mut(cli, root, err);
    yyjson_mut_doc_free(d);
    return rc;
}
