/* TOML text as a tree of plain C structs with the position of each key and value. The parser is toml++; this header is
 * all that the rest of the program sees of it, and it is read by a C++ compiler too.
 *
 * Positions are byte offsets into the text that was given (what an editor of the text needs), and lines and columns
 * counted from 1 (what a person needs; a column is a character). A byte order mark is not accepted.
 * Limits: ABX_TOML_MAX bytes of text; values nested ABX_TOML_DEPTH deep. */
#ifndef ABX_HOST_TOML_H
#define ABX_HOST_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ABX_TOML_MAX   ((size_t)256 * 1024)
#define ABX_TOML_DEPTH 16

typedef enum abx_toml_type {
    ABX_TOML_TABLE,
    ABX_TOML_ARRAY,
    ABX_TOML_STRING,
    ABX_TOML_INT,
    ABX_TOML_FLOAT,
    ABX_TOML_BOOL,
    ABX_TOML_TIME
} abx_toml_type;

typedef struct abx_toml_node {
    abx_toml_type type;
    char *key;                 /* of this node in its table; NULL in an array and for the root */
    char *text;                /* STRING: its value; else NULL. May hold a 0 byte: see len */
    size_t len;                /* bytes of text */
    int64_t whole;             /* INT, BOOL (0, 1) */
    double real;               /* FLOAT */
    bool is_inline;            /* TABLE: written as { … } */
    unsigned line, column;     /* of the key; of the value where there is no key */
    size_t key_begin, key_end; /* the last part of the key as written, quotes included */
    size_t value_begin,
        value_end; /* the value as written; TABLE that is not inline: its header, or what made it */
    struct abx_toml_node *children; /* TABLE (sorted by position), ARRAY */
    size_t count;
} abx_toml_node;

typedef struct abx_toml_error {
    unsigned line, column;
    char text[256]; /* what was found and what was expected */
} abx_toml_error;

/* Parse n bytes of text. 0 and *root (for abx_toml_free), or -1 and *error. Any thread. */
int abx_toml_parse(const char *text, size_t n, abx_toml_node **root, abx_toml_error *error);
/* Frees a whole tree after overwriting its texts (they may be secrets). NULL allowed. */
void abx_toml_free(abx_toml_node *root);
/* "a table", "text", "a whole number", … */
const char *abx_toml_type_name(abx_toml_type type);
/* The member of a table with this key, or NULL. */
abx_toml_node *abx_toml_get(const abx_toml_node *table, const char *key);

#ifdef __cplusplus
}
#endif

#endif
