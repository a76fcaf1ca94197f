/* One configuration file: who may own it and with which modes, and its walk into values. */
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

/* --- modes ----------------------------------------------------------------------------------------- */

static int fail_mode(const char *path, mode_t mode, const char *wanted, abx_error **err)
{
    abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': others may read or write it (mode %04o)", path,
             mode & 07777);
    return abx_hint(err, "chmod %s '%s'", wanted, path);
}

static int check_folder(const char *path, abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_dir(path);
    struct stat st;
    if (stat(folder, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot use '%s'", folder);
    return st.st_mode & 077 ? fail_mode(folder, st.st_mode, "700", err) : 0;
}

static int check_user_file(const abx_config_file *file, const struct stat *st, abx_error **err)
{
    if (st->st_uid != geteuid()) {
        abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': it belongs to another user (uid %u)",
                 file->path, st->st_uid);
        return abx_hint(err, "use a file of your own, mode 0600");
    }
    if (st->st_mode & 077)
        return fail_mode(file->path, st->st_mode, "600", err);
    return file->own_folder ? check_folder(file->path, err) : 0;
}

static int check_system_file(const abx_config_file *file, const struct stat *st, abx_error **err)
{
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': it does not belong to root",
                        file->path);
    if (st->st_mode & 022) {
        abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': others may write it (mode %04o)",
                 file->path, st->st_mode & 07777);
        return abx_hint(err, "chmod go-w '%s'", file->path);
    }
    return 0;
}

static int check_modes(const abx_config_file *file, const struct stat *st, bool *foreign,
                       abx_error **err)
{
    if (!S_ISREG(st->st_mode))
        return abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': it is no ordinary file", file->path);
    if (st->st_size > (off_t)ABX_TOML_MAX)
        return abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s': it is over 256 KiB", file->path);
    if (file->source == ABX_SOURCE_USER)
        return check_user_file(file, st, err);
    if (file->source == ABX_SOURCE_SYSTEM)
        return check_system_file(file, st, err);
    if (foreign)
        *foreign = (st->st_uid != geteuid() && st->st_uid != 0) || (st->st_mode & 002);
    return 0;
}

int abx__config_read(const abx_config_file *file, abx_buf *text, bool *foreign, abx_error **err)
{
    ABX_AUTO_FD fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !file->must_exist)
        return 1;
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot read '%s'", file->path);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot use '%s'", file->path);
    if (check_modes(file, &st, foreign, err) < 0)
        return -1;
    size_t size = (size_t)st.st_size + 1; /* one more, to see that it has not grown */
    abx_buf_init(text, size);
    uint8_t *room = abx_buf_room(text, size);
    ssize_t n = room ? abx_read_full(fd, room, size) : -1;
    if (n < 0)
        return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot read '%s'", file->path);
    if (n == (ssize_t)size)
        return abx_fail(err, ABX_ERR_CONFIG, "'%s' changes while it is read", file->path);
    abx_buf_grow(text, (size_t)n);
    return 0;
}

/* --- the walk -------------------------------------------------------------------------------------- */

typedef struct walk {
    abx_config *config;
    const abx_config_file *file;
    char *folder;
    bool restricted; /* a project file that is not trusted */
} walk;

static int wrap_place(const walk *w, const abx_toml_node *node, abx_error **err)
{
    return abx_wrap(err, "cannot use '%s', line %u, column %u", w->file->path, node->line,
                    node->column);
}

static int fail_type(const walk *w, const abx_toml_node *node, const char *key,
                     const char *expected, const abx_setting_row *row, abx_error **err)
{
    ABX_AUTO_FREE char *name = abx_printable(key);
    bool show = node->type == ABX_TOML_STRING && !(row && row->secret) && node->len <= 100;
    ABX_AUTO_FREE char *text = show ? abx_printable(node->text) : NULL;
    if (text)
        abx_fail(err, ABX_ERR_CONFIG, "'%s' must be %s, found \"%s\"", name, expected, text);
    else
        abx_fail(err, ABX_ERR_CONFIG, "'%s' must be %s, found %s", name, expected,
                 abx_toml_type_name(node->type));
    return wrap_place(w, node, err);
}

int abx__config_hint_trust(const char *path, abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_dir(path);
    return abx_hint(err, "read the file, then: cd '%s' && abx config trust", folder);
}

static int check_rights(const walk *w, const abx_toml_node *node, const char *key,
                        const abx_setting_row *row, abx_error **err)
{
    if (w->restricted && !row->project) {
        ABX_AUTO_FREE char *name = abx_printable(key);
        abx_fail(err, ABX_ERR_CONFIG, "a project file may not set '%s' until you trust it", name);
        abx__config_hint_trust(w->file->path, err);
        return wrap_place(w, node, err);
    }
    return 0;
}

/* The text of a secret lies in a file: remember that, and refuse it in a system file that all can read. */
static int note_secret(const walk *w, const abx_toml_node *node, const char *key, const char *text,
                       abx_error **err)
{
    if (abx_is_reference(text))
        return 0;
    w->config->holds_secret = true;
    struct stat st;
    if (w->file->source != ABX_SOURCE_SYSTEM || stat(w->file->path, &st) < 0 || !(st.st_mode & 077))
        return 0;
    abx_fail(err, ABX_ERR_CONFIG, "'%s' is a secret, and others may read the file (mode %04o)", key,
             st.st_mode & 07777);
    abx_hint(err, "put a reference there (\"env:NAME\" or \"file:PATH\"), or: chmod 600 '%s'",
             w->file->path);
    return wrap_place(w, node, err);
}

static int add_leaf(const walk *w, const abx_toml_node *node, const char *profile, const char *key,
                    abx_error **err)
{
    const abx_setting_row *row = abx_setting_find(key, ABX_ERR_CONFIG, err);
    if (!row)
        return wrap_place(w, node, err);
    if (profile && !row->provider && strcmp(key, "profile") == 0) {
        abx_fail(err, ABX_ERR_CONFIG, "'profile' may not stand inside a profile");
        return wrap_place(w, node, err);
    }
    char expected[160];
    ABX_AUTO_FREE char *text = abx_setting_from_toml(row, node, expected);
    if (!text)
        return fail_type(w, node, key, expected, row, err);
    if (check_rights(w, node, key, row, err) < 0 ||
        (row->secret && note_secret(w, node, key, text, err) < 0))
        return -1;
    abx_config_value v = {abx_strdup(profile),   abx_strdup(key),
                          ABX_TAKE(text),        node->type,
                          w->file->source,       abx_format("%s:%u", w->file->path, node->line),
                          abx_strdup(w->folder), row};
    abx__config_add(&w->config->files, &v);
    return 0;
}

static int add_providers(const walk *w, const abx_toml_node *table, const char *profile,
                         abx_error **err)
{
    if (table->type != ABX_TOML_TABLE)
        return fail_type(w, table, "providers", "a table", NULL, err);
    for (size_t i = 0; i < table->count; i++) {
        const abx_toml_node *provider = &table->children[i];
        if (!abx_is_name(provider->key)) {
            ABX_AUTO_FREE char *shown = abx_printable(provider->key);
            abx_fail(err, ABX_ERR_CONFIG, "'%s' is no provider id", shown);
            abx_hint(err, "an id has lower-case letters, digits and '-'");
            return wrap_place(w, provider, err);
        }
        ABX_AUTO_FREE char *prefix = abx_format("providers.%s", provider->key);
        if (provider->type != ABX_TOML_TABLE)
            return fail_type(w, provider, prefix, "a table", NULL, err);
        for (size_t k = 0; k < provider->count; k++) {
            ABX_AUTO_FREE char *key = abx_format("%s.%s", prefix, provider->children[k].key);
            if (add_leaf(w, &provider->children[k], profile, key, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* The top level, or one profile. */
static int add_level(const walk *w, const abx_toml_node *table, const char *profile,
                     abx_error **err);

static int add_profiles(const walk *w, const abx_toml_node *table, abx_error **err)
{
    abx_config *c = w->config;
    if (table->type != ABX_TOML_TABLE)
        return fail_type(w, table, "profiles", "a table", NULL, err);
    for (size_t i = 0; i < table->count; i++) {
        const abx_toml_node *profile = &table->children[i];
        if (!abx_is_profile(profile->key)) {
            ABX_AUTO_FREE char *shown = abx_printable(profile->key);
            abx_fail(err, ABX_ERR_CONFIG, "'%s' is no name of a profile", shown);
            abx_hint(err, "a name has letters, digits, '-' and '_'");
            return wrap_place(w, profile, err);
        }
        ABX_AUTO_FREE char *name = abx_format("profiles.%s", profile->key);
        if (profile->type != ABX_TOML_TABLE)
            return fail_type(w, profile, name, "a table", NULL, err);
        c->profiles = abx_realloc(c->profiles, (c->profile_count + 1) * sizeof *c->profiles);
        c->profiles[c->profile_count++] = abx_strdup(profile->key);
        if (add_level(w, profile, profile->key, err) < 0)
            return -1;
    }
    return 0;
}

static int add_level(const walk *w, const abx_toml_node *table, const char *profile,
                     abx_error **err)
{
    for (size_t i = 0; i < table->count; i++) {
        const abx_toml_node *child = &table->children[i];
        int rc;
        if (strcmp(child->key, "providers") == 0)
            rc = add_providers(w, child, profile, err);
        else if (!profile && strcmp(child->key, "profiles") == 0)
            rc = add_profiles(w, child, err);
        else
            rc = add_leaf(w, child, profile, child->key, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* "Error while parsing table header: cannot …" → "table header: cannot …" */
static void fail_syntax(const abx_config_file *file, const abx_toml_error *e, abx_error **err)
{
    static const char noise[] = "Error while parsing ";
    const char *text = abx_has_prefix(e->text, noise) ? e->text + sizeof noise - 1 : e->text;
    ABX_AUTO_FREE char *shown = abx_printable(text);
    if (shown[0] >= 'A' && shown[0] <= 'Z')
        shown[0] = (char)(shown[0] - 'A' + 'a');
    abx_fail(err, ABX_ERR_CONFIG, "cannot use '%s', line %u, column %u: %s", file->path, e->line,
             e->column, shown);
    abx_hint(err, "correct that line; the file is TOML (key = \"value\", [table])");
}

int abx__config_parse(abx_config *c, const abx_config_file *file, const char *text, size_t n,
                      abx_error **err)
{
    abx_toml_node *root = NULL;
    abx_toml_error e;
    if (abx_toml_parse(text, n, &root, &e) < 0) {
        fail_syntax(file, &e, err);
        return -1;
    }
    walk w = {c, file, abx_path_dir(file->path), false};
    w.restricted = file->source == ABX_SOURCE_PROJECT && !c->project_trusted;
    int rc = add_level(&w, root, NULL, err);
    free(w.folder);
    abx_toml_free(root);
    return rc;
}
