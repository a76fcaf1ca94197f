/* stats: what sandboxes use, once or again and again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"
#include "doors/cli/table.h"
#include "doors/cli/verbs.h"

#define INTERVAL_MS 2000u

typedef struct watch {
    abx_cli *cli;
    const char **names; /* those that still answer */
    size_t count;
    bool lines;  /* one JSON object a line */
    bool redraw; /* the last table is on the terminal and is replaced */
    size_t rows; /* of it */
    bool titled;
} watch;

/* Ask one sandbox; its name goes first. Owned, or NULL and *err. */
static yyjson_doc *ask(abx_cli *cli, const char *name, abx_error **err)
{
    yyjson_mut_val *params_root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_METRICS, abx_cli_params(name, &params_root), &found, err) <
        0)
        return NULL;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", name);
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(yyjson_doc_get_root(found), i, n, key, value)
    {
        abx_mut_val(d, root, yyjson_get_str(key), value);
    }
    return abx_json_freeze(d);
}

/* "12.0 MiB / 64.0 MiB" */
static void pair_text(yyjson_val *m, const char *used, const char *total, char out[72])
{
    int64_t a = abx_json_int(m, used, -1), b = abx_json_int(m, total, -1);
    char x[32] = "-", y[32] = "-";
    if (a >= 0)
        abx_format_size((uint64_t)a, x);
    if (b >= 0)
        abx_format_size((uint64_t)b, y);
    out[0] = 0;
    if (a >= 0 || b >= 0)
        snprintf(out, 72, "%s / %s", x, y);
}

static void add_row(abx_table *t, yyjson_val *m)
{
    char share[32] = "", cpus[24] = "", memory[72], disk[72], processes[24] = "";
    yyjson_val *used = abx_json_get(m, "cpuUsedPct");
    if (yyjson_is_num(used))
        snprintf(share, sizeof share, "%.1f%%", yyjson_get_num(used));
    if (abx_json_get(m, "cpuCount"))
        snprintf(cpus, sizeof cpus, "%lld", (long long)abx_json_int(m, "cpuCount", 0));
    if (abx_json_get(m, "processes"))
        snprintf(processes, sizeof processes, "%lld", (long long)abx_json_int(m, "processes", 0));
    pair_text(m, "memUsed", "memTotal", memory);
    pair_text(m, "diskUsed", "diskTotal", disk);
    const char *cells[] = {abx_json_str(m, "id", NULL), share, cpus, memory, disk, processes};
    abx_table_add(t, cells);
}

static int print_table(watch *w, yyjson_val *list, abx_error **err)
{
    static const char *const headers[] = {"ID", "CPU", "CPUS", "MEMORY", "DISK", "PROCESSES", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *m;
    yyjson_arr_foreach(list, i, n, m) add_row(&t, m);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (w->redraw && w->rows > 0) /* back to the top of the last one; what was longer goes */
        ABX_CHECK(abx_buf_addf(&text, "\033[%zuA\033[J", w->rows) == 0);
    abx_table_write(&t, abx_print_width(w->cli), &text);
    abx_table_clear(&t);
    w->rows = yyjson_arr_size(list) + 1;
    const char *at = abx_buf_cstr(&text);
    if (!w->redraw && w->titled && strchr(at, '\n'))
        at = strchr(at, '\n') + 1; /* the title stands above already */
    w->titled = true;
    return abx_print_str(w->cli, at, err);
}

static int print(watch *w, yyjson_mut_doc *d, abx_error **err)
{
    ABX_AUTO_JSON doc = abx_json_freeze(d);
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(doc), "sandboxes"), *m;
    size_t i, n;
    if (w->cli->format == ABX_OUT_JSON && !w->lines)
        return w->cli->args->word_count == 1
                   ? abx_print_json(w->cli, yyjson_arr_get_first(list), err)
                   : abx_print_json(w->cli, yyjson_doc_get_root(doc), err);
    if (!w->lines)
        return print_table(w, list, err);
    yyjson_arr_foreach(list, i, n, m)
    {
        if (abx_print_json(w->cli, m, err) < 0)
            return -1;
    }
    return 0;
}

/* Ask all once and print. Who fails is told and not asked again. *code: of the first failure. -1 and *err. */
static int look(watch *w, int *code, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "sandboxes");
    size_t left = 0;
    for (size_t i = 0; i < w->count; i++) {
        ABX_AUTO_ERROR failed = NULL;
        ABX_AUTO_JSON found = ask(w->cli, w->names[i], &failed);
        if (found) {
            yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, yyjson_doc_get_root(found)));
            w->names[left++] = w->names[i];
            continue;
        }
        if (w->cli->args->word_count == 1 || failed->id == ABX_ERR_CANCELLED)
            return abx_error_take(err, ABX_TAKE(failed));
        int rc = abx_cli_report(w->cli, failed);
        w->rows = 0; /* the table is not the last thing on the terminal any more */
        *code = *code ? *code : rc;
    }
    w->count = left;
    return left > 0 || !w->titled ? print(w, d, err) : 0;
}

typedef struct rest {
    bool over, closed;
} rest;

static void on_time(uv_timer_t *timer)
{
    ((rest *)timer->data)->over = true;
}

static void on_closed(uv_handle_t *timer)
{
    ((rest *)timer->data)->closed = true;
}

/* Wait; a signal or the end of the time of the whole call ends it. 0, or -1 and *err. */
static int pause_for(abx_cli *cli, uint64_t ms, abx_error **err)
{
    uv_timer_t timer;
    rest r = {false, false};
    ABX_CHECK(uv_timer_init(&cli->_loop, &timer) == 0);
    timer.data = &r;
    ABX_CHECK(uv_timer_start(&timer, on_time, ms, 0) == 0);
    while (!r.over && !abx_cli_interrupted(cli))
        abx_cli_turn(cli);
    uv_close((uv_handle_t *)&timer, on_closed);
    while (!r.closed)
        uv_run(&cli->_loop, UV_RUN_NOWAIT);
    if (abx_cli_interrupted(cli))
        return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
    return 0;
}

int abx_verb_stats(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    bool again = abx_has_flag(a, ABX_FLAG_WATCH);
    uint64_t interval = abx_flag_number(a, ABX_FLAG_INTERVAL, INTERVAL_MS);
    ABX_AUTO_FREE void *room = abx_alloc_array(a->word_count, sizeof(char *));
    const char **names = (const char **)room;
    for (size_t i = 0; i < a->word_count; i++)
        names[i] = a->words[i];
    watch w = {.cli = cli,
               .names = names,
               .count = a->word_count,
               .lines = (again && abx_cli_json(cli)) || cli->format == ABX_OUT_JSONL,
               .redraw = again && isatty(STDOUT_FILENO) == 1};
    int code = 0;
    for (;;) {
        if (look(&w, &code, err) < 0)
            return -1;
        if (!again || w.count == 0)
            return code;
        if (pause_for(cli, interval, err) < 0)
            return -1;
    }
}
