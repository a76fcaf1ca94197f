/* context: what the next command would use, and why. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/details.h"
#include "doors/cli/print.h"
#include "doors/cli/provider_view.h"
#include "doors/cli/verbs.h"
#include "host/config_keys.h"
#include "host/credentials.h"

/* The first of its keys that has a value: where that comes from, and its last characters. True if there is one, or none is needed. */
static bool put_account(abx_cli *cli, const abx_credentials *c, yyjson_mut_doc *d,
                        yyjson_mut_val *root)
{
    for (size_t i = 0; i < c->secret_count; i++) {
        const char *where;
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", c->provider, c->secrets[i].name);
        const char *value = abx_config_get(cli->_config, key, NULL, &where);
        const abx_setting_row *row = abx_config_row(cli->_config, key, ABX_ERR_CONFIG, NULL);
        if (!value || !row)
            continue;
        ABX_AUTO_FREE char *shown = abx_setting_shown(row, value);
        abx_mut_str(d, root, "account", where);
        abx_mut_str(d, root, "key", shown);
        return true;
    }
    for (size_t i = 0; i < c->secret_count; i++)
        if (c->secrets[i].required)
            return false;
    return true;
}

static void put_profiles(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    size_t n;
    const char *const *names = abx_config_profiles(cli->_config, &n);
    if (n == 0)
        return;
    yyjson_mut_val *list = abx_mut_arr(d, root, "profiles");
    for (size_t i = 0; i < n; i++)
        yyjson_mut_arr_add_strcpy(d, list, names[i]);
}

static yyjson_mut_doc *make_context(abx_cli *cli, abx_error **err)
{
    abx_providers known;
    if (abx_cli_open(cli, err) < 0 || abx_cli_providers(cli, &known, err) < 0)
        return NULL;
    const char *source = NULL;
    const char *provider = abx_host_provider(cli->_host, &source);
    ABX_AUTO_CREDENTIALS c = {0};
    bool usable = abx_credentials_open(&known, provider, &c, NULL) == 0;
    ABX_AUTO_FREE char *endpoint = abx_providers_endpoint(&known, provider);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "provider", provider);
    abx_mut_str(d, root, "source", source);
    abx_mut_str(d, root, "endpoint", endpoint);
    if (usable && !put_account(cli, &c, d, root))
        abx_cli_note(cli, "abx: '%s' has no key: type 'abx provider login %s'", provider, provider);
    abx_mut_str(d, root, "profile", abx_config_get(cli->_config, "profile", NULL, NULL));
    put_profiles(cli, d, root);
    abx_mut_str(d, root, "home", cli->_home);
    return d;
}

int abx_verb_context(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_MUT d = make_context(cli, err);
    if (!d)
        return -1;
    if (abx_cli_json(cli))
        return abx_print_json_mut(cli, yyjson_mut_doc_get_root(d), err);
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    abx_details(yyjson_doc_get_root(doc), &out);
    return abx_print_buf(cli, &out, err);
}
