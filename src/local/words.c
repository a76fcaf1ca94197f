/* A command line as words, read as a POSIX shell reads quotes; nothing is expanded or run. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "local/starter.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Inside double quotes a backslash only quotes these. */
static bool quoted_in_double(char c)
{
    return c == '"' || c == '\\' || c == '$' || c == '`';
}

/* One word from *at, without its quotes. 0, or -1: an open quote or a backslash at the end. */
static int read_word(const char **at, abx_buf *word)
{
    const char *p = *at;
    char quote = 0;
    for (; *p && (quote || !is_blank(*p)); p++) {
        char c = *p;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            continue;
        }
        if (c == '\\' && quote != '\'' && (!quote || quoted_in_double(p[1]))) {
            c = *++p;
            if (!c)
                return -1;
            if (c == '\n')
                continue;
        }
        if (abx_buf_add_byte(word, (uint8_t)c) < 0)
            return -1;
    }
    *at = p;
    return quote ? -1 : 0;
}

void abx_words_free(char **words)
{
    for (char **w = words; w && *w; w++)
        free(*w);
    free(words);
}

char **abx_words_split(const char *line, abx_error **err)
{
    char **words = (char **)abx_alloc(sizeof(*words));
    size_t n = 0;
    for (const char *p = line;;) {
        while (is_blank(*p))
            p++;
        if (!*p)
            break;
        ABX_AUTO_BUF word = ABX_BUF(1u << 20);
        if (read_word(&p, &word) < 0) {
            abx_words_free(words);
            abx_fail(err, ABX_ERR_CONFIG, "a quote is not closed in command line '%s'", line);
            return NULL;
        }
        words = (char **)abx_realloc(words, (n + 2) * sizeof(*words));
        words[n++] = abx_buf_take(&word);
        words[n] = NULL;
    }
    if (n > 0)
        return words;
    abx_words_free(words);
    abx_fail(err, ABX_ERR_CONFIG, "an empty command line starts nothing");
    return NULL;
}
