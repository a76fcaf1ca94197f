/* provider call: one operation of a provider as it is, its events as lines of JSON. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/event_lines.h"
#include "doors/cli/stream.h"
#include "doors/cli/verbs.h"

typedef struct raw_call {
    abx_cli *cli;
    abx_call *call; /* NULL once it has ended */
    abx_out_writer out;
    abx_stdin_reader in;
    bool reads, paused;
    abx_utf8_tail tails[ABX_CH_COUNT];
    yyjson_doc *result;
    abx_error *err;
} raw_call;

static void write_lines(raw_call *r, abx_buf *lines)
{
    if (lines->len == 0)
        return;
    int more = abx_out_write(&r->out, lines->data, lines->len);
    if (abx_out_error(&r->out) && r->call)
        abx_call_cancel(r->call); /* nobody reads */
    else if (!more && r->call && !r->paused) {
        r->paused = true;
        abx_call_pause(r->call);
    }
}

static void on_drain(void *data)
{
    raw_call *r = data;
    if (r->paused && r->call)
        abx_call_resume(r->call);
    r->paused = false;
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    ABX_AUTO_BUF lines = ABX_BUF(SIZE_MAX / 2);
    abx_event_object(&lines, type, event, NULL, NULL);
    write_lines(data, &lines);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    raw_call *r = data;
    ABX_AUTO_BUF lines = ABX_BUF(SIZE_MAX / 2);
    abx_event_bytes(&lines, abx_channel_name(channel), bytes, n, &r->tails[channel]);
    write_lines(r, &lines);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    raw_call *r = data;
    if (r->reads)
        abx_stdin_reader_resume(&r->in);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    raw_call *r = data;
    r->call = NULL;
    if (err)
        r->err = abx_error_copy(err);
    else
        r->result = abx_json_copy(result);
}

static int on_bytes(const uint8_t *bytes, size_t n, void *data)
{
    raw_call *r = data;
    return r->call ? abx_call_write(r->call, bytes, n) : 1;
}

static void on_input_end(int error, void *data)
{
    raw_call *r = data;
    if (r->call && error)
        abx_call_cancel(r->call);
    else if (r->call)
        abx_call_write_end(r->call);
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    raw_call *r = data;
    if (sig == SIGWINCH)
        return;
    abx_cli_interrupt(cli, sig);
    if (r->call)
        abx_call_cancel(r->call);
}

static void tell_end(raw_call *r)
{
    ABX_AUTO_BUF lines = ABX_BUF(SIZE_MAX / 2);
    for (int c = 0; c < ABX_CH_COUNT; c++)
        abx_event_tail(&lines, abx_channel_name((abx_channel)c), &r->tails[c]);
    if (r->result) {
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        abx_mut_val(d, root, "result", yyjson_doc_get_root(r->result));
        ABX_AUTO_JSON event = abx_json_freeze(d);
        abx_event_object(&lines, "end", yyjson_doc_get_root(event), NULL, NULL);
    }
    write_lines(r, &lines);
}

static bool takes_input(abx_op_id op)
{
    abx_style style = abx_op_row_of(op)->style;
    return style == ABX_STYLE_BODY_IN || style == ABX_STYLE_DUPLEX;
}

/* The call has begun: follow it to its end. */
static int follow(raw_call *r, abx_op_id op, abx_error **err)
{
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(r->cli, on_signal, r, &former_data);
    r->reads = takes_input(op) && !r->cli->stdin_closed && !r->cli->stdin_off;
    if (r->reads) {
        abx_stdin_reader_init(&r->in, &r->cli->_loop, STDIN_FILENO, on_bytes, on_input_end, r);
        abx_stdin_reader_start(&r->in);
    } else if (takes_input(op)) {
        abx_call_write_end(r->call);
    }
    while (r->call)
        abx_cli_turn(r->cli);
    if (r->reads)
        abx_stdin_reader_close(&r->in);
    while (r->reads && !abx_stdin_reader_is_closed(&r->in))
        uv_run(&r->cli->_loop, UV_RUN_NOWAIT);
    tell_end(r);
    while (abx_out_is_waiting(&r->out) && !abx_cli_interrupted(r->cli))
        abx_cli_turn(r->cli);
    abx_cli_take_signals(r->cli, former, former_data, NULL);
    int error = abx_out_error(&r->out);
    if (error == EPIPE)
        r->cli->output_closed = true;
    if (error)
        return abx_fail_errno(err, ABX_ERR_FILE, error, "cannot write to standard output");
    return r->err ? abx_error_take(err, ABX_TAKE(r->err)) : 0;
}

static int find_op(const char *method, abx_op_id *op, abx_error **err)
{
    const abx_op_row *row = abx_op_find(method);
    const char *names[ABX_OP_COUNT];
    if (row) {
        *op = row->id;
        return 0;
    }
    for (int i = 0; i < ABX_OP_COUNT; i++)
        names[i] = abx_op_row_of((abx_op_id)i)->method;
    const char *near = abx_nearest(method, names, ABX_OP_COUNT);
    ABX_AUTO_FREE char *shown = abx_printable(method);
    abx_fail(err, ABX_ERR_USAGE, "there is no operation '%.60s'", shown);
    return near ? abx_hint(err, "did you mean '%s'?", near)
                : abx_hint(err, "docs/operations.md lists them");
}

int abx_cli_provider_word(abx_cli *cli, const char *word, const char **id, abx_error **err)
{
    struct stat st;
    if (abx_cli_open(cli, err) < 0)
        return -1;
    if (!strchr(word, '/') && (abx_host_has_provider(cli->_host, word) || stat(word, &st) < 0)) {
        *id = word;
        return 0;
    }
    return abx_host_use_folder(cli->_host, word, id, err);
}

int abx_verb_provider_call(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *text = a->word_count > 2 ? a->words[2] : "{}", *provider;
    abx_op_id op = ABX_OP_COUNT;
    if (find_op(a->words[1], &op, err) < 0)
        return -1;
    yyjson_doc *params =
        abx_json_parse(text, strlen(text), ABX_ERR_USAGE, "the text of the parameters", err);
    if (!params)
        return -1;
    raw_call r = {.cli = cli};
    static const abx_call_handlers handlers = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = on_writable, .on_end = on_end};
    if (abx_cli_provider_word(cli, a->words[0], &provider, err) < 0) {
        yyjson_doc_free(params);
        return -1;
    }
    abx_out_writer_init(&r.out, &cli->_loop, STDOUT_FILENO, on_drain, &r);
    r.call = abx_call_new(&cli->_loop, op, params, &handlers, &r);
    abx_call_set_deadline(r.call, abx_cli_time_for(cli, op));
    int rc = abx_host_start_at(cli->_host, provider, r.call, err);
    if (rc < 0) {
        abx_call_discard(ABX_TAKE(r.call));
    } else {
        cli->remote = true;
        rc = follow(&r, op, err);
    }
    abx_out_close(&r.out);
    while (!abx_out_is_closed(&r.out))
        uv_run(&cli->_loop, UV_RUN_NOWAIT);
    yyjson_doc_free(r.result);
    abx_error_free(r.err);
    return rc;
}
