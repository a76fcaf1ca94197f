/* provider info: one provider, everything known; provider caps: what all of them can do, side by side. */
#include <string.h>
#include <sys/stat.h>

#include "abx_build.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/details.h"
#include "doors/cli/print.h"
#include "doors/cli/provider_view.h"
#include "doors/cli/verbs.h"
#include "ops/ops.h"

int abx_cli_providers(abx_cli *cli, abx_providers *known, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    *known = (abx_providers){
        .home = cli->_home,
        .adapters = cli->adapters,
        .version = ABX_VERSION,
        .config = cli->_config,
    };
    return 0;
}

bool abx_names_folder(const abx_providers *known, const char *word)
{
    struct stat st;
    if (strchr(word, '/'))
        return true;
    return !abx_providers_has(known, word) && stat(word, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- info ------------------------------------------------------------------------------------------------ */

/* A builtin provider is opened to learn its features; one that cannot be opened has none to show. NULL: unknown. */
static yyjson_doc *builtin_features(abx_cli *cli, const char *id)
{
    if (abx_cli_open(cli, NULL) < 0)
        return NULL;
    return abx_host_describe(cli->_host, id, NULL);
}

static yyjson_doc *describe(abx_cli *cli, const abx_providers *known, const char *word,
                            abx_error **err)
{
    ABX_AUTO(abx_manifest, abx_manifest_free) m = NULL;
    if (abx_names_folder(known, word)) {
        m = abx_providers_folder_manifest(word, err);
        if (!m)
            return NULL;
    }
    ABX_AUTO_JSON opened =
        !m && abx_providers_is_builtin(known, word) ? builtin_features(cli, word) : NULL;
    yyjson_val *features = opened ? abx_json_get(yyjson_doc_get_root(opened), "features") : NULL;
    ABX_AUTO_MUT d = abx_providers_info(known, m ? NULL : word, m, features, err);
    return d ? abx_json_freeze(d) : NULL;
}

static void add_word(abx_buf *out, const char *before, const char *word)
{
    if (word)
        (void)!abx_buf_addf(out, "%s%s%s", out->len ? ", " : "", before, word);
}

static void add_list(abx_buf *out, const char *before, yyjson_val *list)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(list, i, n, item)
    {
        (void)!abx_buf_addf(out, "%s%s", i ? "|" : before, yyjson_get_str(item));
    }
}

/* "string, required, secret, env A|B, set by config.toml:3: ****cdef" */
static char *option_text(yyjson_val *o)
{
    abx_buf out = ABX_BUF(16384);
    add_word(&out, "", abx_json_str(o, "type", ""));
    add_list(&out, " ", abx_json_get(o, "choices"));
    if (abx_json_bool(o, "required", false))
        add_word(&out, "", "required");
    if (abx_json_bool(o, "secret", false))
        add_word(&out, "", "secret");
    yyjson_val *otherwise = abx_json_get(o, "default");
    ABX_AUTO_FREE char *text = otherwise ? abx_json_text(otherwise) : NULL;
    add_word(&out, "default ", text);
    add_list(&out, ", env ", abx_json_get(o, "env"));
    add_word(&out, "set by ", abx_json_str(o, "set", NULL));
    if (abx_json_str(o, "value", NULL))
        (void)!abx_buf_addf(&out, ": %s", abx_json_str(o, "value", ""));
    return abx_buf_take(&out);
}

/* For people: an option in a line, and only the features that there are. */
static yyjson_doc *for_people(yyjson_val *info)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    size_t i, n, k, m;
    yyjson_val *key, *value, *o, *name;
    yyjson_obj_foreach(info, i, n, key, value)
    {
        const char *member = yyjson_get_str(key);
        if (strcmp(member, "options") == 0 && yyjson_arr_size(value)) {
            yyjson_mut_val *options = abx_mut_obj(d, root, "options");
            yyjson_arr_foreach(value, k, m, o)
            {
                ABX_AUTO_FREE char *text = option_text(o);
                abx_mut_str(d, options, abx_json_str(o, "name", "-"), text);
            }
        } else if (strcmp(member, "features") == 0) {
            yyjson_mut_val *features = abx_mut_obj(d, root, "features");
            yyjson_obj_foreach(value, k, m, name, o)
            {
                if (!yyjson_equals_str(o, "unsupported"))
                    abx_mut_val(d, features, yyjson_get_str(name), o);
            }
        } else {
            abx_mut_val(d, root, member, value);
        }
    }
    return abx_json_freeze(d);
}

int abx_verb_provider_info(abx_cli *cli, abx_error **err)
{
    abx_providers known;
    if (abx_cli_providers(cli, &known, err) < 0)
        return -1;
    ABX_AUTO_JSON info = describe(cli, &known, cli->args->words[0], err);
    if (!info)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(info);
    if (abx_cli_json(cli))
        return abx_print_json(cli, root, err);
    if (cli->format == ABX_OUT_NAME || cli->quiet)
        return abx_print_line(cli, abx_json_str(root, "id", "-"), err);
    ABX_AUTO_JSON shown = for_people(root);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_details(yyjson_doc_get_root(shown), &text);
    return abx_print_buf(cli, &text, err);
}

/* --- caps -------------------------------------------------------------------------------------------------- */

/* Add {"id", "features" or "problem"} of one provider. */
static void add_caps(abx_cli *cli, const abx_providers *known, const char *word, yyjson_mut_doc *d,
                     yyjson_mut_val *list)
{
    ABX_AUTO_ERROR failed = NULL;
    ABX_AUTO_JSON info = describe(cli, known, word, &failed);
    yyjson_val *root = info ? yyjson_doc_get_root(info) : NULL;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "id", abx_json_str(root, "id", word));
    if (abx_json_get(root, "features"))
        abx_mut_val(d, o, "features", abx_json_get(root, "features"));
    else
        abx_mut_str(d, o, "problem",
                    failed ? abx_error_text(failed)
                           : "what it can do is known only with credentials for it");
}

static int collect_caps(abx_cli *cli, const abx_providers *known, yyjson_mut_doc *d,
                        yyjson_mut_val *list, abx_error **err)
{
    for (size_t i = 0; i < cli->args->word_count; i++) {
        const char *word = cli->args->words[i];
        if (!abx_names_folder(known, word) && !abx_providers_has(known, word))
            return abx_providers_unknown(known, word, err);
        add_caps(cli, known, word, d, list);
    }
    if (cli->args->word_count)
        return 0;
    ABX_AUTO_MUT all = abx_providers_list(known, err);
    if (!all)
        return -1;
    size_t i, n;
    yyjson_mut_val *o;
    yyjson_mut_arr_foreach(yyjson_mut_obj_get(yyjson_mut_doc_get_root(all), "providers"), i, n, o)
    {
        add_caps(cli, known, yyjson_mut_get_str(yyjson_mut_obj_get(o, "id")), d, list);
    }
    return 0;
}

/* One row of the table: a feature, or an operation that some provider names apart. */
static void add_row(abx_table *t, yyjson_val *list, const char *name)
{
    const char *cells[ABX_TABLE_COLUMNS] = {name};
    size_t i, n;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o)
    {
        if (i + 1 < ABX_TABLE_COLUMNS)
            cells[i + 1] = abx_json_str(abx_json_get(o, "features"), name, NULL);
    }
    abx_table_add(t, cells);
}

static bool some_has(yyjson_val *list, const char *name)
{
    size_t i, n;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o)
    {
        if (abx_json_str(abx_json_get(o, "features"), name, NULL))
            return true;
    }
    return false;
}

static int print_caps(abx_cli *cli, yyjson_val *list, abx_error **err)
{
    const char *headers[ABX_TABLE_COLUMNS + 1] = {"FEATURE"};
    size_t i, n;
    yyjson_val *o;
    yyjson_arr_foreach(list, i, n, o)
    {
        if (i + 1 < ABX_TABLE_COLUMNS)
            headers[i + 1] = abx_json_str(o, "id", "-");
        if (abx_json_str(o, "problem", NULL))
            abx_cli_note(cli, "abx: '%s': %s", abx_json_str(o, "id", "-"),
                         abx_json_str(o, "problem", ""));
    }
    if (n + 1 > ABX_TABLE_COLUMNS)
        abx_cli_note(cli, "abx: only the first %d of %zu providers are shown; name those you want",
                     ABX_TABLE_COLUMNS - 1, n);
    abx_table t;
    abx_table_init(&t, headers);
    for (int f = 0; f < ABX_FEATURE_COUNT; f++)
        add_row(&t, list, abx_feature_name((abx_feature)f));
    for (int op = 0; op < ABX_OP_COUNT; op++) {
        const char *method = abx_op_row_of((abx_op_id)op)->method;
        bool is_feature = false;
        for (int f = 0; f < ABX_FEATURE_COUNT && !is_feature; f++)
            is_feature = strcmp(abx_feature_name((abx_feature)f), method) == 0;
        if (!is_feature && some_has(list, method))
            add_row(&t, list, method);
    }
    return abx_print_table(cli, &t, err);
}

int abx_verb_provider_caps(abx_cli *cli, abx_error **err)
{
    abx_providers known;
    if (abx_cli_providers(cli, &known, err) < 0)
        return -1;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "providers");
    if (collect_caps(cli, &known, d, list, err) < 0)
        return -1;
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    yyjson_val *providers = abx_json_get(yyjson_doc_get_root(doc), "providers");
    int rc = abx_print_list(cli, "providers", providers, "id", err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    return print_caps(cli, providers, err);
}
