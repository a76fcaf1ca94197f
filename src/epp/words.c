#include "epp/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define LINE_MAX_BYTES ((size_t)4096) /* a longer one is several */
#define SHOWN_MAX      ((size_t)200)  /* of one line in an error */

void abx_epp_words_init(abx_epp_words *w, const abx_secrets *secrets,
                        void (*on_line)(const char *line, void *data), void *data)
{
    memset(w, 0, sizeof *w);
    w->secrets = secrets;
    w->on_line = on_line;
    w->data = data;
    abx_buf_init(&w->part, 2 * LINE_MAX_BYTES);
}

void abx_epp_words_clear(abx_epp_words *w)
{
    abx_buf_clear(&w->part);
    for (size_t i = 0; i < ABX_EPP_LAST_LINES; i++)
        free(ABX_TAKE(w->last[i]));
}

static void give(abx_epp_words *w, const char *text, size_t n)
{
    if (n && text[n - 1] == '\r')
        n--;
    ABX_AUTO_FREE char *blank = abx_secrets_blank(w->secrets, text, n);
    char *line = abx_printable(blank);
    if (w->on_line)
        w->on_line(line, w->data);
    if (!line[0]) {
        free(line);
        return;
    }
    free(w->last[0]);
    memmove(w->last, w->last + 1, (ABX_EPP_LAST_LINES - 1) * sizeof w->last[0]);
    w->last[ABX_EPP_LAST_LINES - 1] = line;
}

/* The part is full and no line ends: give most of it. A secret may lie across the cut, so all of it is blanked first and
 * what may be the beginning of one is kept. */
static void cut(abx_epp_words *w)
{
    char *blank = abx_secrets_blank(w->secrets, abx_buf_cstr(&w->part), w->part.len);
    size_t n = strlen(blank), longest = w->secrets->values[0] ? strlen(w->secrets->values[0]) : 1;
    size_t keep = longest - 1 < n ? longest - 1 : n;
    if (keep > LINE_MAX_BYTES)
        keep = LINE_MAX_BYTES;
    give(w, blank, n - keep);
    abx_buf_reset(&w->part);
    ABX_CHECK(abx_buf_add(&w->part, blank + n - keep, keep) == 0);
    free(blank);
}

void abx_epp_words_feed(abx_epp_words *w, const void *bytes, size_t n)
{
    const char *at = bytes, *end = at + n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        size_t room = 2 * LINE_MAX_BYTES - w->part.len;
        size_t part = len < room ? len : room;
        ABX_CHECK(abx_buf_add(&w->part, at, part) == 0);
        at += part;
        if (part < len || w->part.len == 2 * LINE_MAX_BYTES) {
            cut(w);
        } else if (newline) {
            give(w, abx_buf_cstr(&w->part), w->part.len);
            abx_buf_reset(&w->part);
            at++;
        }
    }
}

void abx_epp_words_end(abx_epp_words *w)
{
    if (w->part.len)
        give(w, abx_buf_cstr(&w->part), w->part.len);
    abx_buf_reset(&w->part);
}

char *abx_epp_words_last(const abx_epp_words *w)
{
    abx_buf out = ABX_BUF(4096);
    for (size_t i = 0; i < ABX_EPP_LAST_LINES; i++) {
        if (!w->last[i])
            continue;
        size_t n = strlen(w->last[i]);
        size_t shown = n > SHOWN_MAX ? abx_utf8_whole(w->last[i], SHOWN_MAX) : n;
        if (abx_buf_addf(&out, "%s%.*s%s", out.len ? " | " : "", (int)shown, w->last[i],
                         shown < n ? "…" : "") < 0)
            break;
    }
    return abx_buf_take(&out);
}
