#include "doors/cli/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define GAP      2
#define LEAST    8 /* no column is cut below this */
#define ELLIPSIS "\xe2\x80\xa6"

void abx_table_init(abx_table *t, const char *const *headers)
{
    memset(t, 0, sizeof *t);
    for (; headers[t->_columns]; t->_columns++) {
        ABX_CHECK(t->_columns < ABX_TABLE_COLUMNS);
        t->_headers[t->_columns] = headers[t->_columns];
    }
}

void abx_table_add(abx_table *t, const char *const *cells)
{
    if (t->_rows == t->_cap) {
        t->_cap = t->_cap ? t->_cap * 2 : 16;
        t->_cells = abx_realloc(t->_cells, t->_cap * t->_columns * sizeof *t->_cells);
    }
    for (size_t i = 0; i < t->_columns; i++)
        t->_cells[t->_rows * t->_columns + i] =
            abx_printable(cells[i] && cells[i][0] ? cells[i] : "-");
    t->_rows++;
}

static void measure(const abx_table *t, size_t *widths)
{
    for (size_t c = 0; c < t->_columns; c++) {
        widths[c] = abx_utf8_columns(t->_headers[c]);
        for (size_t r = 0; r < t->_rows; r++) {
            size_t w = abx_utf8_columns(t->_cells[r * t->_columns + c]);
            if (w > widths[c])
                widths[c] = w;
        }
    }
}

/* Take from the widest column until all fit, or none may be cut further. */
static void shrink(const abx_table *t, size_t *widths, size_t width)
{
    for (;;) {
        size_t total = (t->_columns - 1) * GAP;
        size_t widest = 0;
        for (size_t c = 0; c < t->_columns; c++) {
            total += widths[c];
            if (c > 0 && (widest == 0 || widths[c] > widths[widest]))
                widest = c;
        }
        if (total <= width || widest == 0 || widths[widest] <= LEAST)
            return;
        widths[widest]--;
    }
}

/* The bytes of the longest head of s that takes at most `columns`. */
static size_t head_of(const char *s, size_t columns)
{
    size_t at = 0, end = 0;
    size_t n = strlen(s);
    while (at < n) {
        size_t next = at + 1;
        while (next < n && ((unsigned char)s[next] & 0xc0) == 0x80)
            next++;
        ABX_AUTO_FREE char *head = abx_strndup(s, next);
        if (abx_utf8_columns(head) > columns)
            break;
        at = next;
        end = next;
    }
    return end;
}

static void add_cell(abx_buf *out, const char *text, size_t width, bool last)
{
    size_t columns = abx_utf8_columns(text);
    int rc = 0;
    if (columns > width) {
        rc |= abx_buf_add(out, text, head_of(text, width - 1));
        rc |= abx_buf_add_str(out, ELLIPSIS);
        columns = width;
    } else {
        rc |= abx_buf_add_str(out, text);
    }
    for (size_t i = columns; !last && i < width + GAP; i++)
        rc |= abx_buf_add_byte(out, ' ');
    ABX_CHECK(rc == 0);
}

/* A row that is too wide although no column may be cut further ends with an ellipsis; the first column stays whole. */
static void cut_row(abx_buf *out, size_t from, size_t first, size_t width)
{
    ABX_AUTO_FREE char *row = abx_strdup(abx_buf_cstr(out) + from);
    if (abx_utf8_columns(row) <= width)
        return;
    if (width < first + GAP) {
        out->len = from + head_of(row, first);
        return;
    }
    out->len = from + head_of(row, width - 1);
    ABX_CHECK(abx_buf_add_str(out, ELLIPSIS) == 0);
}

void abx_table_write(const abx_table *t, size_t width, abx_buf *out)
{
    size_t widths[ABX_TABLE_COLUMNS] = {0};
    measure(t, widths);
    if (width > 0)
        shrink(t, widths, width);
    for (size_t r = 0; r <= t->_rows; r++) {
        size_t from = out->len;
        for (size_t c = 0; c < t->_columns; c++) {
            const char *text = r == 0 ? t->_headers[c] : t->_cells[(r - 1) * t->_columns + c];
            add_cell(out, text, widths[c], c + 1 == t->_columns);
        }
        if (width > 0)
            cut_row(out, from, widths[0], width);
        ABX_CHECK(abx_buf_add_byte(out, '\n') == 0);
    }
}

void abx_table_clear(abx_table *t)
{
    for (size_t i = 0; i < t->_rows * t->_columns; i++)
        free(t->_cells[i]);
    free(t->_cells);
    memset(t, 0, sizeof *t);
}
