/* A command line, parsed by the tables. Rules: flags stand anywhere before the command; the first word behind the
 * sandbox (for run: the first word), or "--", begins the command, which is not looked at; short flags may be put
 * together (-it) and carry their value (-uroot); --flag value and --flag=value; of a repeated flag with one value
 * the last wins; BOOL flags have a --no- form. Everything points into argv, nothing is copied. */
#ifndef ABX_CLI_ARGS_H
#define ABX_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "doors/cli/spec.h"

typedef struct abx_arg_value {
    bool set;          /* given; for BOOL: and not taken back by a later --no- */
    int count;         /* COUNT: how often */
    const char *value; /* as given, or NULL */
    uint64_t number;   /* INT; DURATION in milliseconds (ABX_FOREVER: no limit); SIZE in bytes;
                      * NUMBER in thousandths */
} abx_arg_value;

typedef struct abx_arg_item {
    abx_flag_id flag;
    const char *value;
} abx_arg_item;

typedef struct abx_args {
    const abx_verb *verb; /* or NULL: none was given */
    const char *group;    /* "files" when only this was given, else NULL */
    abx_arg_value flags[ABX_FLAG_COUNT];
    abx_arg_item *items; /* of PAIRS and STRINGS flags, in their order */
    size_t item_count;
    const char **words;
    size_t word_count;
    char **command; /* NULL at the end, as argv */
    size_t command_count;
} abx_args;

/* argv[argc] must be NULL. Returns 0; -1 and USAGE (out then holds what was read so far). Clear it in both cases. */
int abx_args_parse(int argc, char **argv, abx_args *out, abx_error **err);
void abx_args_clear(abx_args *args);

static inline bool abx_has_flag(const abx_args *args, abx_flag_id id)
{
    return args->flags[id].set;
}
/* The value of a flag, or `otherwise` when it was not given. */
const char *abx_flag_value(const abx_args *args, abx_flag_id id, const char *otherwise);
uint64_t abx_flag_number(const abx_args *args, abx_flag_id id, uint64_t otherwise);
/* True if a JSON error was asked for, also when the line could not be parsed to its end. */
bool abx_args_want_json(int argc, char **argv);

#endif
