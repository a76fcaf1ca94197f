/* Errors about keys and addresses, completed by what only the host knows: where the value comes from, and what to type. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_keys.h"
#include "host/credentials.h"
#include "host/host_private.h"

#define HINT_MAX 8192

typedef struct value {
    const char *name;  /* "api_key" */
    const char *where; /* "ABX_API_KEY", "FILE:LINE" */
    abx_source source;
    char *shown; /* owned; a secret's last characters at most */
} value;

/* The value of a setting of the provider, or false: nobody has set it. */
static bool find_value(const abx_providers *known, const abx_credentials *c, const char *name,
                       value *out)
{
    ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", c->provider, name);
    *out = (value){.name = name};
    const char *text = abx_config_get(known->config, key, &out->source, &out->where);
    if (!text || out->source == ABX_SOURCE_DEFAULT)
        return false;
    const abx_setting_row *row = abx_config_row(known->config, key, ABX_ERR_CONFIG, NULL);
    out->shown = row ? abx_setting_shown(row, text) : NULL;
    return true;
}

/* Put the hint of the error behind what is told first. */
static void set_hint(abx_error *err, abx_buf *hint)
{
    if (err->hint)
        (void)!abx_buf_addf(hint, "; %s", err->hint);
    free(err->hint);
    err->hint = abx_buf_take(hint);
}

/* Which key it was that the provider did not take. */
static void add_refused(const abx_credentials *c, const value *v, abx_buf *hint)
{
    const char *id = c->provider;
    (void)!abx_buf_addf(hint, "%s%s '%s' comes from %s%s%s", hint->len ? ", " : "", v->name,
                        v->shown ? v->shown : "", v->source == ABX_SOURCE_ENV ? "" : "'", v->where,
                        v->source == ABX_SOURCE_ENV ? "" : "'");
    if (v->source == ABX_SOURCE_ENV)
        (void)!abx_buf_addf(
            hint, ": export another one, or unset it and type 'abx provider login %s'", id);
    else if (v->source == ABX_SOURCE_PROJECT)
        (void)!abx_buf_add_str(hint, ": change it there");
    else
        (void)!abx_buf_addf(hint, ": 'abx provider login %s' takes another one", id);
}

static void explain_missing(const abx_providers *known, const abx_credentials *c, abx_error *err)
{
    ABX_AUTO_BUF hint = ABX_BUF(HINT_MAX);
    ABX_AUTO_FREE char *places = abx_config_places(known->config, c->provider, c->secrets[0].name);
    char *message = abx_format("%s: looked for %s in %s", err->message, c->secrets[0].name, places);
    free(err->message);
    err->message = message;
    if (err->hint && strstr(err->hint, "abx provider login"))
        return;
    (void)!abx_buf_addf(&hint, "type 'abx provider login %s'", c->provider);
    set_hint(err, &hint);
}

static void explain_key(const abx_providers *known, const abx_credentials *c, abx_error *err)
{
    ABX_AUTO_BUF hint = ABX_BUF(HINT_MAX);
    bool given = false; /* one that is only being tried */
    if (c->secret_count == 0) {
        if (c->key_withheld && !(err->hint && strstr(err->hint, "--inherit")))
            (void)!abx_buf_addf(&hint,
                                "it may not see your API key: install '%s' again with '--inherit "
                                "apiKey'",
                                c->provider);
    }
    for (size_t i = 0; i < c->secret_count; i++) {
        value v;
        bool found = find_value(known, c, c->secrets[i].name, &v);
        given = given || (found && v.source == ABX_SOURCE_FLAG);
        if (found && v.source != ABX_SOURCE_FLAG)
            add_refused(c, &v, &hint);
        free(v.shown);
    }
    if (hint.len && !given)
        set_hint(err, &hint);
    else if (c->secret_count && !given)
        explain_missing(known, c, err);
}

/* Which setting the address comes from that was no use. */
static void explain_address(const abx_providers *known, const abx_credentials *c, abx_error *err)
{
    static const char *const names[] = {"api_url", "apiUrl", "domain", "region"};
    ABX_AUTO_BUF hint = ABX_BUF(HINT_MAX);
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        value v;
        if (!abx_credentials_takes(c, names[i]) || !find_value(known, c, names[i], &v))
            continue;
        (void)!abx_buf_addf(&hint, "%s%s is '%s' by %s", hint.len ? ", " : "", names[i],
                            v.shown ? v.shown : "", v.where);
        free(v.shown);
    }
    if (hint.len == 0 && c->address && abx_credentials_takes(c, "api_url"))
        (void)!abx_buf_addf(&hint, "'%s' is what its manifest says", c->address);
    if (hint.len == 0)
        return;
    (void)!abx_buf_addf(&hint,
                        ": 'abx config list' shows all, 'abx config set providers.%s.… …' "
                        "changes it",
                        c->provider);
    set_hint(err, &hint);
}

void abx_explain_error(const abx_providers *known, const char *id, bool asked, abx_error *err)
{
    bool about_key = err->id == ABX_ERR_API_KEY;
    bool about_address = asked && (err->id == ABX_ERR_NETWORK || err->id == ABX_ERR_BACKEND_ANSWER);
    if (!known->config || (!about_key && !about_address))
        return;
    if (abx_config_is_given(known->config)) { /* nothing else was looked at */
        abx_hint(&err, about_key ? "the keys are those of the connection that the client sends"
                                 : "the address is that of the connection that the client sends, "
                                   "else the provider's own");
        return;
    }
    ABX_AUTO_CREDENTIALS c;
    if (abx_credentials_open(known, id, &c, NULL) < 0)
        return;
    if (about_key)
        explain_key(known, &c, err);
    else
        explain_address(known, &c, err);
}

/* --- the word for a sandbox ------------------------------------------------------------------------- */

/* text with the word in place of each id that stands between one of `before` and one of `after`, or the text's end; owned. The id follows
 * the first one if it is to be shown. */
static char *with_word(const char *text, const char *before, const char *after, const char *id,
                       const char *word, bool show)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    size_t n = strlen(id);
    for (const char *at; (at = strstr(text, id)); text = at + n) {
        bool alone = at > text && strchr(before, at[-1]) && strchr(after, at[n]);
        (void)!abx_buf_add(&out, text, (size_t)(at - text));
        (void)!abx_buf_add_str(&out, alone ? word : id);
        if (!alone || !show)
            continue;
        (void)!abx_buf_addf(&out, "%.1s (%s)", at + n, id); /* behind the quote */
        at += at[n] != '\0';
        show = false;
    }
    (void)!abx_buf_add_str(&out, text);
    return abx_buf_take(&out);
}

void abx__host_tell_word(abx_error *err, const char *id, const char *word)
{
    if (abx_str_eq(id, word) || !*id)
        return;
    char *message = with_word(err->message, "'", "'", id, word, true);
    free(err->message);
    err->message = message;
    if (!err->hint)
        return;
    char *hint = with_word(err->hint, " '", " ':", id, word, false);
    free(err->hint);
    err->hint = hint;
}
