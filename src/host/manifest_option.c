/* [[options]] of a manifest: what a user can set, and the check of a value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "host/manifest_inner.h"

#define OPTIONS_MAX 64
#define CHOICES_MAX 64
#define TEXT_MAX    500

/* One table as it is read; what depends on the type is looked at when all keys are known. */
typedef struct reading {
    abx_option option;
    bool has_type;
    const abx_toml_node *choices, *min, *max, *secret, *otherwise;
} reading;

static bool is_option_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return s[n] == 0 && n > 0 && n <= 63 && ((s[0] | 0x20) >= 'a' && (s[0] | 0x20) <= 'z');
}

static void take_name(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *name = abx__mf_text(r, node, key, 255);
    if (!name)
        return;
    if (!is_option_name(name)) {
        abx__mf_wrong(r, node, key, NULL,
                      "a name: a letter, then letters, digits, '_' and '-', at most 63", NULL);
        return;
    }
    for (int i = 0; i < ABX_CORE_COUNT; i++)
        if (strcmp(abx_core_key_setting((abx_core_key)i), name) == 0) {
            ABX_AUTO_FREE char *text =
                abx_format("'%s' is \"%s\", which is a common key of every provider", key, name);
            ABX_AUTO_FREE char *hint =
                abx_format("ask for it: [connection] inherit = [\"%s\"]; or take another name",
                           abx_core_key_name((abx_core_key)i));
            abx__mf_problem(r, node, key, false, text, hint);
            return;
        }
    ((reading *)to)->option.name = ABX_TAKE(name);
}

static void take_type(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    for (int i = 0; i <= ABX_OPTION_ENUM; i++)
        if (strcmp(abx_option_type_name((abx_option_type)i), node->text) == 0) {
            o->option.type = (abx_option_type)i;
            o->has_type = true;
        }
    if (!o->has_type)
        abx__mf_wrong(r, node, key, NULL, "one of string, int, bool, url, enum", NULL);
}

static void take_required(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    ((reading *)to)->option.required = node->whole != 0;
}

static void take_secret(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    ((reading *)to)->option.secret = node->whole != 0;
    ((reading *)to)->secret = node;
}

static void take_description(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ((reading *)to)->option.description = abx__mf_text(r, node, key, TEXT_MAX);
}

/* The list is shown with commas and '|' between its items. */
static bool is_choice(const char *text)
{
    return !strpbrk(text, "|,");
}

static void take_choices(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    size_t n;
    o->choices = node;
    if (node->count == 0)
        abx__mf_wrong(r, node, key, "an empty list", "a list of texts", NULL);
    else
        o->option.choices = abx__mf_texts(r, node, key, CHOICES_MAX, 100,
                                          "text without '|' and ','", is_choice, &n);
}

static void take_min(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    reading *o = to;
    o->min = node;
    o->option.has_min = true;
    o->option.min = node->whole;
}

static void take_max(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    reading *o = to;
    o->max = node;
    o->option.has_max = true;
    o->option.max = node->whole;
}

static void take_default(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    ((reading *)to)->otherwise = node;
}

static void take_env(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    size_t n;
    if (node->type == ABX_TOML_ARRAY) {
        o->option.env =
            abx__mf_texts(r, node, key, 8, 255, abx__mf_variable_expected, abx__mf_is_variable, &n);
        return;
    }
    if (node->type != ABX_TOML_STRING || strlen(node->text) != node->len ||
        !abx__mf_is_variable(node->text)) {
        abx__mf_wrong(r, node, key, NULL, abx__mf_variable_expected, NULL);
        return;
    }
    o->option.env = abx_alloc_array(2, sizeof *o->option.env);
    o->option.env[0] = abx_strdup(node->text);
}

static const abx_mf_key option_keys[] = {
#define ABX_MF_OPTION ABX_MF_ROW
#include "host/manifest.def"
};

/* --- one option as a whole ------------------------------------------------------------------------------- */

static void only_for(abx_mf_reader *r, const abx_toml_node *node, const char *option,
                     const char *last, const char *types)
{
    ABX_AUTO_FREE char *key = abx_format("%s.%s", option, last);
    ABX_AUTO_FREE char *text = abx_format("'%s' is only for type = %s", key, types);
    abx__mf_problem(r, node, key, false, text, NULL);
}

static bool fits_type(abx_option_type type, abx_toml_type written)
{
    switch (type) {
    case ABX_OPTION_INT: return written == ABX_TOML_INT;
    case ABX_OPTION_BOOL: return written == ABX_TOML_BOOL;
    default: return written == ABX_TOML_STRING;
    }
}

static void set_default(abx_mf_reader *r, reading *o, const char *option)
{
    const abx_toml_node *node = o->otherwise;
    ABX_AUTO_FREE char *key = abx_format("%s.default", option);
    if (o->option.secret) {
        abx__mf_wrong(r, node, key, "a value", "absent: a secret has no default", NULL);
        return;
    }
    char expected[160];
    ABX_AUTO_FREE char *text =
        node->type == ABX_TOML_STRING ? abx_strndup(node->text, node->len) : abx__mf_shown(node);
    bool ok = fits_type(o->option.type, node->type) &&
              (node->type != ABX_TOML_STRING || strlen(node->text) == node->len);
    if (!abx_option_accepts(&o->option, text, expected) || !ok)
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else
        o->option.otherwise = ABX_TAKE(text);
    if (o->option.required) {
        ABX_AUTO_FREE char *said = abx_format("'%s' is there, so 'required' says nothing", key);
        abx__mf_problem(r, node, key, true, said, NULL);
    }
}

/* What a type asks of the other keys. */
static void check_type(abx_mf_reader *r, const abx_toml_node *table, reading *o, const char *name)
{
    abx_option_type type = o->option.type;
    ABX_AUTO_FREE char *choices = abx_format("%s.choices", name);
    if (type == ABX_OPTION_ENUM && !abx_toml_get(table, "choices"))
        abx__mf_missing(r, table, choices, "a list of texts");
    if (type != ABX_OPTION_ENUM && o->choices)
        only_for(r, o->choices, name, "choices", "\"enum\"");
    if (type != ABX_OPTION_INT && o->min)
        only_for(r, o->min, name, "min", "\"int\"");
    if (type != ABX_OPTION_INT && o->max)
        only_for(r, o->max, name, "max", "\"int\"");
    if (o->min && o->max && o->option.min > o->option.max) {
        ABX_AUTO_FREE char *key = abx_format("%s.max", name);
        ABX_AUTO_FREE char *expected = abx_format("%lld (min) or more", (long long)o->option.min);
        abx__mf_wrong(r, o->max, key, NULL, expected, NULL);
    }
    if (o->option.secret && type != ABX_OPTION_STRING)
        only_for(r, o->secret, name, "secret", "\"string\"");
    if (o->otherwise && (type != ABX_OPTION_ENUM || o->option.choices))
        set_default(r, o, name);
}

static void check_repeated(abx_mf_reader *r, const abx_toml_node *table, const abx_option *option,
                           const char *key)
{
    const abx_manifest *m = r->manifest;
    for (size_t i = 0; i < m->option_count; i++)
        if (strcasecmp(m->options[i].name, option->name) == 0) {
            ABX_AUTO_FREE char *name = abx_format("%s.name", key);
            ABX_AUTO_FREE char *text =
                abx_format("'%s' is \"%s\", and 'options[%zu]' is named \"%s\"", name, option->name,
                           i, m->options[i].name);
            abx__mf_problem(r, abx_toml_get(table, "name"), name, false, text, NULL);
            return;
        }
}

static void add_option(abx_mf_reader *r, const abx_toml_node *table, const char *key)
{
    abx_manifest *m = r->manifest;
    reading o = {0};
    abx__mf_table(r, table, key, option_keys, ABX_COUNT(option_keys), &o);
    if (o.has_type)
        check_type(r, table, &o, key);
    if (!o.option.name) {
        abx__mf_option_clear(&o.option);
        return;
    }
    check_repeated(r, table, &o.option, key);
    m->options = abx_realloc(m->options, (m->option_count + 1) * sizeof *m->options);
    m->options[m->option_count++] = o.option;
}

void abx__mf_options(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)to;
    if (node->count > OPTIONS_MAX) {
        ABX_AUTO_FREE char *found = abx_format("%zu", node->count);
        abx__mf_wrong(r, node, key, found, "a list of at most 64 tables", NULL);
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        ABX_AUTO_FREE char *name = abx_format("%s[%zu]", key, i);
        if (node->children[i].type == ABX_TOML_TABLE)
            add_option(r, &node->children[i], name);
        else
            abx__mf_wrong(r, &node->children[i], name, NULL, "a table", NULL);
    }
}

void abx__mf_option_clear(abx_option *option)
{
    free(option->name);
    free(option->otherwise);
    abx__mf_free_texts(option->env);
    abx__mf_free_texts(option->choices);
    free(option->description);
}

/* --- values ---------------------------------------------------------------------------------------------- */

static bool accepts_int(const abx_option *o, const char *text, char expected[160])
{
    char least[32] = "", most[32] = "";
    if (o->has_min)
        snprintf(least, sizeof least, " from %lld", (long long)o->min);
    if (o->has_max)
        snprintf(most, sizeof most, " up to %lld", (long long)o->max);
    snprintf(expected, 160, "a whole number%s%s", least, most);
    const char *digits = text + (*text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")] || (*digits == '0' && digits[1]))
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    return errno == 0 && (!o->has_min || value >= o->min) && (!o->has_max || value <= o->max);
}

static bool accepts_choice(const abx_option *o, const char *text, char expected[160])
{
    size_t used = (size_t)snprintf(expected, 160, "one of ");
    bool found = false;
    for (char **c = o->choices; *c; c++) {
        found = found || strcmp(*c, text) == 0;
        if (used < 150)
            used += (size_t)snprintf(expected + used, 160 - used, "%s%s",
                                     c == o->choices ? "" : ", ", *c);
    }
    if (used >= 160)
        memcpy(expected + abx_utf8_whole(expected, 156), "…", sizeof "…");
    return found;
}

bool abx_option_accepts(const abx_option *o, const char *text, char expected[160])
{
    switch (o->type) {
    case ABX_OPTION_INT: return accepts_int(o, text, expected);
    case ABX_OPTION_ENUM: return accepts_choice(o, text, expected);
    case ABX_OPTION_BOOL:
        snprintf(expected, 160, "true or false");
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case ABX_OPTION_URL:
        snprintf(expected, 160, "an address that begins with https:// or http://");
        return abx__mf_is_url(text);
    case ABX_OPTION_STRING: break;
    }
    snprintf(expected, 160, "one line of text");
    return !abx_has_control(text) && abx_utf8_valid(text, strlen(text));
}
