/* Shared by manifest*.c only: a table of TOML is read by a list of the keys that it may have. */
#ifndef ABX_HOST_MANIFEST_INNER_H
#define ABX_HOST_MANIFEST_INNER_H

#include "host/manifest.h"
#include "host/toml.h"

typedef struct abx_mf_reader {
    const char *file;
    abx_problems *problems;
    abx_manifest *manifest;
} abx_mf_reader;

#define ABX_TOML_ANY (-1)

/* One key that a table may have. */
typedef struct abx_mf_key {
    const char *name;
    int type; /* an abx_toml_type, or ABX_TOML_ANY: `take` looks at it */
    bool required;
    const char *expected; /* "text", "a list of texts": what the value is, for people */
    /* Take a value of the right type; key: whole name; to: what the table is read into. NULL: read elsewhere. */
    void (*take)(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to);
} abx_mf_key;

/* One row of manifest.def as one of these. */
#define ABX_MF_ALWAYS true
#define ABX_MF_MAYBE  false
#define ABX_MF_ROW(name, type, needed, expected, take, text)                                       \
    {name, ABX_TOML_##type, ABX_MF_##needed, expected, take},

/* Read a table: unknown keys, wrong types and missing keys are problems, all else is taken. name: of the table
 * ("runtime", "" for the whole file). */
void abx__mf_table(abx_mf_reader *r, const abx_toml_node *table, const char *name,
                   const abx_mf_key *keys, size_t count, void *to);

/* Problems. at: where; key: whole name. */
/* "'KEY' must be EXPECTED, found FOUND"; found NULL: as the node shows. */
void abx__mf_wrong(abx_mf_reader *r, const abx_toml_node *at, const char *key, const char *found,
                   const char *expected, const char *hint);
void abx__mf_missing(abx_mf_reader *r, const abx_toml_node *table, const char *key,
                     const char *expected);
/* Anything else: a sentence of its own. */
void abx__mf_problem(abx_mf_reader *r, const abx_toml_node *at, const char *key, bool warning,
                     const char *text, const char *hint);
/* A node's value for people: its text in double quotes, its number, or the name of its type. Owned. */
char *abx__mf_shown(const abx_toml_node *node);

/* A text of at most max bytes (0: may be empty) without control characters: an owned copy, or NULL and a problem. */
char *abx__mf_text(abx_mf_reader *r, const abx_toml_node *node, const char *key, size_t max);
typedef bool (*abx_mf_check)(const char *text);
/* A list of such texts: owned, NULL at the end, or NULL and a problem. expected: of one text. check: NULL: any text, also
 * repeated ones. */
char **abx__mf_texts(abx_mf_reader *r, const abx_toml_node *node, const char *key, size_t max_count,
                     size_t max, const char *expected, abx_mf_check check, size_t *count);
void abx__mf_free_texts(char **texts);

bool abx__mf_is_variable(const char *text); /* a variable that a plugin may ask for: no ABX_… */
extern const char abx__mf_variable_expected[];
bool abx__mf_is_url(const char *text);

/* manifest_option.c, manifest_rest.c */
void abx__mf_options(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to);
void abx__mf_option_clear(abx_option *option);
void abx__mf_rest(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to);
/* Once the options are known: [rest] names no other ones. */
void abx__mf_rest_options(abx_mf_reader *r, const abx_toml_node *node);

#endif
