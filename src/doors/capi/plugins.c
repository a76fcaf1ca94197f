/* Which providers there are: lists, descriptions, the store. Plain functions that wait for the disk; they touch no loop and take no lock but
 * the store's own. */
#include <stdlib.h>
#include <string.h>

#include "abx_build.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/capi/inner.h"
#include "host/ledger.h"
#include "host/providers.h"
#include "host/store.h"
#include "host/store_report.h"

/* --- what such a function needs ------------------------------------------------------------------------ */

typedef struct known {
    abx_providers providers;
    abx_config *config;
    char **env;
} known;

static void known_clear(known *k)
{
    abx_config_free(k->config);
    capi_env_free(k->env);
}

static int known_open(known *k, capi_context *ctx, abx_error **err)
{
    memset(k, 0, sizeof(*k));
    if (capi_check_process(ctx, err) < 0 ||
        capi_config_open(ctx, ctx->reads_config, NULL, &k->env, &k->config, err) < 0) {
        known_clear(k);
        return -1;
    }
    k->providers = (abx_providers){ctx->home, capi_adapters(), ABX_VERSION, k->config};
    return 0;
}

/* The text of a document that is taken over; NULL: it failed before. */
static char *text_of(yyjson_mut_doc *d)
{
    if (!d)
        return NULL;
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}

/* --- list, info, caps ----------------------------------------------------------------------------------- */

char *capi_provider_list(capi_context *ctx, abx_error **err)
{
    known k;
    if (known_open(&k, ctx, err) < 0)
        return NULL;
    char *text = text_of(abx_providers_list(&k.providers, err));
    known_clear(&k);
    return text;
}

/* A builtin one is opened to learn what it can do; without keys for it nothing is known. NULL: so it is. */
static yyjson_doc *builtin_features(capi_context *ctx, const char *id)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "provider", id);
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    ABX_AUTO_FREE char *connection = abx_json_text(yyjson_doc_get_root(frozen));
    capi_provider *p = capi_provider_open(ctx, connection, NULL);
    ABX_AUTO_FREE char *text = p ? capi_provider_describe(p, NULL) : NULL;
    capi_provider_close(p);
    return text ? abx_json_parse(text, strlen(text), ABX_ERR_INTERNAL, "features", NULL) : NULL;
}

static yyjson_mut_doc *describe(capi_context *ctx, const known *k, const char *word,
                                abx_error **err)
{
    ABX_AUTO(abx_manifest, abx_manifest_free) m = NULL;
    if (strchr(word, '/') && !(m = abx_providers_folder_manifest(word, err)))
        return NULL;
    ABX_AUTO_JSON opened =
        !m && abx_providers_is_builtin(&k->providers, word) ? builtin_features(ctx, word) : NULL;
    yyjson_val *features = opened ? abx_json_get(yyjson_doc_get_root(opened), "features") : NULL;
    return abx_providers_info(&k->providers, m ? NULL : word, m, features, err);
}

char *capi_provider_info(capi_context *ctx, const char *provider, abx_error **err)
{
    known k;
    if (known_open(&k, ctx, err) < 0)
        return NULL;
    char *text = text_of(describe(ctx, &k, provider, err));
    known_clear(&k);
    return text;
}

static void add_caps(capi_context *ctx, const known *k, const char *id, yyjson_mut_doc *d,
                     yyjson_mut_val *list)
{
    ABX_AUTO_ERROR failed = NULL;
    ABX_AUTO_MUT info = describe(ctx, k, id, &failed);
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list), *features = NULL;
    if (info)
        features = yyjson_mut_obj_get(yyjson_mut_doc_get_root(info), "features");
    abx_mut_str(d, o, "id", id);
    if (features)
        abx_mut_put(d, o, "features", yyjson_mut_val_mut_copy(d, features));
    else
        abx_mut_str(d, o, "problem",
                    failed ? abx_error_text(failed)
                           : "what it can do is known only with credentials for it");
}

char *capi_provider_caps(capi_context *ctx, abx_error **err)
{
    known k;
    if (known_open(&k, ctx, err) < 0)
        return NULL;
    ABX_AUTO_MUT all = abx_providers_list(&k.providers, err);
    yyjson_mut_val *root = NULL, *o;
    yyjson_mut_doc *d = all ? abx_mut_new(&root) : NULL;
    yyjson_mut_val *list = d ? abx_mut_arr(d, root, "providers") : NULL;
    size_t i, n;
    yyjson_mut_arr_foreach(
        all ? yyjson_mut_obj_get(yyjson_mut_doc_get_root(all), "providers") : NULL, i, n, o)
    {
        add_caps(ctx, &k, yyjson_mut_get_str(yyjson_mut_obj_get(o, "id")), d, list);
    }
    known_clear(&k);
    return text_of(d);
}

/* --- the store ------------------------------------------------------------------------------------------ */

char *capi_provider_verify(capi_context *ctx, const char *provider, abx_error **err)
{
    abx_store_entry *entries = NULL;
    size_t count = 0;
    if (capi_check_process(ctx, err) < 0 ||
        (!provider && abx_store_list(ctx->home, &entries, &count, err) < 0))
        return NULL;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "providers");
    abx_store_verdict verdict = {0};
    for (size_t i = 0; i < (provider ? 1 : count); i++) {
        (void)abx_store_judge(ctx->home, provider ? provider : entries[i].id, NULL, d, list,
                              &verdict, NULL); /* without a tick nothing interrupts it */
        abx_store_verdict_clear(&verdict);
    }
    abx_store_entries_free(entries, count);
    return text_of(d);
}

static int give_keys(abx_store_change *c, yyjson_val *keys, abx_error **err)
{
    size_t i, n;
    yyjson_val *item;
    if (!keys)
        return 0;
    if (!yyjson_is_arr(keys))
        return abx_fail(err, ABX_ERR_USAGE, "'inherit' must be a list");
    memset(c->now.consent, 0, sizeof(c->now.consent));
    yyjson_arr_foreach(keys, i, n, item)
    {
        abx_core_key key;
        const char *word = yyjson_get_str(item);
        ABX_AUTO_FREE char *shown = abx_printable(word ? word : "");
        if (!word || !abx_core_key_find(word, &key))
            return abx_fail(err, ABX_ERR_USAGE, "'inherit': '%s' is no common key", shown);
        if (!c->manifest->inherit[key])
            return abx_fail(err, ABX_ERR_USAGE, "provider '%s' does not ask for '%s'", c->now.id,
                            word);
        c->now.consent[key] = true;
    }
    return 0;
}

static int commit(abx_store_change *c, yyjson_val *options, abx_error **err)
{
    if (c->step == ABX_STORE_DOWNGRADE && !abx_json_bool(options, "downgrade", false)) {
        abx_fail(err, ABX_ERR_CONFLICT, "provider '%s' is installed in version %s, newer than %s",
                 c->now.id, c->then.version, c->now.version);
        return abx_hint(err, "say so in the options: \"downgrade\": true");
    }
    if (give_keys(c, abx_json_get(options, "inherit"), err) < 0)
        return -1;
    return abx_store_commit(c, err);
}

char *capi_provider_install(capi_context *ctx, const char *source, const char *options,
                            abx_error **err)
{
    static const char *const members[] = {"inherit", "link", "downgrade", NULL};
    ABX_AUTO_JSON doc = capi_object(options, "the options of an installation", members, err);
    if (!doc || capi_check_process(ctx, err) < 0)
        return NULL;
    yyjson_val *o = yyjson_doc_get_root(doc);
    ABX_AUTO(abx_store_change, abx_store_change_free)
    c = abx_json_bool(o, "link", false) ? abx_store_prepare_link(ctx->home, source, NULL, err)
                                        : abx_store_prepare(ctx->home, source, NULL, err);
    return c && commit(c, o, err) == 0 ? text_of(abx_store_change_report(c)) : NULL;
}

int capi_provider_remove(capi_context *ctx, const char *provider, bool force, abx_error **err)
{
    if (capi_check_process(ctx, err) < 0)
        return -1;
    size_t left = abx_store_has(ctx->home, provider) ? abx_ledger_count_of(ctx->home, provider) : 0;
    if (left > 0 && !force)
        return abx_fail(err, ABX_ERR_CONFLICT,
                        "provider '%s' has %zu sandbox%s, which cannot be reached without it",
                        provider, left, left == 1 ? "" : "es");
    return abx_store_uninstall(ctx->home, provider, NULL, err);
}

/* --- settings ------------------------------------------------------------------------------------------- */

char *capi_settings(capi_context *ctx, abx_error **err)
{
    known k;
    if (known_open(&k, ctx, err) < 0)
        return NULL;
    ABX_AUTO_JSON doc = abx_config_list(k.config);
    known_clear(&k);
    return abx_json_text(yyjson_doc_get_root(doc));
}
