/* The tables of the command line as data (verbs.def, flags.def, exits.def, objects.def). Read-only; any thread. */
#ifndef ABX_CLI_SPEC_H
#define ABX_CLI_SPEC_H

#include <stdbool.h>
#include <stddef.h>

typedef enum abx_verb_id {
#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary) ABX_VERB_##id,
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
    ABX_VERB_COUNT
} abx_verb_id;

typedef enum abx_flag_id {
#define ABX_FLAG(id, name, letter, aliases, type, arg, otherwise, verbs, text) ABX_FLAG_##id,
#include "doors/cli/spec_begin.h"
#include "doors/cli/flags.def"
#include "doors/cli/spec_end.h"
    ABX_FLAG_COUNT
} abx_flag_id;

typedef enum abx_args_kind { ABX_ARGS_WORDS, ABX_ARGS_COMMAND, ABX_ARGS_ID_COMMAND } abx_args_kind;
typedef enum abx_exits { ABX_EXITS_PROCESS, ABX_EXITS_WAIT, ABX_EXITS_COMMON } abx_exits;
typedef enum abx_shape { ABX_SHAPE_OBJECT, ABX_SHAPE_LIST, ABX_SHAPE_LINES } abx_shape;
typedef enum abx_flag_type {
    ABX_FLAG_TYPE_BOOL,
    ABX_FLAG_TYPE_ON,
    ABX_FLAG_TYPE_COUNT,
    ABX_FLAG_TYPE_OPTIONAL,
    ABX_FLAG_TYPE_STRING,
    ABX_FLAG_TYPE_INT,
    ABX_FLAG_TYPE_DURATION,
    ABX_FLAG_TYPE_SIZE,
    ABX_FLAG_TYPE_NUMBER,
    ABX_FLAG_TYPE_CHOICE,
    ABX_FLAG_TYPE_PAIRS,
    ABX_FLAG_TYPE_STRINGS
} abx_flag_type;

typedef struct abx_verb {
    abx_verb_id id;
    const char *name;    /* "run", "files ls" */
    const char *aliases; /* separated by blanks; of a group: pairs of words */
    abx_args_kind args;
    int min, max; /* words before a command; max -1: any number */
    abx_exits exits;
    const char *usage, *summary;
} abx_verb;

typedef struct abx_flag {
    abx_flag_id id;
    const char *name;
    char letter; /* 0: none */
    const char *aliases;
    abx_flag_type type;
    const char *arg, *otherwise;
    const char *verbs; /* "*": global */
    const char *text;
} abx_flag;

/* A line of text that belongs to a verb: a paragraph (command NULL) or an example. */
typedef struct abx_verb_line {
    abx_verb_id verb;
    const char *command, *text;
} abx_verb_line;

typedef struct abx_verb_output {
    abx_verb_id verb;
    abx_shape shape;
    const char *object;
} abx_verb_output;

typedef struct abx_exit_row {
    abx_exits exits;
    const char *code, *text;
} abx_exit_row;

/* A field of an object, or the object itself (name NULL). */
typedef struct abx_object_row {
    const char *object, *name, *type, *text;
} abx_object_row;

const abx_verb *abx_verb_row(abx_verb_id id);
const abx_flag *abx_flag_row(abx_flag_id id);
const abx_verb_line *abx_verb_texts(size_t *count);
const abx_verb_line *abx_verb_examples(size_t *count);
const abx_verb_output *abx_verb_outputs(size_t *count);
const abx_exit_row *abx_exit_rows(size_t *count);
const abx_object_row *abx_object_rows(size_t *count);
const char *abx_flag_type_name(abx_flag_type type);
const char *abx_shape_name(abx_shape shape);
bool abx_flag_takes_value(abx_flag_type type);

/* The verb with this name or alias; second: the word behind it, or NULL. *words: how many words the name
 * took (1 or 2). NULL when there is none. */
const abx_verb *abx_verb_find(const char *first, const char *second, int *words);
bool abx_is_verb_group(const char *word); /* "files", "config", "provider engine" */
/* The group inside of a group that this word begins: "provider", "engine" → "provider engine" (static). NULL: none. */
const char *abx_verb_subgroup(const char *group, const char *word);
/* True if `name` stands in `list`, a text of names with `separator` between them. */
bool abx_in_list(const char *list, const char *name, char separator);
bool abx_flag_is_global(const abx_flag *flag);
/* True if the verb takes the flag (global ones too). */
bool abx_verb_has_flag(const abx_verb *verb, const abx_flag *flag);
/* The flag whose setting unsets `id`'s opposite, or ABX_FLAG_COUNT. */
abx_flag_id abx_flag_clears(abx_flag_id id);

#endif
