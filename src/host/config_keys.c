#include "host/config_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/manifest.h"

enum { ANY = 1, TRUSTED = 0, SECRET = 1, OPEN = 0 }; /* words of settings.def */

static const abx_setting_row rows[] = {
#define ABX_SETTING(key, type, choices, env, otherwise, project, text)                             \
    {NULL, key, ABX_SETTING_##type, choices, env, otherwise, project, OPEN, text},
#define ABX_COMMON(key, type, env, secret, text)                                                   \
    {"", key, ABX_SETTING_##type, NULL, env, NULL, TRUSTED, secret, text},
#define ABX_OPTION(provider, key, type, choices, otherwise, project, text)                         \
    {provider, key, ABX_SETTING_##type, choices, NULL, otherwise, project, OPEN, text},
#include "host/settings.def"
};

/* What is not in the table, in [providers.ID] of a provider that is not built in. Its manifest is not known here: a
 * name that sounds like a secret is shown as one. */
static const abx_setting_row any_option = {
    "*", "*", ABX_SETTING_ANY, NULL, NULL, NULL, false, false, "an option of the provider"};
static const abx_setting_row any_secret = {
    "*", "*", ABX_SETTING_ANY, NULL, NULL, NULL, false, true, "a secret option of the provider"};

static bool sounds_secret(const char *key)
{
    static const char *const words[] = {"key", "secret", "token", "password", "credential"};
    for (size_t i = 0; i < ABX_COUNT(words); i++)
        if (strcasestr(key, words[i]))
            return true;
    return false;
}

const abx_setting_row *abx_settings(size_t *count)
{
    *count = ABX_COUNT(rows);
    return rows;
}

static bool belongs(const abx_setting_row *row, const char *provider)
{
    if (!provider)
        return !row->provider;
    return row->provider && (!row->provider[0] || strcmp(row->provider, provider) == 0);
}

static bool is_builtin(const char *provider)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (abx_str_eq(rows[i].provider, provider))
            return true;
    return false;
}

/* The options of a builtin provider, all of them: they are few. */
static void hint_options(const char *provider, abx_error **err)
{
    abx_buf list = ABX_BUF(1024);
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (abx_str_eq(rows[i].provider, provider) &&
            abx_buf_addf(&list, "%s'%s'", list.len ? ", " : "", rows[i].key) < 0)
            break;
    abx_hint(err, "provider '%s' has the options %s", provider, abx_buf_cstr(&list));
    abx_buf_clear(&list);
}

static const abx_setting_row *unknown(const char *key, const char *provider, const char *last,
                                      abx_err_id id, abx_error **err)
{
    const char *words[ABX_COUNT(rows) + 2];
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (belongs(&rows[i], provider))
            words[n++] = rows[i].key;
    if (!provider) {
        words[n++] = "providers";
        words[n++] = "profiles";
    }
    const char *near = abx_nearest(last, words, n);
    ABX_AUTO_FREE char *shown = abx_printable(key);
    abx_fail(err, id, "unknown key '%s'", shown);
    if (near && provider)
        abx_hint(err, "the nearest known key is 'providers.%s.%s'", provider, near);
    else if (near)
        abx_hint(err, "the nearest known key is '%s'", near);
    else if (provider)
        hint_options(provider, err);
    else
        abx_hint(err, "'abx config list' shows the keys");
    return NULL;
}

static bool is_option_key(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 64 && s[n] == 0;
}

char *abx_setting_provider(const char *key)
{
    if (!abx_has_prefix(key, "providers."))
        return NULL;
    const char *id = key + strlen("providers.");
    const char *dot = strchr(id, '.');
    return dot ? abx_strndup(id, (size_t)(dot - id)) : NULL;
}

const abx_setting_row *abx_setting_find(const char *key, abx_err_id id, abx_error **err)
{
    ABX_AUTO_FREE char *provider = abx_setting_provider(key);
    const char *last = key;
    if (provider) {
        last = key + strlen("providers.") + strlen(provider) + 1;
        if (!abx_is_name(provider)) {
            ABX_AUTO_FREE char *shown = abx_printable(provider);
            abx_fail(err, id, "'%s' is no provider id", shown);
            abx_hint(err, "an id has lower-case letters, digits and '-'");
            return NULL;
        }
    }
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (belongs(&rows[i], provider) && strcmp(rows[i].key, last) == 0)
            return &rows[i];
    if (!provider || is_builtin(provider) || !is_option_key(last))
        return unknown(key, provider, last, id, err);
    return sounds_secret(last) ? &any_secret : &any_option;
}

bool abx_is_profile(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 63 && s[n] == 0 && s[0] != '_' && s[0] != '-';
}

static bool is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices; *p;) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, text, n) == 0)
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

static void list_choices(const char *choices, char out[160])
{
    size_t used = (size_t)snprintf(out, 160, "one of ");
    for (const char *p = choices; *p && used < 150;) {
        int len = (int)strcspn(p, "|");
        used += (size_t)snprintf(out + used, 160 - used, "%.*s%s", len, p, p[len] ? ", " : "");
        p += len + (p[len] == '|');
    }
}

static bool is_bool(const char *s)
{
    return is_choice("true|false|1|0|yes|no|on|off", s);
}

static bool is_url(const char *s)
{
    const char *rest = abx_has_prefix(s, "https://")  ? s + 8
                       : abx_has_prefix(s, "http://") ? s + 7
                                                      : "";
    return *rest && *rest != '/' && !strpbrk(s, " \"<>\\^`{|}") && !abx_has_control(s);
}

bool abx_setting_accepts(const abx_setting_row *row, const char *text, char expected[160])
{
    uint64_t ms;
    const char *want = "";
    bool ok = false;
    switch (row->type) {
    case ABX_SETTING_ENUM:
        list_choices(row->choices, expected);
        return is_choice(row->choices, text);
    case ABX_SETTING_NAME:
        want = "a name of letters, digits and '-'";
        ok = strcmp(row->key, "profile") == 0 ? abx_is_profile(text) : abx_is_name(text);
        break;
    case ABX_SETTING_BOOL:
        want = "true or false";
        ok = is_bool(text);
        break;
    case ABX_SETTING_DURATION:
        want = "a duration such as 30s, 5m, 2h or none";
        ok = abx_parse_duration(text, &ms) == 0;
        break;
    case ABX_SETTING_SIZE:
        want = "a size such as 512m, 2g or a number of bytes";
        ok = abx_parse_size(text, &ms) == 0;
        break;
    case ABX_SETTING_NUMBER:
        want = "a number such as 2 or 0.5";
        ok = abx_parse_millis(text, INT32_MAX, &ms) == 0;
        break;
    case ABX_SETTING_COUNT:
        want = "a whole number";
        ok = abx_parse_uint(text, INT32_MAX, &ms) == 0;
        break;
    case ABX_SETTING_URL:
        want = "an address that begins with https:// or http://";
        ok = is_url(text);
        break;
    case ABX_SETTING_TEXT:
        want = "one line of text";
        ok = !abx_has_control(text);
        break;
    case ABX_SETTING_ANY:
        want = "text, a number, true or false";
        ok = true;
        break;
    case ABX_SETTING_OPTION: return abx_option_accepts(row->option, text, expected);
    }
    snprintf(expected, 160, "%s", want);
    return ok;
}

int abx_setting_check(const abx_setting_row *row, const char *text, abx_err_id id,
                      const char *subject, abx_error **err)
{
    char expected[160];
    if (abx_setting_accepts(row, text, expected))
        return 0;
    if (row->secret)
        return abx_fail(err, id, "%s must be %s", subject, expected);
    ABX_AUTO_FREE char *shown = abx_printable(text);
    return abx_fail(err, id, "%s must be %s, found '%s'", subject, expected, shown);
}

static bool is_number(const abx_setting_row *row)
{
    return row->type == ABX_SETTING_SIZE || row->type == ABX_SETTING_NUMBER ||
           row->type == ABX_SETTING_COUNT;
}

/* Whether the row takes a value that is written in this way in a file. */
static bool fits(const abx_setting_row *row, const abx_toml_node *node)
{
    switch (node->type) {
    case ABX_TOML_STRING: return row->type != ABX_SETTING_BOOL && !memchr(node->text, 0, node->len);
    case ABX_TOML_BOOL: return row->type == ABX_SETTING_BOOL || row->type == ABX_SETTING_ANY;
    case ABX_TOML_INT:
        return row->type == ABX_SETTING_ANY ||
               ((row->type == ABX_SETTING_DURATION || is_number(row)) && node->whole >= 0);
    case ABX_TOML_FLOAT: return row->type == ABX_SETTING_ANY || row->type == ABX_SETTING_NUMBER;
    default: return false;
    }
}

char *abx_setting_from_toml(const abx_setting_row *row, const abx_toml_node *node,
                            char expected[160])
{
    if (!fits(row, node)) {
        (void)abx_setting_accepts(row, "", expected);
        return NULL;
    }
    ABX_AUTO_FREE char *text = NULL;
    if (node->type == ABX_TOML_STRING)
        text = abx_strndup(node->text, node->len);
    else if (node->type == ABX_TOML_BOOL)
        text = abx_strdup(node->whole ? "true" : "false");
    else if (node->type == ABX_TOML_INT)
        text = abx_format("%lld", (long long)node->whole);
    else
        text = abx_format("%.17g", node->real);
    return abx_setting_accepts(row, text, expected) ? ABX_TAKE(text) : NULL;
}

bool abx_is_reference(const char *text)
{
    return abx_has_prefix(text, "env:") || abx_has_prefix(text, "file:");
}

static char *hide_password(const char *url)
{
    const char *host = strstr(url, "://");
    const char *at = host ? memchr(host + 3, '@', strcspn(host + 3, "/?#")) : NULL;
    if (!at)
        return abx_strdup(url);
    return abx_format("%.*s****%s", (int)(host + 3 - url), url, at);
}

char *abx_setting_shown(const abx_setting_row *row, const char *text)
{
    if (row->type == ABX_SETTING_URL)
        return hide_password(text);
    if (!row->secret || abx_is_reference(text))
        return abx_strdup(text);
    size_t n = strlen(text);
    if (n < 8)
        return abx_strdup("****");
    for (size_t i = n - 4; i < n; i++)
        if ((unsigned char)text[i] >= 0x80 || (unsigned char)text[i] < 0x21)
            return abx_strdup("****");
    return abx_format("****%s", text + n - 4);
}
