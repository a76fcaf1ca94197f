#include "doors/cli/ignore.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define MAX_PARTS 256 /* of a path or a pattern; longer ones do not fit */

void abx_ignore_clear(abx_ignore *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->rules[i].pattern);
    free(g->rules);
    *g = (abx_ignore){0};
}

/* Without blanks at the end, but "\ " stays. */
static size_t trimmed(const char *line, size_t n)
{
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r') &&
           !(n > 1 && line[n - 2] == '\\'))
        n--;
    return n;
}

static void add(abx_ignore *g, const char *line, size_t n, bool include)
{
    n = trimmed(line, n);
    if (n == 0 || line[0] == '#')
        return;
    abx_ignore_rule r = {.keep = include};
    if (line[0] == '!') {
        r.keep = !r.keep;
        line++;
        n--;
    }
    if (n > 0 && line[n - 1] == '/') {
        r.dirs_only = true;
        while (n > 0 && line[n - 1] == '/')
            n--;
    }
    r.anchored = memchr(line, '/', n) != NULL;
    while (n > 0 && line[0] == '/') {
        line++;
        n--;
    }
    if (n == 0)
        return;
    r.pattern = abx_strndup(line, n);
    if (g->count == g->_cap) {
        g->_cap = g->_cap ? g->_cap * 2 : 16;
        g->rules = abx_realloc(g->rules, g->_cap * sizeof *g->rules);
    }
    g->rules[g->count++] = r;
}

void abx_ignore_add(abx_ignore *g, const char *line, bool include)
{
    add(g, line, strlen(line), include);
}

void abx_ignore_add_text(abx_ignore *g, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        add(g, text, n, false);
        text += n + (text[n] == '\n');
    }
}

/* Cut at slashes, in place. Returns how many parts, MAX_PARTS + 1 when there are too many. */
static size_t cut(char *text, char *parts[MAX_PARTS])
{
    size_t n = 0;
    char *save = NULL;
    for (char *p = strtok_r(text, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
        if (n == MAX_PARTS)
            return MAX_PARTS + 1;
        parts[n++] = p;
    }
    return n;
}

/* Parts of a pattern against parts of a path. Of all places where "**" could end only the last one counts, as with '*' in
 * a plain pattern: no need to go back further. */
static bool fits(char *const *pattern, size_t np, char *const *path, size_t n)
{
    size_t p = 0, i = 0, star = SIZE_MAX, from = 0;
    while (i < n) {
        if (p < np && strcmp(pattern[p], "**") == 0) {
            if (p + 1 == np)
                return true; /* everything below */
            star = p++;
            from = i;
        } else if (p < np && fnmatch(pattern[p], path[i], 0) == 0) {
            p++;
            i++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            i = ++from;
        } else {
            return false;
        }
    }
    return p == np;
}

static bool rule_fits(const abx_ignore_rule *r, const char *path)
{
    if (!r->anchored)
        return fnmatch(r->pattern, abx_path_base(path), 0) == 0;
    char *wanted[MAX_PARTS], *have[MAX_PARTS];
    ABX_AUTO_FREE char *pattern = abx_strdup(r->pattern);
    ABX_AUTO_FREE char *copy = abx_strdup(path);
    size_t np = cut(pattern, wanted), n = cut(copy, have);
    return np <= MAX_PARTS && n <= MAX_PARTS && fits(wanted, np, have, n);
}

bool abx_ignore_match(const abx_ignore *g, const char *path, bool is_dir)
{
    for (size_t i = g->count; i > 0; i--) {
        const abx_ignore_rule *r = &g->rules[i - 1];
        if ((!r->dirs_only || is_dir) && rule_fits(r, path))
            return !r->keep;
    }
    return false;
}
