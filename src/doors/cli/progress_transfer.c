/* The line of a transfer: label, bytes, share, rate, files, and a bar where there is room. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/progress.h"
#include "doors/cli/progress_inner.h"
#include "doors/cli/terminal.h"

#define DRAW_MS      100
#define BAR_COLUMNS  30
#define OTHER_WIDTH  80 /* of a terminal that does not tell */
#define RATE_FROM_MS 500

static void add(abx_buf *out, const char *piece, size_t room)
{
    size_t have = abx_utf8_columns(abx_buf_cstr(out));
    if (have + abx_utf8_columns(piece) + (have ? 2 : 0) > room)
        return;
    ABX_CHECK(abx_buf_addf(out, "%s%s", have ? "  " : "", piece) == 0);
}

static void add_bar(abx_buf *out, int64_t done, int64_t total, size_t room)
{
    char bar[BAR_COLUMNS + 3];
    int filled = (int)((double)done / (double)total * BAR_COLUMNS);
    bar[0] = '[';
    for (int i = 0; i < BAR_COLUMNS; i++)
        bar[i + 1] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_COLUMNS + 1] = ']';
    bar[BAR_COLUMNS + 2] = 0;
    add(out, bar, room);
}

void abx_transfer_text(const abx_transfer_state *s, size_t width, abx_buf *out)
{
    size_t room = width > 1 ? width - 1 : 1;
    char done[32], total[32], piece[96];
    add(out, s->label, room);
    abx_format_size((uint64_t)(s->bytes > 0 ? s->bytes : 0), done);
    bool known = s->total_bytes > 0;
    abx_format_size((uint64_t)(known ? s->total_bytes : 0), total);
    int64_t bytes = known && s->bytes > s->total_bytes ? s->total_bytes : s->bytes;
    if (known)
        snprintf(piece, sizeof piece, "%s of %s", done, total);
    else
        snprintf(piece, sizeof piece, "%s", done);
    add(out, piece, room);
    if (known) {
        snprintf(piece, sizeof piece, "%d%%", (int)((double)bytes * 100 / (double)s->total_bytes));
        add(out, piece, room);
    }
    if (s->elapsed_ms >= RATE_FROM_MS) {
        abx_format_size((uint64_t)((double)s->bytes * 1000 / (double)s->elapsed_ms), done);
        snprintf(piece, sizeof piece, "%s/s", done);
        add(out, piece, room);
    }
    if (s->total_files > 0)
        snprintf(piece, sizeof piece, "%lld of %lld files", (long long)s->files,
                 (long long)s->total_files);
    else
        snprintf(piece, sizeof piece, "%lld %s", (long long)s->files,
                 s->files == 1 ? "file" : "files");
    if (s->total_files > 0 || s->files > 0)
        add(out, piece, room);
    if (known)
        add_bar(out, bytes, s->total_bytes, room);
}

static void draw(abx_transfer *t)
{
    uint64_t now = abx_now_mono_ms();
    t->_drawn_ms = now;
    t->state.elapsed_ms = now - t->_begin_ms;
    if (t->state.elapsed_ms < ABX__SHOW_AFTER_MS)
        return;
    int cols = OTHER_WIDTH, rows; /* asked each time: the window may have changed */
    (void)abx_terminal_size(STDERR_FILENO, &cols, &rows);
    ABX_AUTO_BUF text = ABX_BUF(4096);
    abx_transfer_text(&t->state, (size_t)cols, &text);
    fprintf(stderr, "\r%s\033[K", abx_buf_cstr(&text));
    t->_shown = true;
}

static void on_timer(uv_timer_t *timer)
{
    draw(timer->data);
}

static void on_close(uv_handle_t *handle)
{
    ((abx_transfer *)handle->data)->_closed = true;
}

void abx_transfer_begin(abx_transfer *t, abx_cli *cli, const char *label)
{
    memset(t, 0, sizeof *t);
    t->state = (abx_transfer_state){.label = label, .total_bytes = -1, .total_files = -1};
    if (!cli->_open || cli->_transfer || !abx__progress_wanted(cli))
        return;
    t->_cli = cli;
    t->_open = true;
    t->_begin_ms = t->_drawn_ms = abx_now_mono_ms();
    cli->_transfer = t;
    uv_timer_init(&cli->_loop, &t->_timer);
    t->_timer.data = t;
    uv_timer_start(&t->_timer, on_timer, ABX__SHOW_AFTER_MS, DRAW_MS);
    uv_unref((uv_handle_t *)&t->_timer);
}

void abx_transfer_add(abx_transfer *t, int64_t bytes, int64_t files)
{
    if (!t)
        return;
    t->state.bytes += bytes;
    t->state.files += files;
    /* Work that never waits does not turn the loop: look at the clock here too. */
    if (t->_open && abx_now_mono_ms() - t->_drawn_ms >= DRAW_MS)
        draw(t);
}

void abx_transfer_hide(abx_transfer *t)
{
    if (!t || !t->_shown)
        return;
    t->_shown = false;
    fputs("\r\033[K", stderr);
}

void abx_transfer_end(abx_transfer *t)
{
    if (!t->_open)
        return;
    abx_transfer_hide(t);
    t->_open = false;
    t->_cli->_transfer = NULL;
    uv_close((uv_handle_t *)&t->_timer, on_close);
    while (!t->_closed)
        uv_run(&t->_cli->_loop, UV_RUN_NOWAIT);
}
