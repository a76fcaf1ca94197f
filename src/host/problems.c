#include "host/problems.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void abx_problems_add(abx_problems *problems, const abx_problem *p)
{
    if (p->warning)
        problems->warnings++;
    else
        problems->errors++;
    if (problems->count >= ABX_PROBLEMS_MAX)
        return;
    if (!problems->items)
        problems->items = abx_alloc_array(ABX_PROBLEMS_MAX, sizeof *problems->items);
    problems->items[problems->count++] = (abx_problem){
        .warning = p->warning,
        .id = p->id,
        .file = abx_strdup(p->file),
        .line = p->line,
        .column = p->column,
        .key = abx_strdup(p->key),
        .found = abx_strdup(p->found),
        .expected = abx_strdup(p->expected),
        .text = abx_strdup(p->text),
        .hint = abx_strdup(p->hint),
    };
}

static bool before(const abx_problem *a, const abx_problem *b)
{
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void abx_problems_sort(abx_problems *problems)
{
    for (size_t i = 1; i < problems->count; i++)
        for (size_t k = i; k > 0 && before(&problems->items[k], &problems->items[k - 1]); k--) {
            abx_problem other = problems->items[k];
            problems->items[k] = problems->items[k - 1];
            problems->items[k - 1] = other;
        }
}

/* The list's strings are its own, though a reader may not change them. */
static void drop(const char *text)
{
    void *own;
    memcpy(&own, &text, sizeof own);
    free(own);
}

void abx_problems_clear(abx_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        abx_problem *p = &problems->items[i];
        drop(p->file);
        drop(p->key);
        drop(p->found);
        drop(p->expected);
        drop(p->text);
        drop(p->hint);
    }
    free(problems->items);
    *problems = (abx_problems)ABX_PROBLEMS;
}

int abx_problems_to_error(const abx_problems *problems, abx_error **err)
{
    const abx_problem *first = NULL;
    for (size_t i = 0; i < problems->count; i++) {
        const abx_problem *p = &problems->items[i];
        if (!p->warning && (!first || before(p, first)))
            first = p;
    }
    if (!first)
        return 0;
    ABX_AUTO_FREE char *others =
        problems->errors > 1 ? abx_format(" (and %zu more)", problems->errors - 1) : abx_strdup("");
    if (first->line)
        abx_fail(err, first->id, "cannot use '%s', line %u, column %u: %s%s", first->file,
                 first->line, first->column, first->text, others);
    else
        abx_fail(err, first->id, "cannot use '%s': %s%s", first->file, first->text, others);
    return first->hint ? abx_hint(err, "%s", first->hint) : -1;
}

char *abx_problem_line(const abx_problem *p)
{
    const char *severity = p->warning ? "warning" : "error";
    if (!p->line)
        return abx_format("%s: %s: %s", p->file, severity, p->text);
    return abx_format("%s:%u:%u: %s: %s", p->file, p->line, p->column, severity, p->text);
}

yyjson_mut_val *abx_problem_json(yyjson_mut_doc *d, const abx_problem *p)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "severity", p->warning ? "warning" : "error");
    abx_mut_str(d, o, "file", p->file);
    if (p->line) {
        abx_mut_int(d, o, "line", p->line);
        abx_mut_int(d, o, "column", p->column);
    }
    abx_mut_str(d, o, "key", p->key);
    abx_mut_str(d, o, "found", p->found);
    abx_mut_str(d, o, "expected", p->expected);
    abx_mut_str(d, o, "message", p->text);
    abx_mut_str(d, o, "hint", p->hint);
    if (!p->warning)
        abx_mut_str(d, o, "code", abx_err_row_of(p->id)->code);
    return o;
}
