/* Where a value is looked for, as text: for errors about what is missing or wrong. */
#include <stdarg.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

#define PLACES_MAX 8192

static void add(abx_buf *out, const char *fmt, ...) ABX_PRINTF(2, 3);

/* One more place. What does not fit is left out. */
static void add(abx_buf *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *place = abx_vformat(fmt, ap);
    va_end(ap);
    (void)!abx_buf_addf(out, "%s%s", out->len ? ", " : "", place);
}

static void add_variables(const abx_setting_row *row, abx_buf *out)
{
    if (row->env)
        add(out, "%s", row->env);
    for (char **e = row->option ? row->option->env : NULL; e && *e; e++)
        add(out, "%s", *e);
}

char *abx_config_places(abx_config *c, const char *provider, const char *key)
{
    ABX_AUTO_FREE char *whole = abx_format("providers.%s.%s", provider, key);
    const abx_setting_row *row = abx__config_any_row(c, whole);
    ABX_AUTO_BUF out = ABX_BUF(PLACES_MAX);
    if (row)
        add_variables(row, &out);
    const char *suffix, *usual = abx__config_usual_name(provider, key, &suffix);
    if (usual)
        add(&out, "%s (beside an address of *%s)", usual, suffix);
    if (c->profile)
        add(&out, "[profiles.%s.providers.%s] and [providers.%s] of '%s'", c->profile, provider,
            provider, c->user_path);
    else
        add(&out, "[providers.%s] of '%s'", provider, c->user_path);
    if (c->project_path && c->project_trusted)
        add(&out, "'%s'", c->project_path);
    add(&out, "'%s'", c->system_path);
    return abx_buf_take(&out);
}

/* The secrets of one table: of a profile, or (NULL) of none. */
static size_t stored_in(abx_config *c, const char *provider, const char *profile, char **out)
{
    ABX_AUTO_FREE char *prefix = abx_format("providers.%s.", provider);
    size_t n = 0;
    for (size_t i = 0; i < c->files.count; i++) {
        const abx_config_value *v = &c->files.items[i];
        bool here = profile ? abx_str_eq(v->profile, profile) : !v->profile;
        const abx_setting_row *row =
            abx_has_prefix(v->key, prefix) && here && v->source == ABX_SOURCE_USER
                ? abx__config_any_row(c, v->key)
                : NULL;
        if (row && row->secret)
            out[n++] = profile ? abx_format("profiles.%s.%s", profile, v->key) : abx_strdup(v->key);
    }
    return n;
}

char **abx_config_stored_secrets(abx_config *c, const char *provider)
{
    char **out = abx_alloc_array(c->files.count + 1, sizeof *out);
    if (!c->profile || stored_in(c, provider, c->profile, out) == 0)
        stored_in(c, provider, NULL, out);
    return out;
}

void abx_config_free_keys(char **keys)
{
    for (char **k = keys; k && *k; k++)
        free(*k);
    free(keys);
}
