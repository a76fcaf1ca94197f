/* config: settings with their source. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/print.h"
#include "doors/cli/secret_input.h"
#include "doors/cli/verbs.h"
#include "host/config_keys.h"

int abx_verb_config_list(abx_cli *cli, abx_error **err)
{
    static const char *const headers[] = {"KEY", "VALUE", "SOURCE", "WHERE", NULL};
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    ABX_AUTO_JSON doc = abx_config_list(cli->_config);
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "settings");
    int rc = abx_print_list(cli, "settings", array, "key", err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *s;
    yyjson_arr_foreach(array, i, n, s)
    {
        yyjson_val *value = abx_json_get(s, "value");
        ABX_AUTO_FREE char *text = !value                 ? NULL
                                   : yyjson_is_str(value) ? abx_strdup(yyjson_get_str(value))
                                                          : abx_json_text(value);
        const char *cells[] = {abx_json_str(s, "key", NULL), text, abx_json_str(s, "source", NULL),
                               abx_json_str(s, "where", NULL)};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

/* The row of `config list` with this key: it has secrets blanked. Borrowed; NULL without one. */
static yyjson_val *find_setting(yyjson_val *array, const char *key)
{
    size_t i, n;
    yyjson_val *s;
    yyjson_arr_foreach(array, i, n, s)
    {
        if (abx_str_eq(abx_json_str(s, "key", NULL), key))
            return s;
    }
    return NULL;
}

int abx_verb_config_get(abx_cli *cli, abx_error **err)
{
    const char *key = cli->args->words[0];
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    ABX_AUTO_JSON doc = abx_config_list(cli->_config);
    yyjson_val *s = find_setting(abx_json_get(yyjson_doc_get_root(doc), "settings"), key);
    if (!s) {
        if (!abx_config_row(cli->_config, key, ABX_ERR_USAGE, err))
            return -1;
        abx_cli_note(cli, "abx: '%s' is not set", key);
        return 1;
    }
    if (abx_cli_json(cli))
        return abx_print_json(cli, s, err);
    const char *value = abx_json_str(s, "value", NULL);
    if (!value) {
        abx_cli_note(cli, "abx: '%s' is not set", key);
        return 1;
    }
    return abx_print_line(cli, value, err);
}

/* --dry-run of set (value: as it was typed, not what standard input holds), unset and trust. */
static int plan_config(abx_cli *cli, const char *what, const char *key, const char *value,
                       abx_error **err)
{
    if (key && abx_config_check_key(cli->_config, key, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    bool trusted;
    abx_mut_str(d, root, "key", key);
    abx_mut_str(d, root, "value", value);
    abx_mut_str(d, root, "file",
                key ? abx_config_user_path(cli->_config)
                    : abx_config_project_path(cli->_config, &trusted));
    return abx_dry_run_add(cli, what, NULL, d, err);
}

/* --json of set and unset: what was written or removed, and where. A value that may be a secret is not repeated. */
static int print_change(abx_cli *cli, const char *key, abx_error **err)
{
    if (!abx_cli_json(cli))
        return 0;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "key", key);
    abx_mut_str(d, root, "file", abx_config_user_path(cli->_config));
    return abx_print_json_mut(cli, root, err);
}

int abx_verb_config_set(abx_cli *cli, abx_error **err)
{
    const char *key = cli->args->words[0];
    const char *value = cli->args->words[1];
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    if (cli->dry_run && !(abx_config_is_secret(cli->_config, key) && !abx_is_reference(value) &&
                          strcmp(value, "-") != 0))
        return plan_config(cli, "config.set", key, value, err);
    if (strcmp(value, "-") == 0) {
        ABX_AUTO_FREE char *instead = abx_format("abx config set %s - < FILE", key);
        const abx_secret_ask ask = {.what = "value", .instead = instead};
        char *read = abx_read_secret(cli, &ask, err);
        int rc = -1;
        if (read && !read[0])
            abx_fail(err, ABX_ERR_USAGE, "standard input holds no value");
        else if (read)
            rc = abx_config_write(cli->_config, key, read, err);
        if (read)
            explicit_bzero(read, strlen(read));
        free(read);
        return rc < 0 ? -1 : print_change(cli, key, err);
    }
    if (abx_config_is_secret(cli->_config, key) && value[0] && !abx_is_reference(value)) {
        abx_fail(err, ABX_ERR_USAGE,
                 "a secret is no word of a command line, others can see it there");
        return abx_hint(
            err,
            "abx config set %s - reads it from standard input; env:NAME or file:PATH refers to it",
            key);
    }
    return abx_config_write(cli->_config, key, value, err) < 0 ? -1 : print_change(cli, key, err);
}

int abx_verb_config_unset(abx_cli *cli, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    if (cli->dry_run)
        return plan_config(cli, "config.unset", cli->args->words[0], NULL, err);
    const char *key = cli->args->words[0];
    return abx_config_unset(cli->_config, key, err) < 0 ? -1 : print_change(cli, key, err);
}

static int print_paths(abx_cli *cli, abx_error **err)
{
    bool trusted = false;
    const char *project = abx_config_project_path(cli->_config, &trusted);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "user", abx_config_user_path(cli->_config));
    abx_mut_str(d, root, "project", project);
    if (project)
        abx_mut_bool(d, root, "trusted", trusted);
    abx_mut_str(d, root, "home", cli->_home);
    return abx_print_json_mut(cli, root, err);
}

int abx_verb_config_path(abx_cli *cli, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    if (!abx_cli_json(cli))
        return abx_print_line(cli, abx_config_user_path(cli->_config), err);
    return print_paths(cli, err);
}

int abx_verb_config_trust(abx_cli *cli, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    if (cli->dry_run)
        return plan_config(cli, "config.trust", NULL, NULL, err);
    if (abx_config_trust(cli->_config, err) < 0)
        return -1;
    bool trusted = false;
    abx_cli_note(cli, "abx: '%s' is trusted as it is now",
                 abx_config_project_path(cli->_config, &trusted));
    return abx_cli_json(cli) ? print_paths(cli, err) : 0;
}
