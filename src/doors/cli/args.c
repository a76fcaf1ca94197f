#include "doors/cli/args.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/suggest.h"

/* One reading of a command line. */
typedef struct parser {
    int argc, at; /* at: the next word */
    char **argv;
    const char *group; /* the words of a verb but the last; or NULL */
    abx_args *out;
} parser;

static int fail_usage(const parser *p, abx_error **err, const char *fmt, ...) ABX_PRINTF(3, 4);
static int fail_usage(const parser *p, abx_error **err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    abx_fail(err, ABX_ERR_USAGE, "%s", text);
    if (p->out->verb)
        return abx_hint(err, "usage: abx %s; 'abx help %s' tells more", p->out->verb->usage,
                        p->out->verb->name);
    return abx_hint(err, "'abx help' lists the verbs");
}

static int set_number(abx_arg_value *v, const abx_flag *flag, const char *value, abx_error **err)
{
    if (flag->type == ABX_FLAG_TYPE_INT) {
        if (abx_parse_uint(value, INT64_MAX, &v->number) == 0)
            return 0;
        return abx_fail(err, ABX_ERR_USAGE, "flag '--%s' needs a number, not '%s'", flag->name,
                        value);
    }
    if (flag->type == ABX_FLAG_TYPE_SIZE) {
        if (abx_parse_size(value, &v->number) == 0)
            return 0;
        abx_fail(err, ABX_ERR_USAGE, "flag '--%s' needs a size, not '%s'", flag->name, value);
        return abx_hint(err, "for example 512m, 2g, 64KiB; units are binary");
    }
    if (flag->type == ABX_FLAG_TYPE_NUMBER) {
        if (abx_parse_millis(value, INT32_MAX, &v->number) == 0)
            return 0;
        return abx_fail(err, ABX_ERR_USAGE, "flag '--%s' needs a number as 2 or 0.5, not '%s'",
                        flag->name, value);
    }
    if (abx_parse_duration(value, &v->number) == 0)
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "flag '--%s' needs a duration, not '%s'", flag->name, value);
    return abx_hint(err, "for example 500ms, 30s, 5m, 1h30m; none for no limit");
}

static int check_value(const abx_flag *flag, const char *value, abx_error **err)
{
    if (flag->type == ABX_FLAG_TYPE_CHOICE && !abx_in_list(flag->arg, value, '|'))
        return abx_fail_unknown_choice(flag, value, err);
    if (flag->type != ABX_FLAG_TYPE_PAIRS)
        return 0;
    const char *equals = strchr(value, '=');
    bool needs_value = !strchr(flag->arg, '[');
    if (equals == value || !value[0] || (needs_value && !equals))
        return abx_fail(err, ABX_ERR_USAGE, "flag '--%s' needs %s, not '%s'", flag->name, flag->arg,
                        value);
    return 0;
}

/* Set a flag. value NULL: a flag without one; on false: its --no- form. */
static int set_flag(parser *p, const abx_flag *flag, const char *value, bool on, abx_error **err)
{
    abx_args *out = p->out;
    abx_arg_value *v = &out->flags[flag->id];
    if (value && check_value(flag, value, err) < 0)
        return -1;
    if ((flag->type == ABX_FLAG_TYPE_INT || flag->type == ABX_FLAG_TYPE_DURATION ||
         flag->type == ABX_FLAG_TYPE_SIZE || flag->type == ABX_FLAG_TYPE_NUMBER) &&
        set_number(v, flag, value, err) < 0)
        return -1;
    v->set = on;
    v->value = value;
    v->count = on ? v->count + 1 : 0;
    if (flag->type == ABX_FLAG_TYPE_PAIRS || flag->type == ABX_FLAG_TYPE_STRINGS)
        out->items[out->item_count++] = (abx_arg_item){flag->id, value};
    if (flag->id == ABX_FLAG_JSON)
        out->flags[ABX_FLAG_OUTPUT] = (abx_arg_value){.set = true, .value = "json"};
    abx_flag_id other = abx_flag_clears(flag->id);
    if (on && other < ABX_FLAG_COUNT)
        out->flags[other].set = false;
    return 0;
}

/* The verb's flag with this long name; *off when it was its --no- form. */
static const abx_flag *find_long(const abx_verb *verb, const char *name, bool *off)
{
    *off = false;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < ABX_FLAG_COUNT; i++) {
            const abx_flag *f = abx_flag_row((abx_flag_id)i);
            if (!abx_verb_has_flag(verb, f) || (pass == 1 && f->type != ABX_FLAG_TYPE_BOOL))
                continue;
            if (strcmp(f->name, name) == 0 || abx_in_list(f->aliases, name, ' ')) {
                *off = pass == 1;
                return f;
            }
        }
        if (!abx_has_prefix(name, "no-"))
            return NULL;
        name += 3;
    }
    return NULL;
}

static int take_long(parser *p, char *arg, abx_error **err)
{
    const char *equals = strchr(arg, '=');
    ABX_AUTO_FREE char *name =
        equals ? abx_strndup(arg + 2, (size_t)(equals - arg) - 2) : abx_strdup(arg + 2);
    bool off = false;
    const abx_flag *flag = find_long(p->out->verb, name, &off);
    if (!flag)
        return abx_fail_unknown_flag(p->out->verb, name, err);
    const char *value = equals ? equals + 1 : NULL;
    if (!abx_flag_takes_value(flag->type)) {
        if (value && flag->type == ABX_FLAG_TYPE_BOOL && !off &&
            (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
            return set_flag(p, flag, NULL, value[0] == 't', err);
        if (value && flag->type != ABX_FLAG_TYPE_OPTIONAL)
            return fail_usage(p, err, "flag '--%s' takes no value", name);
        if (value)
            return set_flag(p, flag, value, true, err);
        return set_flag(p, flag, NULL, !off, err);
    }
    if (!value && p->at >= p->argc)
        return fail_usage(p, err, "flag '--%s' needs a value", name);
    return set_flag(p, flag, value ? value : p->argv[p->at++], true, err);
}

static const abx_flag *find_short(const abx_verb *verb, char letter)
{
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (f->letter == letter && abx_verb_has_flag(verb, f))
            return f;
    }
    return NULL;
}

/* -it, -uroot, -u root, -u=root */
static int take_short(parser *p, const char *arg, abx_error **err)
{
    for (const char *c = arg + 1; *c; c++) {
        const abx_flag *flag = find_short(p->out->verb, *c);
        if (!flag)
            return abx_fail_unknown_letter(p->out->verb, c, err);
        if (!abx_flag_takes_value(flag->type)) {
            if (set_flag(p, flag, NULL, true, err) < 0)
                return -1;
            continue;
        }
        if (c[1])
            return set_flag(p, flag, c + 1 + (c[1] == '='), true, err);
        if (p->at >= p->argc)
            return fail_usage(p, err, "flag '--%s' needs a value", flag->name);
        return set_flag(p, flag, p->argv[p->at++], true, err);
    }
    return 0;
}

static int take_verb(parser *p, const char *word, abx_error **err)
{
    int words = 0;
    if (!p->group && abx_is_verb_group(word)) {
        p->group = word;
        p->out->group = word;
        return 0;
    }
    const char *inner = p->group ? abx_verb_subgroup(p->group, word) : NULL;
    if (inner) {
        p->group = p->out->group = inner;
        return 0;
    }
    p->out->verb =
        p->group ? abx_verb_find(p->group, word, &words) : abx_verb_find(word, NULL, &words);
    if (!p->out->verb)
        return abx_fail_unknown_verb(p->group, word, err);
    p->out->group = NULL;
    return 0;
}

static void begin_command(parser *p, int at)
{
    p->out->command = p->argv + at;
    p->out->command_count = (size_t)(p->argc - at);
    p->at = p->argc;
}

static int take_word(parser *p, char *word, abx_error **err)
{
    abx_args *out = p->out;
    if (!out->verb)
        return take_verb(p, word, err);
    if (out->verb->args != ABX_ARGS_WORDS && out->word_count == (size_t)out->verb->max) {
        begin_command(p, p->at - 1);
        return 0;
    }
    if (out->verb->max >= 0 && out->word_count == (size_t)out->verb->max)
        return fail_usage(p, err, "'%s' is one word too many", word);
    out->words[out->word_count++] = word;
    return 0;
}

/* "--": the rest is the command, or words. */
static int take_rest(parser *p, abx_error **err)
{
    abx_args *out = p->out;
    if (!out->verb)
        return fail_usage(p, err, "no verb before '--'");
    if (out->verb->args == ABX_ARGS_WORDS) {
        while (p->at < p->argc)
            if (take_word(p, p->argv[p->at++], err) < 0)
                return -1;
        return 0;
    }
    if (out->word_count < (size_t)out->verb->min)
        return fail_usage(p, err, "'abx %s' needs the sandbox before '--'", out->verb->name);
    begin_command(p, p->at);
    return 0;
}

static int check_counts(const parser *p, abx_error **err)
{
    const abx_args *out = p->out;
    if (abx_has_flag(out, ABX_FLAG_HELP) || abx_has_flag(out, ABX_FLAG_VERSION))
        return 0;
    if (out->group)
        return abx_fail_unknown_verb(out->group, NULL, err);
    if (!out->verb)
        return 0;
    if (out->word_count < (size_t)out->verb->min)
        return fail_usage(p, err, "'abx %s' needs more words", out->verb->name);
    bool has_default = out->verb->id == ABX_VERB_RUN &&
                       (abx_has_flag(out, ABX_FLAG_TEMPLATE) || abx_has_flag(out, ABX_FLAG_IMAGE) ||
                        abx_has_flag(out, ABX_FLAG_SNAPSHOT));
    if (out->verb->args != ABX_ARGS_WORDS && out->command_count == 0 && !has_default)
        return fail_usage(p, err, "'abx %s' needs a command", out->verb->name);
    if (out->command_count > 0 && !out->command[0][0])
        return fail_usage(p, err, "the command of 'abx %s' is an empty word", out->verb->name);
    return 0;
}

int abx_args_parse(int argc, char **argv, abx_args *out, abx_error **err)
{
    memset(out, 0, sizeof *out);
    out->items = abx_alloc_array((size_t)argc + 1, sizeof *out->items);
    out->words = abx_alloc_array((size_t)argc + 1, sizeof *out->words);
    /* A cluster (-vv) sets no more items than there are words: only its last letter can take a value. */
    parser p = {.argc = argc, .at = 1, .argv = argv, .out = out};
    while (p.at < p.argc) {
        char *arg = p.argv[p.at++];
        int rc = 0;
        if (strcmp(arg, "--") == 0)
            rc = take_rest(&p, err);
        else if (arg[0] == '-' && arg[1] == '-')
            rc = take_long(&p, arg, err);
        else if (arg[0] == '-' && arg[1])
            rc = take_short(&p, arg, err);
        else
            rc = take_word(&p, arg, err);
        if (rc < 0)
            return -1;
    }
    return check_counts(&p, err);
}

void abx_args_clear(abx_args *args)
{
    free(args->items);
    free(args->words);
    memset(args, 0, sizeof *args);
}

const char *abx_flag_value(const abx_args *args, abx_flag_id id, const char *otherwise)
{
    return args->flags[id].set && args->flags[id].value ? args->flags[id].value : otherwise;
}

uint64_t abx_flag_number(const abx_args *args, abx_flag_id id, uint64_t otherwise)
{
    return args->flags[id].set ? args->flags[id].number : otherwise;
}

static bool is_json(const char *format)
{
    return strcmp(format, "json") == 0 || strcmp(format, "jsonl") == 0;
}

bool abx_args_want_json(int argc, char **argv)
{
    const char *format = getenv("ABX_OUTPUT");
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool split = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
        if (strcmp(argv[i], "--json") == 0)
            format = "json";
        else if (split && i + 1 < argc)
            format = argv[++i];
        else if (abx_has_prefix(argv[i], "--output="))
            format = argv[i] + strlen("--output=");
        else if (argv[i][0] == '-' && argv[i][1] == 'o')
            format = argv[i] + 2 + (argv[i][2] == '=');
    }
    return format && is_json(format);
}
