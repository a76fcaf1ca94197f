#include "doors/cli/code_block.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

/* What a rough look at the text finds; no language is parsed. */
typedef struct look {
    int open;      /* brackets */
    bool in_quote; /* a text that goes over lines (""", ''' or `) is open */
    int words;     /* of a shell: if and do without fi and done */
    char last;     /* the last character that is no blank */
} look;

static size_t skip_quoted(const char *s, size_t n, size_t i, look *l)
{
    char q = s[i];
    bool triple = q != '`' && i + 2 < n && s[i + 1] == q && s[i + 2] == q;
    size_t width = triple ? 3 : 1;
    for (i += width; i < n; i++) {
        if (s[i] == '\\')
            i++;
        else if (triple ? i + 2 < n && s[i] == q && s[i + 1] == q && s[i + 2] == q : s[i] == q)
            return i + width;
        else if (s[i] == '\n' && !triple && q != '`')
            return i; /* no text goes over the line's end: it was an apostrophe */
    }
    l->in_quote = triple || q == '`';
    return n;
}

/* Words that open and close a block of a shell. */
static int weight(const char *s, size_t n)
{
    static const struct {
        const char *word;
        int weight;
    } rows[] = {{"if", 1}, {"fi", -1}, {"do", 1}, {"done", -1}, {"case", 1}, {"esac", -1}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (strlen(rows[i].word) == n && memcmp(rows[i].word, s, n) == 0)
            return rows[i].weight;
    return 0;
}

static look look_at(const char *s, size_t n)
{
    look l = {0};
    for (size_t i = 0; i < n;) {
        char c = s[i];
        if (c == '#' && (i == 0 || isspace((unsigned char)s[i - 1]))) {
            while (i < n && s[i] != '\n')
                i++;
            continue;
        }
        size_t from = i;
        if (c == '"' || c == '\'' || c == '`') {
            i = skip_quoted(s, n, i, &l);
            l.last = '"';
            continue;
        }
        if (strchr("([{", c) && c)
            l.open++;
        else if (strchr(")]}", c) && c)
            l.open--;
        if (isalpha((unsigned char)c)) {
            while (i < n && isalnum((unsigned char)s[i]))
                i++;
            l.words += weight(s + from, i - from);
            l.last = s[i - 1];
            continue;
        }
        if (!isspace((unsigned char)c))
            l.last = c;
        i++;
    }
    return l;
}

/* The lines of a block: how many, the first one's length, whether the last one is blank. */
typedef struct shape {
    size_t lines, first;
    bool blank_last, continues;
} shape;

static shape shape_of(const char *s, size_t n)
{
    shape f = {.first = n, .blank_last = true};
    for (size_t i = 0; i < n; i++) {
        f.lines += s[i] == '\n';
        if (s[i] == '\n' && f.first == n)
            f.first = i;
    }
    size_t end = n > 0 && s[n - 1] == '\n' ? n - 1 : n;
    f.continues = end > 0 && s[end - 1] == '\\';
    while (end > 0 && s[end - 1] != '\n')
        if (!isspace((unsigned char)s[--end]))
            f.blank_last = false;
    return f;
}

bool abx_code_wants_more(const char *block, size_t n, bool shell)
{
    shape f = shape_of(block, n);
    look l = look_at(block, n);
    if (f.blank_last && f.lines > 1 && !l.in_quote)
        return false; /* it ends a block, and what was counted wrongly */
    if (l.in_quote || f.continues || l.open > 0)
        return true;
    if (shell)
        return l.words > 0;
    /* a block of Python goes on until a blank line */
    look head = look_at(block, f.first);
    return head.last == ':' || l.last == ':' || (n > 0 && block[0] == '@');
}
