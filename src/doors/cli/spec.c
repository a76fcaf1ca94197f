#include "doors/cli/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const abx_verb verbs[] = {
#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary)                     \
    {ABX_VERB_##id, name, aliases, ABX_ARGS_##args, min, max, ABX_EXITS_##exits, usage, summary},
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
};

static const abx_flag flags[] = {
#define ABX_FLAG(id, name, letter, aliases, type, arg, otherwise, verbs, text)                     \
    {ABX_FLAG_##id, name, letter, aliases, ABX_FLAG_TYPE_##type, arg, otherwise, verbs, text},
#include "doors/cli/spec_begin.h"
#include "doors/cli/flags.def"
#include "doors/cli/spec_end.h"
};

static const abx_verb_line texts[] = {
#define ABX_TEXT(id, text) {ABX_VERB_##id, NULL, text},
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
};

static const abx_verb_line examples[] = {
#define ABX_EXAMPLE(id, command, text) {ABX_VERB_##id, command, text},
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
};

static const abx_verb_output outputs[] = {
#define ABX_OUTPUT(id, shape, name) {ABX_VERB_##id, ABX_SHAPE_##shape, name},
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
};

static const abx_exit_row exits[] = {
#define ABX_EXIT(class, code, text) {ABX_EXITS_##class, code, text},
#include "doors/cli/spec_begin.h"
#include "doors/cli/exits.def"
#include "doors/cli/spec_end.h"
};

static const abx_object_row objects[] = {
#define ABX_OBJECT(name, text)              {name, NULL, NULL, text},
#define ABX_FIELD(object, name, type, text) {object, name, type, text},
#include "doors/cli/spec_begin.h"
#include "doors/cli/objects.def"
#include "doors/cli/spec_end.h"
};

static const struct {
    abx_flag_id id, other;
} clears[] = {
#define ABX_FLAG_CLEARS(id, other) {ABX_FLAG_##id, ABX_FLAG_##other},
#include "doors/cli/spec_begin.h"
#include "doors/cli/flags.def"
#include "doors/cli/spec_end.h"
};

const abx_verb *abx_verb_row(abx_verb_id id)
{
    ABX_CHECK(id < ABX_VERB_COUNT);
    return &verbs[id];
}

const abx_flag *abx_flag_row(abx_flag_id id)
{
    ABX_CHECK(id < ABX_FLAG_COUNT);
    return &flags[id];
}

const abx_verb_line *abx_verb_texts(size_t *count)
{
    *count = ABX_COUNT(texts);
    return texts;
}

const abx_verb_line *abx_verb_examples(size_t *count)
{
    *count = ABX_COUNT(examples);
    return examples;
}

const abx_verb_output *abx_verb_outputs(size_t *count)
{
    *count = ABX_COUNT(outputs);
    return outputs;
}

const abx_exit_row *abx_exit_rows(size_t *count)
{
    *count = ABX_COUNT(exits);
    return exits;
}

const abx_object_row *abx_object_rows(size_t *count)
{
    *count = ABX_COUNT(objects);
    return objects;
}

const char *abx_flag_type_name(abx_flag_type type)
{
    static const char *const names[] = {"boolean", "switch",  "count",    "optional",
                                        "string",  "integer", "duration", "size",
                                        "number",  "choice",  "pairs",    "strings"};
    ABX_CHECK((size_t)type < ABX_COUNT(names));
    return names[type];
}

const char *abx_shape_name(abx_shape shape)
{
    static const char *const names[] = {"object", "list", "lines"};
    ABX_CHECK((size_t)shape < ABX_COUNT(names));
    return names[shape];
}

bool abx_flag_takes_value(abx_flag_type type)
{
    return type >= ABX_FLAG_TYPE_STRING;
}

bool abx_in_list(const char *list, const char *name, char separator)
{
    size_t n = strlen(name);
    for (const char *p = list; n > 0 && *p;) {
        const char *end = strchr(p, separator);
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len == n && memcmp(p, name, n) == 0)
            return true;
        p += len + (end != NULL);
    }
    return false;
}

/* True if "first second" is the verb's name or one of its aliases, which are pairs of words. */
static bool is_pair(const abx_verb *verb, const char *first, const char *second)
{
    char pair[64];
    if (snprintf(pair, sizeof pair, "%s %s", first, second) >= (int)sizeof pair)
        return false;
    if (strcmp(verb->name, pair) == 0)
        return true;
    const char *found = strstr(verb->aliases, pair);
    size_t n = strlen(pair);
    return found && (found == verb->aliases || found[-1] == ' ') &&
           (found[n] == 0 || found[n] == ' ');
}

/* The first word of each pair in a list of pairs. */
static bool begins_pair(const char *pairs, const char *word)
{
    size_t n = strlen(word), at = 0;
    for (const char *p = pairs; *p; at++) {
        size_t len = strcspn(p, " ");
        if (at % 2 == 0 && len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

bool abx_is_verb_group(const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; n > 0 && i < ABX_COUNT(verbs); i++) {
        if (strncmp(verbs[i].name, word, n) == 0 && verbs[i].name[n] == ' ')
            return true;
        if (strchr(verbs[i].name, ' ') && begins_pair(verbs[i].aliases, word))
            return true;
    }
    return false;
}

const char *abx_verb_subgroup(const char *group, const char *word)
{
    static const char *const nested[] = {"provider engine"};
    for (size_t i = 0; i < ABX_COUNT(nested); i++) {
        size_t n = strlen(group);
        if (strncmp(nested[i], group, n) == 0 && nested[i][n] == ' ' &&
            strcmp(nested[i] + n + 1, word) == 0)
            return nested[i];
    }
    return NULL;
}

const abx_verb *abx_verb_find(const char *first, const char *second, int *words)
{
    bool group = abx_is_verb_group(first);
    if (group && !second)
        return NULL;
    *words = group ? 2 : 1;
    for (size_t i = 0; i < ABX_COUNT(verbs); i++) {
        const abx_verb *v = &verbs[i];
        if (group ? is_pair(v, first, second)
                  : !strchr(v->name, ' ') &&
                        (strcmp(v->name, first) == 0 || abx_in_list(v->aliases, first, ' ')))
            return v;
    }
    return NULL;
}

bool abx_flag_is_global(const abx_flag *flag)
{
    return flag->verbs[0] == '*';
}

bool abx_verb_has_flag(const abx_verb *verb, const abx_flag *flag)
{
    return abx_flag_is_global(flag) || (verb && abx_in_list(flag->verbs, verb->name, ','));
}

abx_flag_id abx_flag_clears(abx_flag_id id)
{
    for (size_t i = 0; i < ABX_COUNT(clears); i++)
        if (clears[i].id == id)
            return clears[i].other;
    return ABX_FLAG_COUNT;
}
