#include "host/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

/* --- values ---------------------------------------------------------------------------------------- */

void abx__config_add(abx_config_values *values, const abx_config_value *value)
{
    if (values->count == values->cap) {
        values->cap = values->cap ? values->cap * 2 : 8;
        values->items = abx_realloc(values->items, values->cap * sizeof *values->items);
    }
    values->items[values->count++] = *value;
}

static void value_clear(abx_config_value *v)
{
    if (v->text)
        explicit_bzero(v->text, strlen(v->text)); /* may be a secret */
    free(v->text);
    free(v->profile);
    free(v->key);
    free(v->where);
    free(v->folder);
}

void abx__config_values_clear(abx_config_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        value_clear(&values->items[i]);
    free(values->items);
    *values = (abx_config_values){NULL, 0, 0};
}

static const abx_config_value *find(const abx_config_values *values, const char *profile,
                                    const char *key)
{
    for (size_t i = 0; i < values->count; i++) {
        const abx_config_value *v = &values->items[i];
        bool same = profile ? abx_str_eq(v->profile, profile) : !v->profile;
        if (same && strcmp(v->key, key) == 0)
            return v;
    }
    return NULL;
}

const abx_config_value *abx__config_in_files(const abx_config *c, const char *key)
{
    const abx_config_value *v = c->profile ? find(&c->files, c->profile, key) : NULL;
    return v ? v : find(&c->files, NULL, key);
}

const abx_config_value *abx__config_in_flags(const abx_config *c, const char *key)
{
    return find(&c->flags, NULL, key);
}

/* --- environment ------------------------------------------------------------------------------------ */

const char *abx__config_env(const abx_config *c, const char *name)
{
    size_t n = strlen(name);
    for (const char *const *e = c->env; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return (*e)[n + 1] ? *e + n + 1 : NULL;
    return NULL;
}

/* Variables that are no plain text of a setting: those for colour that every program knows, and CI. */
static const char *env_special(const abx_config *c, const char *key, const char **where)
{
    const char *value;
    if (strcmp(key, "color") == 0) {
        if (abx__config_env(c, *where = "NO_COLOR"))
            return "never";
        if ((value = abx__config_env(c, *where = "FORCE_COLOR")) != NULL)
            return strcmp(value, "0") == 0 ? "never" : "always";
        *where = "TERM";
        return abx_str_eq(abx__config_env(c, "TERM"), "dumb") ? "never" : NULL;
    }
    if (strcmp(key, "no_input") == 0 && (value = abx__config_env(c, *where = "CI")) != NULL)
        return strcmp(value, "false") == 0 || strcmp(value, "0") == 0 ? NULL : "true";
    return NULL;
}

static const char *plain_bool(const abx_setting_row *row, const char *text)
{
    return row->type == ABX_SETTING_BOOL ? abx__config_plain_bool(text) : text;
}

static int check_env(const abx_config *c, abx_error **err)
{
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++) {
        const char *value = rows[i].env ? abx__config_env(c, rows[i].env) : NULL;
        if (value && abx_setting_check(&rows[i], value, ABX_ERR_CONFIG, rows[i].env, err) < 0)
            return abx_hint(err, "unset it, or give it another value: export %s=…", rows[i].env);
    }
    return 0;
}

/* --- open ------------------------------------------------------------------------------------------- */

static int load_project(abx_config *c, abx_error **err)
{
    if (!c->project_path)
        return 0;
    ABX_AUTO_BUF text = ABX_BUF(0);
    abx_config_file file = {c->project_path, ABX_SOURCE_PROJECT, false, false};
    bool foreign = false;
    int rc = abx__config_read(&file, &text, &foreign, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    rc = abx__trust_check(c->home, c->project_path, abx_buf_cstr(&text), text.len, err);
    if (rc < 0)
        return -1;
    c->project_trusted = rc == 1;
    if (c->project_ignored)
        return 0;
    if (foreign && !c->project_trusted) {
        abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': another user owns it or may write it",
                 c->project_path);
        return abx__config_hint_trust(c->project_path, err);
    }
    return abx__config_parse(c, &file, abx_buf_cstr(&text), text.len, err);
}

static int load_file(abx_config *c, const abx_config_file *file, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(0);
    int rc = abx__config_read(file, &text, NULL, err);
    if (rc == 0) {
        rc = abx__config_parse(c, file, abx_buf_cstr(&text), text.len, err);
        if (text.data)
            explicit_bzero(text.data, text.len);
    }
    return rc < 0 ? -1 : 0;
}

static void set_profile(abx_config *c, const char *name, abx_source source, const char *where)
{
    char *copy = abx_strdup(name), *copy_where = abx_strdup(where);
    free(c->profile);
    free(c->profile_where);
    c->profile = copy;
    c->profile_where = copy_where;
    c->profile_source = source;
}

static int check_profile(const abx_config *c, abx_error **err)
{
    if (!c->profile || c->profile_ignored)
        return 0;
    for (size_t i = 0; i < c->profile_count; i++)
        if (strcmp(c->profiles[i], c->profile) == 0)
            return 0;
    ABX_AUTO_FREE char *shown = abx_printable(c->profile);
    const char *near = abx_nearest(c->profile, (const char *const *)c->profiles, c->profile_count);
    abx_fail(err, ABX_ERR_CONFIG, "no profile '%s' (chosen by %s): no file has [profiles.%s]",
             shown, c->profile_where, shown);
    if (near)
        return abx_hint(err, "the nearest profile is '%s'", near);
    return abx_hint(err, "add [profiles.NAME] to '%s'", c->user_path);
}

/* The profile of a file, when neither a flag nor the environment chose one. */
static int choose_profile(abx_config *c, abx_error **err)
{
    if (c->profile && c->profile_source <= ABX_SOURCE_PROJECT) {
        free(ABX_TAKE(c->profile)); /* from a file that was read before */
        free(ABX_TAKE(c->profile_where));
    }
    const abx_config_value *v = c->profile ? NULL : find(&c->files, NULL, "profile");
    if (v)
        set_profile(c, v->text, v->source, v->where);
    return check_profile(c, err);
}

void abx__config_forget_files(abx_config *c)
{
    abx__config_values_clear(&c->files);
    for (size_t i = 0; i < c->profile_count; i++)
        free(c->profiles[i]);
    free(c->profiles);
    c->profiles = NULL;
    c->profile_count = 0;
    c->holds_secret = false;
}

int abx__config_reload(abx_config *c, abx_error **err)
{
    abx__config_forget_files(c);
    if (c->no_files)
        return 0;
    abx_config_file user = {c->user_path, ABX_SOURCE_USER, c->user_named, !c->user_named};
    abx_config_file system = {c->system_path, ABX_SOURCE_SYSTEM, false, false};
    if (load_project(c, err) < 0 || load_file(c, &user, err) < 0 || load_file(c, &system, err) < 0)
        return -1;
    return choose_profile(c, err);
}

static int open_config(abx_config *c, const abx_config_options *o, abx_error **err)
{
    const char *named = o->file ? o->file : abx__config_env(c, "ABX_CONFIG");
    c->user_named = named != NULL;
    c->user_path = named ? abx_strdup(named) : abx_path_join(o->home, "config.toml");
    c->system_path = abx_strdup(o->system_file ? o->system_file : "/etc/abx/config.toml");
    if (o->cwd)
        c->project_path = abx__config_find_project(o->cwd, abx__config_env(c, "HOME"));
    if (check_env(c, err) < 0)
        return -1;
    const char *profile = o->profile ? o->profile : abx__config_env(c, "ABX_PROFILE");
    if (profile)
        set_profile(c, profile, o->profile ? ABX_SOURCE_FLAG : ABX_SOURCE_ENV,
                    o->profile ? "flag --profile" : "ABX_PROFILE");
    return abx__config_reload(c, err);
}

int abx_config_open(const abx_config_options *options, abx_config **out, abx_error **err)
{
    abx_config *c = ABX_NEW(abx_config);
    c->home = abx_strdup(options->home);
    c->env = options->env;
    c->project_ignored = options->ignore_project;
    c->profile_ignored = options->ignore_profile;
    c->no_files = c->given = options->no_files;
    if (open_config(c, options, err) < 0) {
        abx_config_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void abx_config_free(abx_config *c)
{
    if (!c)
        return;
    abx__config_forget_files(c);
    abx__config_forget_plugins(c);
    abx__config_values_clear(&c->flags);
    for (size_t i = 0; i < c->option_count; i++)
        free(c->options[i]);
    free(c->options);
    free(c->home);
    free(c->user_path);
    free(c->system_path);
    free(c->project_path);
    free(c->profile);
    free(c->profile_where);
    free(c);
}

/* --- get and set --------------------------------------------------------------------------------------- */

/* "no_input" → "flag --no-input"; the last part of "providers.ID.api_key". */
static char *flag_name(const char *key)
{
    const char *dot = strrchr(key, '.');
    char *name = abx_format("flag --%s", dot ? dot + 1 : key);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '-';
    return name;
}

int abx_config_set_flag(abx_config *c, const char *key, const char *value, abx_error **err)
{
    const abx_setting_row *row = abx_setting_find(key, ABX_ERR_USAGE, err);
    if (!row)
        return -1;
    ABX_AUTO_FREE char *where = flag_name(key);
    if (abx_setting_check(row, value, ABX_ERR_USAGE, where + strlen("flag "), err) < 0)
        return -1;
    if (strcmp(key, "profile") == 0) {
        set_profile(c, value, ABX_SOURCE_FLAG, where);
        return check_profile(c, err);
    }
    for (size_t i = 0; i < c->flags.count; i++) {
        abx_config_value *old = &c->flags.items[i];
        if (strcmp(old->key, key) != 0)
            continue;
        char *text = abx_strdup(plain_bool(row, value)); /* the last one wins */
        explicit_bzero(old->text, strlen(old->text));
        free(old->text);
        old->text = text;
        return 0;
    }
    abx_config_value v = {NULL,
                          abx_strdup(key),
                          abx_strdup(plain_bool(row, value)),
                          ABX_TOML_STRING,
                          ABX_SOURCE_FLAG,
                          ABX_TAKE(where),
                          NULL,
                          row};
    abx__config_add(&c->flags, &v);
    return 0;
}

void abx_config_end_trial(abx_config *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->flags.count; i++) {
        abx_config_value v = c->flags.items[i];
        if (abx_has_prefix(v.key, "providers."))
            value_clear(&v);
        else
            c->flags.items[kept++] = v;
    }
    c->flags.count = kept;
}

/* What a key is without flags: environment, files, default. */
static const char *get_below(abx_config *c, const char *key, const abx_setting_row *row,
                             abx_source *source, const char **where)
{
    const char *text = row->env ? abx__config_env(c, row->env) : NULL;
    *where = row->env;
    *source = ABX_SOURCE_ENV;
    for (char **e = row->option ? row->option->env : NULL; e && *e && !text; e++)
        text = abx__config_env(c, *where = *e);
    if (!text && row->provider)
        text = abx__config_usual(c, key, where);
    if (text)
        return plain_bool(row, text);
    if (!row->provider && (text = env_special(c, key, where)) != NULL)
        return text;
    const abx_config_value *v = abx__config_in_files(c, key);
    if (v) {
        *source = v->profile ? ABX_SOURCE_PROFILE : v->source;
        *where = v->where;
        return v->text;
    }
    *source = ABX_SOURCE_DEFAULT;
    *where = "default";
    return row->otherwise;
}

const char *abx_config_get(abx_config *c, const char *key, abx_source *source, const char **where)
{
    abx_source ignored_source;
    const char *ignored_where;
    source = source ? source : &ignored_source;
    where = where ? where : &ignored_where;
    *source = ABX_SOURCE_DEFAULT;
    *where = "default";
    const abx_setting_row *row = abx__config_any_row(c, key);
    if (!row)
        return NULL;
    const abx_config_value *flag = abx__config_in_flags(c, key);
    if (flag) {
        *source = ABX_SOURCE_FLAG;
        *where = flag->where;
        return flag->text;
    }
    if (strcmp(key, "profile") == 0) {
        if (c->profile) {
            *source = c->profile_source;
            *where = c->profile_where;
        }
        return c->profile;
    }
    return get_below(c, key, row, source, where);
}

const char *const *abx_config_profiles(const abx_config *c, size_t *count)
{
    *count = c->profile_count;
    return (const char *const *)c->profiles;
}

const char *abx_config_user_path(abx_config *c)
{
    return c->user_path;
}

const char *abx_config_project_path(abx_config *c, bool *trusted)
{
    if (trusted)
        *trusted = c->project_trusted;
    return c->project_path;
}

void abx_config_on_secret(abx_config *c, void (*cb)(void *data), void *data)
{
    c->on_secret = cb;
    c->on_secret_data = data;
}

void abx__config_loaded_secret(const abx_config *c)
{
    if (c->on_secret)
        c->on_secret(c->on_secret_data);
}

/* A text of a plugin's option may be a secret although its name does not sound so: its manifest knows. */
bool abx_config_holds_secret(abx_config *c)
{
    for (size_t i = 0; i < c->files.count && !c->holds_secret; i++) {
        const abx_config_value *v = &c->files.items[i];
        if (v->row->type != ABX_SETTING_ANY || v->row->secret || abx_is_reference(v->text))
            continue;
        const abx_setting_row *row = abx_config_row(c, v->key, ABX_ERR_CONFIG, NULL);
        c->holds_secret = row && row->secret;
    }
    return c->holds_secret;
}
