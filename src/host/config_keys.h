/* The table of settings (settings.def) as data: finding a key, checking a value. Read-only; any thread. */
#ifndef ABX_HOST_CONFIG_KEYS_H
#define ABX_HOST_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "host/toml.h"

typedef enum abx_setting_type {
    ABX_SETTING_TEXT,
    ABX_SETTING_NAME,
    ABX_SETTING_ENUM,
    ABX_SETTING_BOOL,
    ABX_SETTING_DURATION,
    ABX_SETTING_URL,
    ABX_SETTING_SIZE,
    ABX_SETTING_NUMBER,
    ABX_SETTING_COUNT,
    ABX_SETTING_ANY,   /* option of a provider whose manifest is not known here */
    ABX_SETTING_OPTION /* option of an installed plugin: as `option` says */
} abx_setting_type;

typedef struct abx_setting_row {
    const char *
        provider; /* NULL: top level; "": common key of every provider; else the builtin provider's id */
    const char *key; /* last part of the name */
    abx_setting_type type;
    const char *choices;   /* ENUM: "a|b|c" */
    const char *env;       /* variable, or NULL */
    const char *otherwise; /* default, or NULL */
    bool project;          /* a project file may set it without being trusted */
    bool secret;
    const char *text;                /* one line for people */
    const struct abx_option *option; /* OPTION: of the manifest (host/manifest.h); else NULL */
} abx_setting_row;

const abx_setting_row *abx_settings(size_t *count);

/* The row of a whole key: "output", "providers.ID.KEY"; not with "profiles." in front. NULL and *err (of this id)
 * when there is none; the error says what was unknown and its hint names the nearest known key. */
const abx_setting_row *abx_setting_find(const char *key, abx_err_id id, abx_error **err);
/* "providers.ID.KEY" → ID (owned), else NULL. */
char *abx_setting_provider(const char *key);

/* True if text is a value of this row; else `expected` (room for 160) says what is: "one of table, wide". */
bool abx_setting_accepts(const abx_setting_row *row, const char *text, char expected[160]);
/* The same as an error: "SUBJECT must be EXPECTED, found 'text'" (a secret's value is not shown). 0 or -1. */
int abx_setting_check(const abx_setting_row *row, const char *text, abx_err_id id,
                      const char *subject, abx_error **err);
/* The value of a TOML node as text (owned), or NULL with `expected` when its type does not fit the row. */
char *abx_setting_from_toml(const abx_setting_row *row, const abx_toml_node *node,
                            char expected[160]);

/* A name of a profile: [A-Za-z0-9] then up to 62 of [A-Za-z0-9_-]. */
bool abx_is_profile(const char *s);
/* A value as it may be shown: a secret keeps at most its last four characters (none if it has fewer than 8),
 * a reference is shown, a password in a URL is not. Owned by the caller. */
char *abx_setting_shown(const abx_setting_row *row, const char *text);
/* True for "env:NAME" and "file:PATH". */
bool abx_is_reference(const char *text);

#endif
