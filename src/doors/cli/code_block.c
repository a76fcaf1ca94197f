#include "doors/cli/code_block.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

/* What a rough look at the text finds; no language is parsed. */
typedef struct look {
    int open;      /* brackets */
    bool in_quote; /* a text that goes over lines (""", ''' or `) is open */
    char last;     /* the last character that is no blank */
    char last_word[16];
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

static void see_word(look *l, const char *s, size_t n)
{
    if (n < sizeof(l->last_word)) {
        memcpy(l->last_word, s, n);
        l->last_word[n] = 0;
    }
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
            see_word(&l, s + from, i - from);
            l.last = s[i - 1];
            continue;
        }
        if (!isspace((unsigned char)c)) {
            l.last = c;
            l.last_word[0] = 0;
        }
        i++;
    }
    return l;
}

bool abx_code_wants_more(const char *block, size_t n)
{
    static const char *const openers[] = {"do", "then", "else", "in"};
    look l = look_at(block, n);
    size_t lines = 0, first = n;
    for (size_t i = 0; i < n; i++) {
        lines += block[i] == '\n';
        if (block[i] == '\n' && first == n)
            first = i;
    }
    size_t last = n > 0 && block[n - 1] == '\n' ? n - 1 : n;
    size_t begin = last;
    while (begin > 0 && block[begin - 1] != '\n')
        begin--;
    bool empty = true;
    for (size_t i = begin; i < last; i++)
        empty = empty && isspace((unsigned char)block[i]);
    if (l.in_quote)
        return true;
    if (last > begin && block[last - 1] == '\\')
        return true;
    if (l.open > 0)
        return !(empty && lines > 1); /* a blank line ends also what was counted wrongly */
    for (size_t i = 0; i < ABX_COUNT(openers); i++)
        if (strcmp(l.last_word, openers[i]) == 0)
            return !empty;
    if (l.last == ':' || (n > 0 && block[0] == '@'))
        return !empty || lines <= 1;
    /* in a block that was opened before, only a blank line ends it */
    look head = look_at(block, first);
    bool block_open = head.last == ':' || (n > 0 && block[0] == '@');
    return block_open && !empty;
}
