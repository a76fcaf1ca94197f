/* Shared by config*.c and trust.c only. */
#ifndef ABX_HOST_CONFIG_INNER_H
#define ABX_HOST_CONFIG_INNER_H

#include "base/buf.h"
#include "host/config.h"
#include "host/config_keys.h"

/* One value of a file or a flag. */
typedef struct abx_config_value {
    char *profile; /* the [profiles.NAME] that it stands in, or NULL */
    char *key;     /* "output", "providers.ID.KEY" */
    char *text;
    abx_toml_type type; /* as written; a flag is text */
    abx_source source;
    char *where;  /* "FILE:LINE", "flag --provider" */
    char *folder; /* of the file, for relative references; or NULL */
    const abx_setting_row *row;
    bool literal; /* no reference, whatever it looks like */
} abx_config_value;

/* An installed plugin that a key was looked up for. */
typedef struct abx_config_plugin {
    struct abx_config_plugin *next;
    char *id;
    struct abx_manifest *manifest; /* NULL: not installed, or it cannot be read */
    abx_setting_row *rows;         /* one an option */
} abx_config_plugin;

typedef struct abx_config_values {
    abx_config_value *items;
    size_t count, cap;
} abx_config_values;

struct abx_config {
    char *home, *user_path, *system_path;
    bool user_named;        /* --config FILE: it must exist, its folder is not ours */
    const char *const *env; /* borrowed */
    char *project_path;     /* or NULL */
    bool project_trusted, project_ignored, profile_ignored;
    bool no_files;
    bool given;                    /* by a client: values are no references */
    char *profile, *profile_where; /* the profile in use, or NULL */
    abx_source profile_source;
    char **profiles; /* names that a file defines */
    size_t profile_count;
    abx_config_values files; /* in the order of precedence: project, user, system */
    abx_config_values flags;
    char **options; /* "KEY=VALUE" of -O */
    size_t option_count;
    bool holds_secret;
    abx_config_plugin *plugins; /* looked up so far */
    void (*on_secret)(void *data);
    void *on_secret_data;
};

/* config.c */
const char *abx__config_env(const abx_config *c,
                            const char *name); /* NULL also for an empty value */
void abx__config_add(abx_config_values *values,
                     const abx_config_value *value); /* strings are taken over */
void abx__config_values_clear(abx_config_values *values);
/* The value of a whole key that counts, looked for in the files (chosen profile first) only. Or NULL. */
const abx_config_value *abx__config_in_files(const abx_config *c, const char *key);
const abx_config_value *abx__config_in_flags(const abx_config *c, const char *key);
void abx__config_forget_files(abx_config *c);           /* what was read from files */
int abx__config_reload(abx_config *c, abx_error **err); /* read the files again */

void abx__config_loaded_secret(const abx_config *c); /* tell whoever wants to know */

/* config_provider.c: the text of a value, or what it refers to ("env:NAME", "file:PATH"); owned. NULL and *err. */
char *abx__config_resolve(const abx_config *c, const abx_config_value *v, abx_error **err);

/* config_usual.c: the value that a variable of the service's own gives a key ("providers.ID.KEY"), and its name; or NULL. */
const char *abx__config_usual(const abx_config *c, const char *key, const char **name);
/* That variable, and how an address must end for it to count; or NULL. */
const char *abx__config_usual_name(const char *provider, const char *key, const char **suffix);

/* config_plugin.c */
/* The installed plugin with this id as its manifest describes it, or NULL. Its files are not compared with the receipt: for names and
 * types of settings only. */
const abx_config_plugin *abx__config_plugin(abx_config *c, const char *id);
/* The row of a key for reading: also of one that an installed plugin does not know (any more). Or NULL. */
const abx_setting_row *abx__config_any_row(abx_config *c, const char *key);
void abx__config_forget_plugins(abx_config *c);
/* "true" for 1, yes, on, true; else "false". */
const char *abx__config_plain_bool(const char *text);

/* config_file.c */
typedef struct abx_config_file {
    const char *path;
    abx_source source; /* SYSTEM, USER or PROJECT */
    bool must_exist;
    bool own_folder; /* its folder must be 0700 */
} abx_config_file;
/* Open and check owner and modes; *text gets the contents. *foreign (PROJECT only): others own it or may write it.
 * 0; 1: there is no such file; -1. */
int abx__config_read(const abx_config_file *file, abx_buf *text, bool *foreign, abx_error **err);
/* Parse text and add what it sets. */
int abx__config_parse(abx_config *c, const abx_config_file *file, const char *text, size_t n,
                      abx_error **err);

/* config_project.c: the abx.toml that counts for a folder (owned), or NULL. home: the user's, or NULL. */
char *abx__config_find_project(const char *cwd, const char *home);

/* trust.c */
/* 1: the user trusts exactly this content of this file; 0: not; -1. */
int abx__trust_check(const char *home, const char *path, const char *text, size_t n,
                     abx_error **err);
int abx__config_hint_trust(const char *path, abx_error **err); /* the command to type; -1 */
int abx__trust_remember(const char *home, const char *path, const char *text, size_t n,
                        abx_error **err);

/* config_edit.c: texts in, texts out; nothing is read or written. */
/* Put `key` (parts separated by dots, each a bare key) = literal into TOML text. 0 and *out (text), or -1 with CONFIG
 * when the text cannot be changed in place (its hint says to edit by hand). */
int abx__config_edit_set(const char *text, size_t n, const char *key, const char *literal,
                         abx_buf *out, abx_error **err);
/* Take the key out; what is not there stays so. */
int abx__config_edit_unset(const char *text, size_t n, const char *key, abx_buf *out,
                           abx_error **err);

#endif
