/* What a provider is given: its keys with references resolved, and its options. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"

#define SECRET_MAX ((size_t)64 * 1024)

/* --- references ------------------------------------------------------------------------------------ */

static char *reference_env(const abx_config *c, const abx_config_value *v, abx_error **err)
{
    const char *name = v->text + strlen("env:");
    const char *value = abx__config_env(c, name);
    if (value)
        return abx_strdup(value);
    ABX_AUTO_FREE char *shown = abx_printable(name);
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
             "'%s' (%s) refers to the variable '%s', which is not set", v->key, v->where, shown);
    abx_hint(err, "export %s=…, or change the reference", shown);
    return NULL;
}

/* "~/x" below the user's home, "x" beside the configuration file. */
static char *reference_path(const abx_config *c, const abx_config_value *v)
{
    const char *path = v->text + strlen("file:");
    const char *home = abx__config_env(c, "HOME");
    if (path[0] == '~' && path[1] == '/' && home)
        return abx_path_join(home, path + 2);
    return path[0] == '/' || !v->folder ? abx_strdup(path) : abx_path_join(v->folder, path);
}

static int check_secret_file(int fd, const char *path, abx_error **err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_CONFIG, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "'%s' is no ordinary file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "'%s' belongs to another user (uid %u)", path,
                        st.st_uid);
    if (st.st_mode & 077) {
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                 "'%s' holds a secret that others may read (mode %04o)", path, st.st_mode & 07777);
        return abx_hint(err, "chmod 600 '%s'", path);
    }
    return 0;
}

static char *reference_file(const abx_config *c, const abx_config_value *v, abx_error **err)
{
    ABX_AUTO_FREE char *path = reference_path(c, v);
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        abx_fail_errno(err, ABX_ERR_PROVIDER_CONFIG, errno,
                       "'%s' (%s) refers to '%s', which cannot be read", v->key, v->where, path);
        return NULL;
    }
    if (check_secret_file(fd, path, err) < 0)
        return NULL;
    char *text = abx_alloc(SECRET_MAX + 1);
    ssize_t n = abx_read_full(fd, text, SECRET_MAX);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        text[--n] = 0;
    if (n > 0 && (size_t)n < SECRET_MAX && strlen(text) == (size_t)n && !strpbrk(text, "\r\n"))
        return text;
    abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "'%s' must hold one line: the secret", path);
    explicit_bzero(text, SECRET_MAX);
    free(text);
    return NULL;
}

char *abx__config_resolve(const abx_config *c, const abx_config_value *v, abx_error **err)
{
    if (c->given || v->literal)
        return abx_strdup(v->text);
    if (abx_has_prefix(v->text, "env:"))
        return reference_env(c, v, err);
    if (abx_has_prefix(v->text, "file:"))
        return reference_file(c, v, err);
    return abx_strdup(v->text);
}

/* What a key holds, by flag, variable, file or default. NULL: nothing, or *err. */
static char *key_text(const abx_config *c, const char *key, const abx_setting_row *row,
                      abx_error **err)
{
    const abx_config_value *flag = abx__config_in_flags(c, key);
    if (flag)
        return row->secret ? abx__config_resolve(c, flag, err) : abx_strdup(flag->text);
    const char *name, *env = row->env ? abx__config_env(c, row->env) : NULL;
    if (!env)
        env = abx__config_usual(c, key, &name);
    if (env)
        return abx_strdup(env);
    const abx_config_value *v = abx__config_in_files(c, key);
    if (!v)
        return abx_strdup(row->otherwise);
    return row->secret ? abx__config_resolve(c, v, err) : abx_strdup(v->text);
}

char *abx_config_secret(abx_config *c, const char *provider, const char *key, abx_error **err)
{
    ABX_AUTO_FREE char *whole = abx_format("providers.%s.%s", provider, key);
    const abx_setting_row *row = abx_setting_find(whole, ABX_ERR_PROVIDER_CONFIG, NULL);
    char *text = row ? key_text(c, whole, row, err) : NULL;
    if (text && row->secret)
        abx__config_loaded_secret(c);
    return text;
}

/* --- options ----------------------------------------------------------------------------------------- */

int abx_config_set_option(abx_config *c, const char *key_value, abx_error **err)
{
    const char *equal = strchr(key_value, '=');
    if (!equal || equal == key_value) {
        ABX_AUTO_FREE char *shown = abx_printable(key_value);
        return abx_fail(err, ABX_ERR_USAGE, "--option must be KEY=VALUE, found '%s'", shown);
    }
    ABX_AUTO_FREE char *key = abx_strndup(key_value, (size_t)(equal - key_value));
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(rows[i].provider, "") && strcmp(rows[i].key, key) == 0) {
            abx_fail(err, ABX_ERR_USAGE, "'%s' is no option: it does not belong on a command line",
                     key);
            return abx_hint(err, "set %s, or put it into '%s'", rows[i].env, c->user_path);
        }
    c->options = abx_realloc(c->options, (c->option_count + 1) * sizeof *c->options);
    c->options[c->option_count++] = abx_strdup(key_value);
    return 0;
}

static void put_typed(yyjson_mut_doc *d, yyjson_mut_val *object, const char *key, const char *text,
                      abx_toml_type type, abx_setting_type row)
{
    yyjson_mut_val *value;
    if (type == ABX_TOML_BOOL || row == ABX_SETTING_BOOL)
        value = yyjson_mut_bool(d, strcmp(text, "true") == 0);
    else if (type == ABX_TOML_INT && row == ABX_SETTING_ANY)
        value = yyjson_mut_sint(d, strtoll(text, NULL, 10));
    else if (type == ABX_TOML_FLOAT)
        value = yyjson_mut_real(d, strtod(text, NULL));
    else
        value = yyjson_mut_strcpy(d, text);
    yyjson_mut_obj_remove_key(object, key);
    yyjson_mut_obj_add(object, yyjson_mut_strcpy(d, key), value);
}

static void put_defaults(yyjson_mut_doc *d, yyjson_mut_val *object, const char *provider)
{
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++)
        if (abx_str_eq(rows[i].provider, provider) && rows[i].otherwise)
            put_typed(d, object, rows[i].key, rows[i].otherwise, ABX_TOML_STRING, rows[i].type);
}

static void put_files(abx_config *c, yyjson_mut_doc *d, yyjson_mut_val *object,
                      const char *provider)
{
    ABX_AUTO_FREE char *prefix = abx_format("providers.%s.", provider);
    for (size_t i = 0; i < c->files.count; i++) {
        const char *key = c->files.items[i].key;
        if (!abx_has_prefix(key, prefix) || abx_str_eq(c->files.items[i].row->provider, ""))
            continue;
        const abx_config_value *v = abx__config_in_files(c, key);
        if (v)
            put_typed(d, object, key + strlen(prefix), v->text, v->type, v->row->type);
    }
}

static int put_flags(abx_config *c, yyjson_mut_doc *d, yyjson_mut_val *object, const char *provider,
                     abx_error **err)
{
    for (size_t i = 0; i < c->option_count; i++) {
        const char *equal = strchr(c->options[i], '=');
        ABX_AUTO_FREE char *key = abx_strndup(c->options[i], (size_t)(equal - c->options[i]));
        ABX_AUTO_FREE char *whole = abx_format("providers.%s.%s", provider, key);
        ABX_AUTO_FREE char *subject = abx_format("--option %s", key);
        const abx_setting_row *row = abx_setting_find(whole, ABX_ERR_USAGE, err);
        if (!row || abx_setting_check(row, equal + 1, ABX_ERR_USAGE, subject, err) < 0)
            return -1;
        put_typed(d, object, key, equal + 1, ABX_TOML_STRING, row->type);
    }
    return 0;
}

/* Values that are tried before they are stored. */
static void put_trials(abx_config *c, yyjson_mut_doc *d, yyjson_mut_val *object,
                       const char *provider)
{
    ABX_AUTO_FREE char *prefix = abx_format("providers.%s.", provider);
    for (size_t i = 0; i < c->flags.count; i++) {
        const abx_config_value *v = &c->flags.items[i];
        if (abx_has_prefix(v->key, prefix) && !abx_str_eq(v->row->provider, ""))
            put_typed(d, object, v->key + strlen(prefix), v->text, v->type, v->row->type);
    }
}

yyjson_doc *abx_config_provider_options(abx_config *c, const char *provider, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    put_defaults(d, root, provider);
    put_files(c, d, root, provider);
    if (put_flags(c, d, root, provider, err) < 0)
        return NULL;
    put_trials(c, d, root, provider);
    return abx_json_freeze(d);
}
