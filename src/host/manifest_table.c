/* The walk of one table of a manifest, and how its problems are said. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "host/manifest_inner.h"

#define SHOWN_MAX 100 /* bytes of a found text that are shown */

char *abx__mf_shown(const abx_toml_node *node)
{
    if (node->type == ABX_TOML_INT)
        return abx_format("%lld", (long long)node->whole);
    if (node->type == ABX_TOML_BOOL)
        return abx_strdup(node->whole ? "true" : "false");
    if (node->type != ABX_TOML_STRING)
        return abx_strdup(abx_toml_type_name(node->type));
    bool cut = node->len > SHOWN_MAX;
    ABX_AUTO_FREE char *text =
        abx_strndup(node->text, cut ? abx_utf8_whole(node->text, SHOWN_MAX) : node->len);
    ABX_AUTO_FREE char *shown = abx_printable(text);
    return abx_format("\"%s%s\"", shown, cut ? "…" : "");
}

static void add(abx_mf_reader *r, const abx_toml_node *at, abx_problem *p)
{
    p->file = r->file; /* copied by abx_problems_add */
    p->line = at->line ? at->line : 1;
    p->column = at->column ? at->column : 1;
    if (!p->warning && p->id == 0)
        p->id = ABX_ERR_PROVIDER_MANIFEST;
    abx_problems_add(r->problems, p);
}

void abx__mf_wrong(abx_mf_reader *r, const abx_toml_node *at, const char *key, const char *found,
                   const char *expected, const char *hint)
{
    ABX_AUTO_FREE char *shown = found ? abx_strdup(found) : abx__mf_shown(at);
    ABX_AUTO_FREE char *text = abx_format("'%s' must be %s, found %s", key, expected, shown);
    abx_problem p = {.key = key, .found = shown, .expected = expected, .text = text, .hint = hint};
    add(r, at, &p);
}

void abx__mf_missing(abx_mf_reader *r, const abx_toml_node *table, const char *key,
                     const char *expected)
{
    ABX_AUTO_FREE char *text = abx_format("'%s' is missing: it must be %s", key, expected);
    abx_problem p = {.key = key, .found = "nothing", .expected = expected, .text = text};
    add(r, table, &p);
}

void abx__mf_problem(abx_mf_reader *r, const abx_toml_node *at, const char *key, bool warning,
                     const char *text, const char *hint)
{
    ABX_AUTO_FREE char *shown = abx__mf_shown(at);
    abx_problem p = {.key = key, .warning = warning, .found = shown, .text = text, .hint = hint};
    add(r, at, &p);
}

static char *whole(const char *table, const char *key)
{
    return *table ? abx_format("%s.%s", table, key) : abx_strdup(key);
}

static void unknown(abx_mf_reader *r, const abx_toml_node *node, const char *table,
                    const abx_mf_key *keys, size_t count)
{
    const char *words[64];
    ABX_CHECK(count <= ABX_COUNT(words));
    ABX_AUTO_BUF all = ABX_BUF(4096);
    for (size_t i = 0; i < count; i++) {
        words[i] = keys[i].name;
        (void)!abx_buf_addf(&all, "%s%s", i ? ", " : "", keys[i].name);
    }
    const char *near = abx_nearest(node->key, words, count);
    ABX_AUTO_FREE char *name = abx_printable(node->key);
    ABX_AUTO_FREE char *key = whole(table, name);
    ABX_AUTO_FREE char *near_key = near ? whole(table, near) : NULL;
    ABX_AUTO_FREE char *expected =
        near ? abx_format("'%s'", near_key) : abx_format("one of %s", abx_buf_cstr(&all));
    ABX_AUTO_FREE char *found = abx_format("'%s'", name);
    ABX_AUTO_FREE char *text =
        near ? abx_format("unknown key '%s', the nearest known one is '%s'", key, near_key)
             : abx_format("unknown key '%s', expected %s", key, expected);
    abx_problem p = {.key = key, .found = found, .expected = expected, .text = text};
    add(r, node, &p);
}

void abx__mf_table(abx_mf_reader *r, const abx_toml_node *table, const char *name,
                   const abx_mf_key *keys, size_t count, void *to)
{
    for (size_t i = 0; i < table->count; i++) {
        const abx_toml_node *child = &table->children[i];
        const abx_mf_key *known = NULL;
        for (size_t k = 0; k < count && !known; k++)
            if (strcmp(keys[k].name, child->key) == 0)
                known = &keys[k];
        if (!known) {
            unknown(r, child, name, keys, count);
            continue;
        }
        ABX_AUTO_FREE char *key = whole(name, known->name);
        if (known->type != ABX_TOML_ANY && (int)child->type != known->type)
            abx__mf_wrong(r, child, key, NULL, known->expected, NULL);
        else if (known->take)
            known->take(r, child, key, to);
    }
    for (size_t k = 0; k < count; k++) {
        ABX_AUTO_FREE char *key = whole(name, keys[k].name);
        if (keys[k].required && !abx_toml_get(table, keys[k].name))
            abx__mf_missing(r, table, key, keys[k].expected);
    }
}

/* --- texts ------------------------------------------------------------------------------------------ */

char *abx__mf_text(abx_mf_reader *r, const abx_toml_node *node, const char *key, size_t max)
{
    const char *wrong = NULL;
    if (memchr(node->text, 0, node->len) || abx_has_control(node->text))
        wrong = "text without control characters";
    else if (node->len == 0)
        wrong = "text that is not empty";
    if (wrong) {
        abx__mf_wrong(r, node, key, NULL, wrong, NULL);
        return NULL;
    }
    if (node->len > max) {
        ABX_AUTO_FREE char *expected = abx_format("text of at most %zu bytes", max);
        ABX_AUTO_FREE char *found = abx_format("%zu bytes", node->len);
        abx__mf_wrong(r, node, key, found, expected, NULL);
        return NULL;
    }
    return abx_strndup(node->text, node->len);
}

void abx__mf_free_texts(char **texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        free(texts[i]);
    free(texts);
}

static bool is_repeated(char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], list[n]) == 0)
            return true;
    return false;
}

char **abx__mf_texts(abx_mf_reader *r, const abx_toml_node *node, const char *key, size_t max_count,
                     size_t max, const char *expected, abx_mf_check check, size_t *count)
{
    if (node->count > max_count) {
        ABX_AUTO_FREE char *want = abx_format("a list of at most %zu", max_count);
        ABX_AUTO_FREE char *found = abx_format("%zu", node->count);
        abx__mf_wrong(r, node, key, found, want, NULL);
        return NULL;
    }
    size_t before = r->problems->errors, n = 0;
    char **list = abx_alloc_array(node->count + 1, sizeof *list);
    for (size_t i = 0; i < node->count; i++) {
        const abx_toml_node *item = &node->children[i];
        ABX_AUTO_FREE char *name = abx_format("%s[%zu]", key, i);
        char *text = NULL;
        if (item->type != ABX_TOML_STRING)
            abx__mf_wrong(r, item, name, NULL, expected, NULL);
        else
            text = abx__mf_text(r, item, name, max);
        if (text && check && !check(text)) {
            abx__mf_wrong(r, item, name, NULL, expected, NULL);
            free(ABX_TAKE(text));
        }
        if (!text)
            continue;
        list[n] = text;
        if (check && is_repeated(list, n)) {
            ABX_AUTO_FREE char *said = abx_format("'%s' repeats %s", name, text);
            abx__mf_problem(r, item, name, false, said, NULL);
        }
        n++;
    }
    if (r->problems->errors != before) {
        abx__mf_free_texts(list);
        return NULL;
    }
    *count = n;
    return list;
}

const char abx__mf_variable_expected[] =
    "the name of a variable: letters, digits and '_', not ABX_…, which is abx's own";

bool abx__mf_is_variable(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && s[n] == 0 && !(s[0] >= '0' && s[0] <= '9') && !abx_has_prefix(s, "ABX_");
}

bool abx__mf_is_url(const char *s)
{
    const char *rest = abx_has_prefix(s, "https://")  ? s + 8
                       : abx_has_prefix(s, "http://") ? s + 7
                                                      : "";
    return *rest && !strchr("/?#:@", *rest) && !strpbrk(s, " \"<>\\^`{|}") && !abx_has_control(s);
}
