/* A configuration of what a client sent: its provider, keys and options, as if they were flags that count for this provider alone. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

#define OPTION_MAX ((size_t)16 * 1024)

/* The value of an option as text. Owned; NULL: of another type. */
static char *text_of(yyjson_val *v)
{
    if (yyjson_is_str(v))
        return strlen(yyjson_get_str(v)) == yyjson_get_len(v) ? abx_strdup(yyjson_get_str(v))
                                                              : NULL;
    if (yyjson_is_bool(v))
        return abx_strdup(yyjson_get_bool(v) ? "true" : "false");
    return yyjson_is_int(v) ? abx_format("%lld", (long long)yyjson_get_sint(v)) : NULL;
}

static int give(abx_config *c, const char *provider, const char *key, const char *shown,
                yyjson_val *value, abx_error **err)
{
    ABX_AUTO_FREE char *whole = abx_format("providers.%s.%s", provider, key);
    const abx_setting_row *row = abx_config_row(c, whole, ABX_ERR_PROVIDER_CONFIG, err);
    if (!row)
        return -1;
    ABX_AUTO_FREE char *subject = abx_format("'%s' of the connection", shown);
    char *text = text_of(value);
    if (!text)
        return abx_fail(err, ABX_ERR_USAGE, "%s is no text, whole number or boolean", subject);
    int rc = strlen(text) > OPTION_MAX
                 ? abx_fail(err, ABX_ERR_TOO_LARGE, "%s is too long", subject)
                 : abx_setting_check(row, text, ABX_ERR_PROVIDER_CONFIG, subject, err);
    if (rc < 0) {
        explicit_bzero(text, strlen(text));
        free(text);
        return -1;
    }
    abx_config_value v = {.key = ABX_TAKE(whole),
                          .text = text,
                          .type = ABX_TOML_STRING,
                          .source = ABX_SOURCE_FLAG,
                          .where = abx_strdup("the connection"),
                          .row = row,
                          .literal = true};
    abx__config_add(&c->flags, &v);
    return 0;
}

static int give_options(abx_config *c, const char *provider, yyjson_val *options, abx_error **err)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(options))
        return abx_fail(err, ABX_ERR_USAGE, "'options' of the connection is no object");
    yyjson_obj_foreach(options, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        abx_core_key core;
        ABX_AUTO_FREE char *shown = abx_printable(name);
        if (!*name || strlen(name) != yyjson_get_len(key) || strpbrk(name, ".\"'") ||
            abx_core_key_find(name, &core))
            return abx_fail(err, ABX_ERR_USAGE, "'%.80s' is no option of the provider", shown);
        if (give(c, provider, name, shown, value, err) < 0)
            return -1;
    }
    return 0;
}

/* Which profile, and whether files count at all: who opened the configuration has seen to it. */
static bool is_of_files(const char *name)
{
    return strcmp(name, "profile") == 0 || strcmp(name, "config") == 0;
}

static int fail_member(const char *name, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_printable(name);
    return abx_fail(err, ABX_ERR_USAGE, "unknown member '%.80s' of the connection", shown);
}

static int refuse_files(yyjson_val *connection, abx_error **err)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(connection, i, n, key, value)
    {
        if (is_of_files(yyjson_get_str(key)))
            return fail_member(yyjson_get_str(key), err);
    }
    return 0;
}

int abx_config_give(abx_config *c, const char *provider, yyjson_val *connection, abx_error **err)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(connection, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        abx_core_key core;
        int rc = 0;
        if (strcmp(name, "provider") == 0 || yyjson_is_null(value) || is_of_files(name))
            continue;
        if (strcmp(name, "options") == 0) {
            rc = give_options(c, provider, value, err);
        } else if (!abx_core_key_find(name, &core)) {
            rc = fail_member(name, err);
        } else if (!yyjson_is_str(value)) {
            rc = abx_fail(err, ABX_ERR_USAGE, "'%s' of the connection is no text", name);
        } else {
            rc = give(c, provider, abx_core_key_setting(core), name, value, err);
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

bool abx_config_is_given(const abx_config *c)
{
    return c->given;
}

int abx_config_open_given(const char *home, yyjson_val *connection, abx_config **out,
                          abx_error **err)
{
    abx_config_options options = {.home = home, .no_files = true};
    abx_config *c;
    if (!yyjson_is_obj(connection))
        return abx_fail(err, ABX_ERR_USAGE, "the connection is no object");
    const char *provider = abx_json_str(connection, "provider", NULL);
    if (!provider || !abx_is_name(provider))
        return abx_fail(err, ABX_ERR_USAGE, "'provider' of the connection is no id of a provider");
    if (refuse_files(connection, err) < 0 || abx_config_open(&options, &c, err) < 0)
        return -1;
    if (abx_config_give(c, provider, connection, err) < 0 ||
        abx_config_set_flag(c, "provider", provider, err) < 0) {
        abx_config_free(c);
        return -1;
    }
    *out = c;
    return 0;
}
