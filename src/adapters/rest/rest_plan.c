/* [rest] of a manifest, with the user's options in it, as a dialect. The manifest's reader has checked names and types; what options
 * bring is checked here and by those who use it. */
#include <string.h>

#include "adapters/rest/rest.h"
#include "base/mem.h"
#include "base/text.h"

static const char *keep(rest_plan *plan, char *text)
{
    plan->texts = abx_realloc(plan->texts, (plan->text_count + 1) * sizeof(char *));
    return plan->texts[plan->text_count++] = text;
}

void rest_plan_clear(rest_plan *plan)
{
    for (size_t i = 0; i < plan->text_count; i++)
        free(plan->texts[i]);
    free(plan->texts);
}

/* --- options in texts ---------------------------------------------------------------------------------------- */
/* The value of an option as text, owned; NULL: it has none. */
static char *option_text(yyjson_val *options, const char *name)
{
    yyjson_val *v = abx_json_get(options, name);
    if (yyjson_is_str(v))
        return abx_strdup(yyjson_get_str(v));
    if (yyjson_is_int(v))
        return abx_format("%lld", (long long)yyjson_get_sint(v));
    if (yyjson_is_bool(v))
        return abx_strdup(yyjson_get_bool(v) ? "true" : "false");
    return NULL;
}

/* A text of [rest] with the options in the place of their names; words that the service's client knows stay. NULL: it is not there,
 * or names an option that is not set. */
static const char *take(rest_plan *plan, const abx_connection *c, const char *key)
{
    yyjson_val *rest = yyjson_doc_get_root(c->plugin->manifest->rest);
    const char *text = abx_json_str(rest, key, NULL);
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX);
    if (!text || !strchr(text, '{'))
        return text;
    while (*text) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        ABX_AUTO_FREE char *name = end ? abx_strndup(text + 1, (size_t)(end - text - 1)) : NULL;
        size_t n = end ? (size_t)(end - text) + 1 : 1;
        if (name && abx_manifest_option(c->plugin->manifest, name)) {
            ABX_AUTO_FREE char *value = option_text(c->options, name);
            if (!value || !*value)
                return NULL;
            ABX_CHECK(abx_buf_add_str(&out, value) == 0);
        } else {
            ABX_CHECK(abx_buf_add(&out, text, n) == 0);
        }
        text += n;
    }
    return keep(plan, abx_buf_take(&out));
}

/* --- the parts --------------------------------------------------------------------------------------------------- */
static void take_data(rest_plan *plan, const abx_connection *c, yyjson_val *rest)
{
    abx_e2b_dialect *d = &plan->dialect;
    const char *host = take(plan, c, "dataPlaneHost");
    d->data_url = take(plan, c, "dataPlaneUrl");
    if (!d->data_url && host)
        d->data_url = keep(plan, abx_format("https://%s", host));
    d->connect_to = take(plan, c, "connectTo");
    d->default_user = take(plan, c, "defaultUser");
}

/* "none": there is none. An option that is not set leaves none either. */
static const char *default_template(rest_plan *plan, const abx_connection *c, yyjson_val *rest)
{
    const char *name = take(plan, c, "defaultTemplate");
    if (!name)
        return abx_json_get(rest, "defaultTemplate") ? "" : NULL;
    return strcmp(name, "none") == 0 ? "" : name;
}

void rest_plan_init(rest_plan *plan, const abx_connection *c)
{
    yyjson_val *rest = yyjson_doc_get_root(c->plugin->manifest->rest);
    const char *key_option = abx_json_str(rest, "keyOption", NULL);
    *plan = (rest_plan){.dialect = {.name = c->provider}};
    plan->api_url = c->api_url ? c->api_url : take(plan, c, "apiUrl");
    plan->domain = c->domain ? c->domain : take(plan, c, "domain");
    plan->api_key = key_option ? abx_json_str(c->options, key_option, NULL) : c->api_key;
    plan->dialect.default_template = default_template(plan, c, rest);
    abx_e2b_dialect_take(&plan->dialect, rest, plan->routes);
    take_data(plan, c, rest);
}

/* --- what is missing ---------------------------------------------------------------------------------------------- */
/* The first option in a text of [rest] that has no value, or NULL. Owned. */
static char *unset_option(const abx_connection *c, const char *text)
{
    for (const char *at = text; at && (at = strchr(at, '{'));) {
        size_t n = strcspn(++at, "}");
        ABX_AUTO_FREE char *name = abx_strndup(at, n);
        ABX_AUTO_FREE char *value = option_text(c->options, name);
        if (abx_manifest_option(c->plugin->manifest, name) && (!value || !*value))
            return ABX_TAKE(name);
        at += n;
    }
    return NULL;
}

static int fail_address(const abx_connection *c, abx_error **err)
{
    yyjson_val *rest = yyjson_doc_get_root(c->plugin->manifest->rest);
    ABX_AUTO_FREE char *option = unset_option(c, abx_json_str(rest, "apiUrl", NULL));
    if (option) {
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                 "provider '%s' has no address: its option '%s' is not set", c->provider, option);
        return abx_hint(err, "set it: 'abx config set providers.%s.%s VALUE'", c->provider, option);
    }
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "provider '%s' has no address", c->provider);
    if (c->plugin->manifest->inherit[ABX_CORE_API_URL] && !c->plugin->consent[ABX_CORE_API_URL])
        return abx_hint(err,
                        "let it see the setting: 'abx provider install FOLDER --inherit apiUrl'");
    if (c->plugin->manifest->inherit[ABX_CORE_API_URL])
        return abx_hint(err, "set it: 'abx config set providers.%s.api_url URL'", c->provider);
    return abx_hint(err, "its manifest must name it: [rest] apiUrl");
}

static int fail_key(const abx_connection *c, abx_error **err)
{
    const abx_manifest *m = c->plugin->manifest;
    const char *option = abx_json_str(yyjson_doc_get_root(m->rest), "keyOption", NULL);
    if (option) {
        const abx_option *o = abx_manifest_option(m, option);
        abx_fail(err, ABX_ERR_API_KEY, "no key for provider '%s': its option '%s' is not set",
                 c->provider, option);
        if (o && o->env && o->env[0])
            return abx_hint(err, "set %s, or 'abx config set providers.%s.%s KEY'", o->env[0],
                            c->provider, option);
        return abx_hint(err, "set it: 'abx config set providers.%s.%s KEY'", c->provider, option);
    }
    if (!m->inherit[ABX_CORE_API_KEY]) {
        abx_fail(err, ABX_ERR_API_KEY, "no key for provider '%s': its manifest asks for none",
                 c->provider);
        return abx_hint(err, "its manifest needs [connection] inherit = [\"apiKey\"], or [rest] "
                             "needsKey = false");
    }
    if (!c->plugin->consent[ABX_CORE_API_KEY]) {
        abx_fail(err, ABX_ERR_API_KEY, "provider '%s' may not see the common key apiKey",
                 c->provider);
        return abx_hint(err, "let it: 'abx provider install FOLDER --inherit apiKey'");
    }
    abx_fail(err, ABX_ERR_API_KEY, "no key for provider '%s'", c->provider);
    return abx_hint(err, "'abx provider login %s', or set ABX_API_KEY", c->provider);
}

int rest_plan_check(const rest_plan *plan, const abx_connection *c, abx_error **err)
{
    if (!plan->api_url || !*plan->api_url)
        return fail_address(c, err);
    if (!plan->dialect.key_optional && !(plan->api_key && *plan->api_key))
        return fail_key(c, err);
    return 0;
}
