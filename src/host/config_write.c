/* Changing the user's file: under a lock, checked before it is written, replaced at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"
#include "host/manifest.h"

#define LOCK_TRIES   500
#define LOCK_STEP_NS 10000000L

/* A lock on the folder of the file; it ends with the descriptor. -1 and *err after five seconds. */
static int lock_folder(const char *path, abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_dir(path);
    ABX_AUTO_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot use '%s'", folder);
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return abx_take_fd(&fd);
        if (errno != EWOULDBLOCK && errno != EINTR)
            return abx_fail_errno(err, ABX_ERR_CONFIG, errno, "cannot lock '%s'", folder);
        nanosleep(&(struct timespec){0, LOCK_STEP_NS}, NULL);
    }
    return abx_fail(err, ABX_ERR_CONFLICT, "another process holds '%s'", folder);
}

static int add_escaped(abx_buf *out, unsigned char c)
{
    switch (c) {
    case '"': return abx_buf_add_str(out, "\\\"");
    case '\\': return abx_buf_add_str(out, "\\\\");
    case '\n': return abx_buf_add_str(out, "\\n");
    case '\t': return abx_buf_add_str(out, "\\t");
    case '\r': return abx_buf_add_str(out, "\\r");
    default: break;
    }
    if (c < 0x20 || c == 0x7f)
        return abx_buf_addf(out, "\\u%04X", c);
    return abx_buf_add_byte(out, c);
}

static bool is_bool_option(const abx_setting_row *row)
{
    return row->option && row->option->type == ABX_OPTION_BOOL;
}

/* The value as TOML (owned): true, false and numbers where the setting is that, else a string. */
static char *literal_of(const abx_setting_row *row, const char *value, abx_error **err)
{
    if (row->type == ABX_SETTING_BOOL || is_bool_option(row))
        return abx_strdup(abx__config_plain_bool(value));
    if (row->option && row->option->type == ABX_OPTION_INT)
        return abx_strdup(value);
    ABX_AUTO_BUF out = ABX_BUF(ABX_TOML_MAX);
    int rc = abx_buf_add_byte(&out, '"');
    for (const char *p = value; *p && rc == 0; p++)
        rc = add_escaped(&out, (unsigned char)*p);
    if (rc == 0)
        rc = abx_buf_add_byte(&out, '"');
    if (rc < 0 || !abx_utf8_valid(value, strlen(value))) {
        abx_fail(err, ABX_ERR_USAGE, rc < 0 ? "the value is too long" : "the value is not UTF-8");
        return NULL;
    }
    return abx_buf_take(&out);
}

/* The row of a key that may begin with "profiles.NAME.". */
static const abx_setting_row *row_of(abx_config *c, const char *key, abx_error **err)
{
    if (!abx_has_prefix(key, "profiles."))
        return abx_config_row(c, key, ABX_ERR_USAGE, err);
    const char *name = key + strlen("profiles.");
    const char *dot = strchr(name, '.');
    ABX_AUTO_FREE char *profile = abx_strndup(name, dot ? (size_t)(dot - name) : strlen(name));
    ABX_AUTO_FREE char *shown = abx_printable(key);
    if (!dot || !abx_is_profile(profile) || strcmp(dot + 1, "profile") == 0) {
        abx_fail(err, ABX_ERR_USAGE, "unknown key '%s'", shown);
        abx_hint(err,
                 "a key of a profile is 'profiles.NAME.KEY', for example profiles.work.provider");
        return NULL;
    }
    return abx_config_row(c, dot + 1, ABX_ERR_USAGE, err);
}

int abx_config_check_key(abx_config *c, const char *key, abx_error **err)
{
    return row_of(c, key, err) ? 0 : -1;
}

bool abx_config_is_secret(abx_config *c, const char *key)
{
    ABX_AUTO_ERROR ignored = NULL; /* writing the key tells what is wrong with it */
    const abx_setting_row *row = row_of(c, key, &ignored);
    return row && row->secret;
}

/* What a change writes: literal NULL takes the key out. */
typedef struct edit {
    const char *key;
    char *literal;
} edit;

static void free_edits(edit *edits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (edits[i].literal)
            explicit_bzero(edits[i].literal, strlen(edits[i].literal)); /* may be a secret */
        free(edits[i].literal);
    }
    free(edits);
}

static void wipe(abx_buf *text)
{
    if (text->data)
        explicit_bzero(text->data, text->cap);
}

/* One edit after the other; `text` becomes what the file will hold. */
static int edit_text(const abx_config *c, const edit *edits, size_t n, abx_buf *text,
                     abx_error **err)
{
    for (size_t i = 0; i < n; i++) {
        ABX_AUTO_BUF next = ABX_BUF(ABX_TOML_MAX);
        const edit *e = &edits[i];
        int rc = e->literal
                     ? abx__config_edit_set(abx_buf_cstr(text), text->len, e->key, e->literal,
                                            &next, err)
                     : abx__config_edit_unset(abx_buf_cstr(text), text->len, e->key, &next, err);
        if (rc < 0) {
            wipe(&next);
            return abx_wrap(err, "cannot change '%s'", c->user_path);
        }
        wipe(text);
        abx_buf swap = *text;
        *text = next;
        next = swap;
    }
    return 0;
}

static int check_text(abx_config *c, const abx_config_file *file, const abx_buf *text,
                      const char *key, abx_error **err)
{
    abx_config probe = {.home = c->home};
    int rc = abx__config_parse(&probe, file, abx_buf_cstr(text), text->len, err);
    abx__config_forget_files(&probe);
    if (rc == 0)
        return 0;
    abx_wrap(err, "cannot set '%s'", key);
    return abx_hint(err, "edit '%s' by hand", c->user_path);
}

/* Read the file ("" if there is none), change it, check and replace it, once for all edits. */
static int change(abx_config *c, const edit *edits, size_t n, abx_error **err)
{
    ABX_AUTO_FD lock = lock_folder(c->user_path, err);
    ABX_AUTO_BUF text = ABX_BUF(ABX_TOML_MAX);
    abx_config_file file = {c->user_path, ABX_SOURCE_USER, c->user_named, !c->user_named};
    if (lock < 0)
        return -1;
    int rc = abx__config_read(&file, &text, NULL, err);
    if (rc < 0)
        return -1;
    bool sets = false;
    for (size_t i = 0; i < n; i++)
        sets = sets || edits[i].literal;
    if (n == 0 || (rc == 1 && !sets))
        return 0;
    rc = edit_text(c, edits, n, &text, err);
    if (rc == 0)
        rc = check_text(c, &file, &text, edits[0].key, err);
    if (rc == 0) {
        /* Through a link, so that a file kept elsewhere stays a link. */
        ABX_AUTO_FREE char *target = realpath(c->user_path, NULL);
        rc = abx_write_atomic(target ? target : c->user_path, text.data, text.len, 0600, true, err);
    }
    wipe(&text);
    return rc;
}

/* A profile that no file has would stop every later command. */
static int check_profile_value(const abx_config *c, const char *value, abx_error **err)
{
    for (size_t i = 0; i < c->profile_count; i++)
        if (strcmp(c->profiles[i], value) == 0)
            return 0;
    ABX_AUTO_FREE char *shown = abx_printable(value);
    abx_fail(err, ABX_ERR_USAGE, "no file has [profiles.%s]", shown);
    return abx_hint(err, "make it first: abx config set profiles.%s.provider ID", shown);
}

/* The literal that a key is set to; NULL and *err when it cannot have this value. */
static char *checked_literal(abx_config *c, const char *key, const char *value, abx_error **err)
{
    const abx_setting_row *row = row_of(c, key, err);
    if (!row)
        return NULL;
    if (is_bool_option(row))
        value = abx__config_plain_bool(value);
    bool reference = row->secret && abx_is_reference(value);
    if (!reference && abx_setting_check(row, value, ABX_ERR_USAGE, key, err) < 0)
        return NULL;
    if (strcmp(key, "profile") == 0 && check_profile_value(c, value, err) < 0)
        return NULL;
    return literal_of(row, value, err);
}

/* What a file has that the plugin does not know (any more) can be taken out. */
static bool may_unset(abx_config *c, const char *key, abx_error **err)
{
    const char *rest = abx_has_prefix(key, "profiles.") ? strstr(key, ".providers.") : NULL;
    rest = rest ? rest + 1 : key;
    if (abx_has_prefix(rest, "providers.") && abx_setting_find(rest, ABX_ERR_USAGE, NULL))
        return true;
    return row_of(c, key, err) != NULL;
}

int abx_config_apply(abx_config *c, const abx_config_change *changes, size_t n, abx_error **err)
{
    edit *edits = abx_alloc_array(n + 1, sizeof *edits);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        edits[i].key = changes[i].key;
        if (changes[i].value) {
            edits[i].literal = checked_literal(c, changes[i].key, changes[i].value, err);
            rc = edits[i].literal ? 0 : -1;
        } else {
            rc = may_unset(c, changes[i].key, err) ? 0 : -1;
        }
    }
    if (rc == 0)
        rc = change(c, edits, n, err);
    free_edits(edits, n);
    return rc < 0 ? -1 : abx__config_reload(c, err);
}

int abx_config_write(abx_config *c, const char *key, const char *value, abx_error **err)
{
    return abx_config_apply(c, &(abx_config_change){key, value}, 1, err);
}

int abx_config_unset(abx_config *c, const char *key, abx_error **err)
{
    return abx_config_apply(c, &(abx_config_change){key, NULL}, 1, err);
}
