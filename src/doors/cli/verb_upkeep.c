/* extend, gc, doctor. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/errors.h"
#include "doors/cli/print.h"
#include "doors/cli/serving.h"
#include "doors/cli/verbs.h"
#include "doors/cli/wildcard.h"

#define EXIT_ISOLATION 11

int abx_verb_extend(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    uint64_t ms;
    if (abx_parse_duration(a->words[1], &ms) < 0) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no duration", a->words[1]);
        return abx_hint(err, "for example 30m, 2h, 1h30m; none for no limit");
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(a->words[0], &root);
    abx_mut_int(params, root, "timeoutMs", ms == ABX_FOREVER ? 0 : (int64_t)ms);
    ABX_AUTO_JSON result = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_SET_TIMEOUT, params, &result, err) < 0)
        return -1;
    if (!abx_cli_json(cli))
        return 0;
    yyjson_mut_val *out = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&out);
    abx_mut_str(d, out, "id", a->words[0]);
    abx_mut_str(d, out, "expiresAt", abx_json_str(yyjson_doc_get_root(result), "expiresAt", NULL));
    return abx_print_json_mut(cli, out, err);
}

/* --- gc ------------------------------------------------------------------------------------------------ */

/* The providers that have something to clear: the chosen one and those in use. */
static int gc_at(abx_cli *cli, const char *provider, bool dry, yyjson_mut_doc *d,
                 yyjson_mut_val *list, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_mut_new(&root);
    if (dry)
        abx_mut_bool(params, root, "dryRun", true);
    ABX_AUTO_JSON result = NULL;
    if (abx_cli_call_at(cli, provider, ABX_OP_PROVIDER_GC, params, &result, err) < 0)
        return -1;
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(abx_json_get(yyjson_doc_get_root(result), "removed"), i, n, item)
    {
        yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, item));
    }
    return 0;
}

static int print_removed(abx_cli *cli, yyjson_val *array, bool dry, abx_error **err)
{
    static const char *const headers[] = {"ID", "WHAT", NULL};
    if (yyjson_arr_size(array) == 0) {
        abx_cli_note(cli, "abx: nothing to clear");
        return 0;
    }
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(array, i, n, item)
    {
        const char *cells[] = {abx_json_str(item, "id", NULL), abx_json_str(item, "what", NULL)};
        abx_table_add(&t, cells);
    }
    if (dry)
        abx_cli_note(cli, "abx: nothing was removed; without --dry-run these are");
    return abx_print_table(cli, &t, err);
}

/* With no provider of the user's choice: those in use, and local, which needs no account. */
static int collect_gc(abx_cli *cli, bool dry, yyjson_mut_doc *d, yyjson_mut_val *list,
                      abx_error **err)
{
    const char *const *used = NULL;
    if (abx_cli_open(cli, err) < 0 || abx_host_used_providers(cli->_host, &used, err) < 0)
        return -1;
    const char *ids[64];
    size_t n = 0;
    for (; used[n] && n + 1 < ABX_COUNT(ids); n++)
        ids[n] = used[n];
    if (n == 0)
        ids[n++] = "local";
    for (size_t i = 0; i < n; i++) {
        ABX_AUTO_ERROR failed = NULL;
        if (gc_at(cli, ids[i], dry, d, list, &failed) == 0)
            continue;
        if (n > 1 && failed->id == ABX_ERR_FEATURE_MISSING)
            continue; /* a provider that keeps nothing on this machine */
        return abx_error_take(err, ABX_TAKE(failed));
    }
    return 0;
}

int abx_verb_gc(abx_cli *cli, abx_error **err)
{
    bool dry = abx_has_flag(cli->args, ABX_FLAG_DRY_RUN);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (collect_gc(cli, dry, d, abx_mut_arr(d, root, "removed"), err) < 0)
        return -1;
    abx_mut_bool(d, root, "dryRun", dry);
    if (cli->format == ABX_OUT_JSON)
        return abx_print_json_mut(cli, root, err);
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "removed");
    int rc = abx_print_list(cli, "removed", array, "id", err);
    if (rc == 0)
        rc = print_removed(cli, array, dry, err);
    return rc < 0 ? -1 : 0;
}

/* --- doctor -------------------------------------------------------------------------------------------- */

static int print_layers(abx_cli *cli, yyjson_val *layers, bool ok, abx_error **err)
{
    static const char *const headers[] = {"LAYER", "STATE", "DETAIL", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    ABX_AUTO_BUF fixes = ABX_BUF(SIZE_MAX / 2);
    size_t i, n;
    yyjson_val *layer;
    yyjson_arr_foreach(layers, i, n, layer)
    {
        bool holds = abx_json_bool(layer, "ok", false);
        const char *name = abx_json_str(layer, "name", "-");
        const char *fix = abx_json_str(layer, "fix", NULL);
        const char *state = holds                                     ? "ok"
                            : abx_json_bool(layer, "optional", false) ? "missing"
                                                                      : "fails";
        const char *cells[] = {name, state, abx_json_str(layer, "detail", NULL)};
        abx_table_add(&t, cells);
        if (!holds && fix)
            ABX_CHECK(abx_buf_addf(&fixes, "\nfix for %s:\n  %s\n", name, fix) == 0);
    }
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_table_write(&t, abx_print_width(cli), &text);
    abx_table_clear(&t);
    int rc = abx_buf_add(&text, abx_buf_cstr(&fixes), fixes.len);
    rc |= abx_buf_add_str(&text, ok ? "\nall layers hold: sandboxes can be made here\n"
                                    : "\nsome layers fail: sandboxes need them\n");
    ABX_CHECK(rc == 0);
    return abx_print_buf(cli, &text, err);
}

/* For servers that have a name for each sandbox: that of the one that runs, else what one would have. */
static void add_names(abx_cli *cli, yyjson_mut_doc *d)
{
    abx_served served = {0};
    if (!cli->e2b || abx_serving_look(cli, cli->e2b->name, &served, NULL) < 0)
        return;
    const char *address =
        abx_json_str(yyjson_doc_get_root(served.info), "domain", cli->e2b->domain);
    ABX_AUTO_FREE char *domain = abx_strndup(address, strcspn(address, ":"));
    bool ok = abx_wildcard_leads_here(domain);
    ABX_AUTO_FREE char *detail =
        abx_format("names below '%s' %s: for 'abx e2b serve --tls'", domain,
                   ok ? "lead to this machine" : "are not known here");
    yyjson_mut_val *layers = yyjson_mut_obj_get(yyjson_mut_doc_get_root(d), "layers");
    yyjson_mut_val *layer = yyjson_mut_arr_add_obj(d, layers);
    abx_mut_str(d, layer, "name", "names");
    abx_mut_bool(d, layer, "ok", ok);
    abx_mut_bool(d, layer, "optional", true);
    abx_mut_str(d, layer, "detail", detail);
    if (!ok) {
        ABX_AUTO_FREE char *fix = abx_wildcard_fix(domain);
        abx_mut_str(d, layer, "fix", fix);
    }
    abx_served_clear(&served);
}

int abx_verb_doctor(abx_cli *cli, abx_error **err)
{
    const char *source = NULL;
    if (abx_cli_open(cli, err) < 0)
        return -1;
    abx_source from = ABX_SOURCE_DEFAULT;
    abx_config_get(cli->_config, "provider", &from, &source);
    const char *provider =
        from == ABX_SOURCE_DEFAULT ? "local" : abx_host_provider(cli->_host, NULL);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call_at(cli, provider, ABX_OP_PROVIDER_DOCTOR, abx_mut_new(&root), &found, err) < 0)
        return -1;
    yyjson_mut_doc *more = yyjson_doc_mut_copy(found, NULL);
    add_names(cli, more);
    ABX_AUTO_JSON result = abx_json_freeze(more);
    yyjson_mut_doc_free(more);
    yyjson_val *layers = abx_json_get(yyjson_doc_get_root(result), "layers");
    bool ok = true;
    size_t i, n;
    yyjson_val *layer;
    yyjson_arr_foreach(layers, i, n, layer)
    {
        /* What one can do without says so: it is shown, and no failure. */
        ok = ok && (abx_json_bool(layer, "ok", false) || abx_json_bool(layer, "optional", false));
    }
    int rc;
    if (cli->format == ABX_OUT_JSON) {
        ABX_AUTO_MUT d = yyjson_doc_mut_copy(result, NULL);
        yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
        abx_mut_str(d, o, "provider", provider);
        yyjson_mut_obj_put(o, yyjson_mut_str(d, "ok"), yyjson_mut_bool(d, ok));
        rc = abx_print_json_mut(cli, o, err);
    } else {
        rc = abx_print_list(cli, "layers", layers, "name", err);
        if (rc == 0)
            rc = print_layers(cli, layers, ok, err);
    }
    return rc < 0 ? -1 : ok ? 0 : EXIT_ISOLATION;
}
