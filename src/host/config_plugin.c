/* Settings of plugins: what their manifests say about keys, and the options that one of them is given. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

/* --- manifests of installed plugins --------------------------------------------------------------------- */

static abx_manifest *read_installed(const char *home, const char *id)
{
    ABX_AUTO_FREE char *folder = abx_format("%s/providers/%s", home, id);
    ABX_AUTO_FD fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_read(fd, folder, &problems);
    if (m && strcmp(m->id, id) != 0) {
        abx_manifest_free(m);
        return NULL;
    }
    return m;
}

static abx_setting_row *rows_of(const abx_manifest *m)
{
    abx_setting_row *rows = abx_alloc_array(m->option_count + 1, sizeof *rows);
    for (size_t i = 0; i < m->option_count; i++) {
        const abx_option *o = &m->options[i];
        rows[i] = (abx_setting_row){
            .provider = m->id,
            .key = o->name,
            .type = ABX_SETTING_OPTION,
            .otherwise = o->otherwise,
            .secret = o->secret,
            .text = o->description ? o->description : "an option of the provider",
            .option = o,
        };
    }
    return rows;
}

const abx_config_plugin *abx__config_plugin(abx_config *c, const char *id)
{
    for (abx_config_plugin *p = c->plugins; p; p = p->next)
        if (strcmp(p->id, id) == 0)
            return p->manifest ? p : NULL;
    bool installable = c->home && abx_is_name(id) && !abx_is_reserved_id(id);
    abx_config_plugin *p = ABX_NEW(abx_config_plugin);
    p->id = abx_strdup(id);
    p->manifest = installable ? read_installed(c->home, id) : NULL;
    if (p->manifest)
        p->rows = rows_of(p->manifest);
    p->next = c->plugins;
    c->plugins = p;
    return p->manifest ? p : NULL;
}

void abx__config_forget_plugins(abx_config *c)
{
    while (c->plugins) {
        abx_config_plugin *p = c->plugins;
        c->plugins = p->next;
        free(p->id);
        free(p->rows);
        abx_manifest_free(p->manifest);
        free(p);
    }
}

/* --- keys ------------------------------------------------------------------------------------------------- */

/* The nearest option, else all of them, as the hint of *err. */
static int hint_options(const abx_manifest *m, const char *key, const char *prefix, abx_error **err)
{
    const char *names[64] = {0};
    ABX_AUTO_BUF list = ABX_BUF(4096);
    size_t n = 0;
    for (; n < m->option_count && n < ABX_COUNT(names); n++) {
        names[n] = m->options[n].name;
        if (abx_buf_addf(&list, "%s'%s'", n ? ", " : "", names[n]) < 0)
            break;
    }
    const char *near = n ? abx_nearest(key, names, n) : NULL;
    if (near)
        return abx_hint(err, "the nearest known one is '%s%s'", prefix, near);
    if (n == 0)
        return abx_hint(err, "provider '%s' has no options", m->id);
    return abx_hint(err, "provider '%s' has the options %s", m->id, abx_buf_cstr(&list));
}

const abx_setting_row *abx_config_row(abx_config *c, const char *key, abx_err_id id,
                                      abx_error **err)
{
    const abx_setting_row *row = abx_setting_find(key, id, err);
    if (!row || row->type != ABX_SETTING_ANY)
        return row;
    ABX_AUTO_FREE char *provider = abx_setting_provider(key);
    const abx_config_plugin *p = abx__config_plugin(c, provider);
    if (!p)
        return row;
    const char *last = strrchr(key, '.') + 1;
    for (size_t i = 0; i < p->manifest->option_count; i++)
        if (strcmp(p->rows[i].key, last) == 0)
            return &p->rows[i];
    ABX_AUTO_FREE char *prefix = abx_format("providers.%s.", provider);
    abx_fail(err, id, "unknown key '%s'", key);
    hint_options(p->manifest, last, prefix, err);
    return NULL;
}

const abx_setting_row *abx__config_any_row(abx_config *c, const char *key)
{
    const abx_setting_row *row = abx_config_row(c, key, ABX_ERR_CONFIG, NULL);
    return row ? row : abx_setting_find(key, ABX_ERR_CONFIG, NULL);
}

/* --- the options of one provider --------------------------------------------------------------------------- */

const char *abx__config_plain_bool(const char *text)
{
    return abx_str_eq(text, "1") || abx_str_eq(text, "yes") || abx_str_eq(text, "on") ||
                   abx_str_eq(text, "true")
               ? "true"
               : "false";
}

static bool is_bool_word(const char *text)
{
    static const char *const words[] = {"true", "false", "1", "0", "yes", "no", "on", "off"};
    for (size_t i = 0; i < ABX_COUNT(words); i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

/* Where the value of an option was found. */
typedef struct found {
    const char *text;
    abx_err_id id;       /* of an error with it */
    const char *subject; /* how an error names it */
    abx_toml_type written;
    abx_config_value as; /* for a reference */
} found;

/* The value of the last -O of this option, or NULL. */
static const char *flag_of(const abx_config *c, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = c->option_count; i > 0; i--)
        if (strncmp(c->options[i - 1], name, n) == 0 && c->options[i - 1][n] == '=')
            return c->options[i - 1] + n + 1;
    return NULL;
}

static int fail_value(const abx_option *o, const found *f, const char *expected, abx_error **err)
{
    if (o->secret)
        return abx_fail(err, f->id, "%s must be %s", f->subject, expected);
    ABX_AUTO_FREE char *shown = abx_printable(f->text);
    return abx_fail(err, f->id, "%s must be %s, found '%s'", f->subject, expected, shown);
}

static bool fits_written(const abx_option *o, abx_toml_type written)
{
    if (written == ABX_TOML_STRING)
        return true;
    return (o->type == ABX_OPTION_INT && written == ABX_TOML_INT) ||
           (o->type == ABX_OPTION_BOOL && written == ABX_TOML_BOOL);
}

/* Check the text and put it into the object with the option's type. */
static int put(const abx_option *o, const found *f, const char *text, yyjson_mut_doc *d,
               yyjson_mut_val *object, abx_error **err)
{
    char expected[160];
    const char *plain =
        o->type == ABX_OPTION_BOOL && is_bool_word(text) ? abx__config_plain_bool(text) : text;
    bool ok = abx_option_accepts(o, plain, expected);
    if (!ok || !fits_written(o, f->written))
        return fail_value(o, f, expected, err);
    if (o->type == ABX_OPTION_INT)
        abx_mut_int(d, object, o->name, strtoll(plain, NULL, 10));
    else if (o->type == ABX_OPTION_BOOL)
        abx_mut_bool(d, object, o->name, strcmp(plain, "true") == 0);
    else
        abx_mut_str(d, object, o->name, plain);
    return 0;
}

/* A secret as it stands, or what it refers to; not for variables, whose text is the secret. */
static int put_secret(const abx_config *c, const abx_option *o, const found *f, yyjson_mut_doc *d,
                      yyjson_mut_val *object, abx_error **err)
{
    abx_error *why = NULL;
    char *text = abx__config_resolve(c, &f->as, &why);
    if (!text)
        return abx_error_take(err, why);
    int rc = put(o, f, text, d, object, err);
    explicit_bzero(text, strlen(text));
    free(text);
    return rc;
}

static int put_flag(const abx_config *c, const abx_option *o, const char *key, const char *text,
                    yyjson_mut_doc *d, yyjson_mut_val *object, abx_error **err)
{
    ABX_AUTO_FREE char *subject = abx_format("--option %s", o->name);
    ABX_AUTO_FREE char *copy = abx_strdup(text);
    ABX_AUTO_FREE char *name = abx_strdup(key);
    found f = {.text = text, .id = ABX_ERR_USAGE, .subject = subject, .written = ABX_TOML_STRING};
    if (!o->secret)
        return put(o, &f, text, d, object, err);
    if (!abx_is_reference(text)) {
        abx_fail(err, ABX_ERR_USAGE,
                 "option '%s' is a secret: it does not belong on a command line", o->name);
        return abx_hint(err,
                        "%s%s%sabx config set %s - reads it from standard input; -O %s=env:NAME or "
                        "=file:PATH refers to it",
                        o->env ? "export " : "", o->env ? o->env[0] : "", o->env ? "=…; " : "", key,
                        o->name);
    }
    f.as = (abx_config_value){.key = name, .text = copy, .where = subject};
    return put_secret(c, o, &f, d, object, err);
}

static int put_file(const abx_config *c, const abx_option *o, const abx_config_value *v,
                    yyjson_mut_doc *d, yyjson_mut_val *object, abx_error **err)
{
    ABX_AUTO_FREE char *subject = abx_format("'%s' (%s)", v->key, v->where);
    found f = {.text = v->text,
               .id = ABX_ERR_PROVIDER_CONFIG,
               .subject = subject,
               .written = v->type,
               .as = *v};
    return o->secret && v->type == ABX_TOML_STRING ? put_secret(c, o, &f, d, object, err)
                                                   : put(o, &f, v->text, d, object, err);
}

/* 1: it has a value, which was put; 0: none; -1. */
static int put_option(abx_config *c, const abx_manifest *m, const abx_option *o, yyjson_mut_doc *d,
                      yyjson_mut_val *object, abx_error **err)
{
    ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", m->id, o->name);
    const abx_config_value *trial = abx__config_in_flags(c, key);
    if (trial)
        return put_file(c, o, trial, d, object, err) < 0 ? -1 : 1;
    const char *flag = flag_of(c, o->name);
    if (flag)
        return put_flag(c, o, key, flag, d, object, err) < 0 ? -1 : 1;
    for (char **e = o->env; e && *e; e++) {
        const char *text = abx__config_env(c, *e);
        found f = {text, ABX_ERR_PROVIDER_CONFIG, *e, ABX_TOML_STRING, {0}};
        if (!text)
            continue;
        if (put(o, &f, text, d, object, err) == 0)
            return 1;
        return abx_hint(err, "unset it, or give it another value: export %s=…", *e);
    }
    const abx_config_value *v = abx__config_in_files(c, key);
    if (v)
        return put_file(c, o, v, d, object, err) < 0 ? -1 : 1;
    found f = {o->otherwise, ABX_ERR_PROVIDER_MANIFEST, o->name, ABX_TOML_STRING, {0}};
    return o->otherwise ? put(o, &f, o->otherwise, d, object, err) + 1 : 0;
}

/* Keys that the manifest does not have: of flags, then of the files (profiles that are not chosen do not count). */
static int check_unknown(const abx_config *c, const abx_manifest *m, abx_error **err)
{
    for (size_t i = 0; i < c->option_count; i++) {
        size_t n = strcspn(c->options[i], "=");
        ABX_AUTO_FREE char *name = abx_strndup(c->options[i], n);
        if (abx_manifest_option(m, name))
            continue;
        ABX_AUTO_FREE char *shown = abx_printable(name);
        abx_fail(err, ABX_ERR_USAGE, "provider '%s' has no option '%s'", m->id, shown);
        return hint_options(m, name, "", err);
    }
    ABX_AUTO_FREE char *prefix = abx_format("providers.%s.", m->id);
    for (size_t i = 0; i < c->files.count; i++) {
        const abx_config_value *v = &c->files.items[i];
        bool counts = !v->profile || abx_str_eq(v->profile, c->profile);
        const char *last = v->key + strlen(prefix);
        if (!counts || !abx_has_prefix(v->key, prefix) || v->row->type != ABX_SETTING_ANY ||
            abx_manifest_option(m, last))
            continue;
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "unknown key '%s' (%s)", v->key, v->where);
        return hint_options(m, last, prefix, err);
    }
    return 0;
}

/* Every way to set an option: "-O token=…", "export TOKEN=…", "abx config set …". */
static void add_ways(const abx_manifest *m, const abx_option *o, abx_buf *out)
{
    int rc = out->len ? abx_buf_add_str(out, "; ") : 0;
    if (rc == 0 && !o->secret)
        rc = abx_buf_addf(out, "-O %s=…, ", o->name);
    for (char **e = o->env; e && *e && rc == 0; e++)
        rc = abx_buf_addf(out, "export %s=…, ", *e);
    if (rc == 0)
        rc = abx_buf_addf(out, "%sabx config set providers.%s.%s %s", out->len ? "or " : "", m->id,
                          o->name, o->secret ? "-" : "…");
    (void)rc; /* a hint that is too long is cut */
}

static int fail_missing(const abx_config *c, const abx_manifest *m, const bool *missing,
                        abx_error **err)
{
    ABX_AUTO_BUF names = ABX_BUF(8192);
    ABX_AUTO_BUF ways = ABX_BUF(8192);
    size_t n = 0;
    for (size_t i = 0; i < m->option_count; i++) {
        const abx_option *o = &m->options[i];
        if (!missing[i])
            continue;
        (void)!abx_buf_addf(&names, "%s'%s'", n++ ? ", " : "", o->name);
        add_ways(m, o, &ways);
    }
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "provider '%s' needs the option%s %s, which %s not set",
             m->id, n > 1 ? "s" : "", abx_buf_cstr(&names), n > 1 ? "are" : "is");
    if (c->given)
        return abx_hint(err, "send %s among the options of the connection", n > 1 ? "them" : "it");
    return abx_hint(err, "%s", abx_buf_cstr(&ways));
}

yyjson_doc *abx_config_plugin_options(abx_config *c, const abx_manifest *m, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT_WIPED d = abx_mut_new(&root);
    if (check_unknown(c, m, err) < 0)
        return NULL;
    ABX_AUTO_FREE bool *missing = abx_alloc_array(m->option_count + 1, sizeof *missing);
    bool any = false;
    for (size_t i = 0; i < m->option_count; i++) {
        int rc = put_option(c, m, &m->options[i], d, root, err);
        if (rc < 0)
            return NULL;
        if (rc > 0 && m->options[i].secret)
            abx__config_loaded_secret(c);
        missing[i] = rc == 0 && m->options[i].required;
        any = any || missing[i];
    }
    if (any) {
        fail_missing(c, m, missing, err);
        return NULL;
    }
    return abx_json_freeze(d);
}
