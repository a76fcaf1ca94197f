#include "doors/cli/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define WINDOW    ((size_t)1024 * 1024) /* arrived and not read: more stops the call */
#define NOTES_MAX ((size_t)4096)

static int interrupted(const abx_cli *cli, abx_error **err)
{
    if (!abx_cli_interrupted(cli))
        return 0;
    return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
}

/* Keep the last NOTES_MAX bytes. */
static void add_notes(abx_stream *s, const uint8_t *bytes, size_t n)
{
    if (n > NOTES_MAX) {
        bytes += n - NOTES_MAX;
        n = NOTES_MAX;
    }
    if (s->_notes.len + n > NOTES_MAX)
        abx_buf_drop(&s->_notes, s->_notes.len + n - NOTES_MAX);
    ABX_CHECK(abx_buf_add(&s->_notes, bytes, n) == 0);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    abx_stream *s = data;
    if (channel == ABX_CH_STDERR) {
        add_notes(s, bytes, n);
        return;
    }
    ABX_CHECK(abx_buf_add(&s->_data, bytes, n) == 0);
    if (s->_data.len >= WINDOW && !s->_paused) {
        s->_paused = true;
        abx_call_pause(c);
    }
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    ((abx_stream *)data)->_full = false;
}

static void on_input_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    (void)err; /* the process takes no more; why is told by its end */
    abx_stream *s = data;
    s->_input = NULL;
    s->_input_ended = true;
    s->_full = false;
}

static void open_input(abx_stream *s, yyjson_val *event)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = abx_cli_params(s->_sandbox, &root);
    abx_mut_str(params, root, "processId", abx_json_str(event, "id", ""));
    abx_mut_bool(params, root, "close", true);
    abx_call_handlers handlers = {.on_writable = on_writable, .on_end = on_input_end};
    s->_input = abx_cli_start(s->cli, ABX_OP_PROCESS_STDIN, params, &handlers, s, &s->_err);
    if (!s->_input)
        abx_call_cancel(s->_call);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    abx_stream *s = data;
    if (strcmp(type, "started") != 0)
        return;
    s->_started = true;
    if (s->_wants_input)
        open_input(s, event);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    abx_stream *s = data;
    s->_call = NULL;
    s->_ended = true;
    s->_full = false;
    if (err && !s->_err)
        s->_err = abx_error_copy(err);
    else if (result)
        s->_result = abx_json_copy(result);
}

int abx_stream_open(abx_stream *s, abx_cli *cli, abx_op_id op, const char *sandbox,
                    yyjson_mut_doc *params, bool with_input, abx_error **err)
{
    memset(s, 0, sizeof *s);
    s->cli = cli;
    s->_is_process = op == ABX_OP_PROCESS_START;
    s->_wants_input = with_input && s->_is_process;
    s->_sandbox = abx_strdup(sandbox);
    abx_buf_init(&s->_data, SIZE_MAX / 2);
    abx_buf_init(&s->_taken, SIZE_MAX / 2);
    abx_buf_init(&s->_notes, NOTES_MAX);
    abx_call_handlers handlers = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = on_writable, .on_end = on_end};
    s->_call = abx_cli_start(cli, op, params, &handlers, s, err);
    if (!s->_call)
        return -1;
    while (s->_is_process && !s->_started && !s->_ended) {
        if (interrupted(cli, err) < 0)
            return -1;
        abx_cli_turn(cli);
    }
    return s->_err ? abx_error_take(err, ABX_TAKE(s->_err)) : 0;
}

int abx_stream_read(abx_stream *s, const uint8_t **bytes, size_t *n, abx_error **err)
{
    while (s->_data.len == 0 && !s->_ended) {
        if (interrupted(s->cli, err) < 0)
            return -1;
        abx_cli_turn(s->cli);
    }
    if (s->_data.len == 0)
        return s->_err ? abx_error_take(err, ABX_TAKE(s->_err)) : 0;
    abx_buf swap = s->_taken;
    s->_taken = s->_data;
    s->_data = swap;
    abx_buf_reset(&s->_data);
    if (s->_paused && s->_call) {
        s->_paused = false;
        abx_call_resume(s->_call);
    }
    *bytes = s->_taken.data;
    *n = s->_taken.len;
    return 1;
}

static abx_call *input_of(abx_stream *s)
{
    return s->_is_process ? s->_input : s->_call;
}

int abx_stream_write(abx_stream *s, const void *bytes, size_t n, abx_error **err)
{
    while (s->_full && input_of(s)) {
        if (interrupted(s->cli, err) < 0)
            return -1;
        abx_cli_turn(s->cli);
    }
    if (interrupted(s->cli, err) < 0)
        return -1;
    abx_call *input = input_of(s);
    if (input)
        s->_full = abx_call_write(input, bytes, n) == 0;
    return 0;
}

void abx_stream_write_end(abx_stream *s)
{
    if (input_of(s))
        abx_call_write_end(input_of(s));
}

int abx_stream_finish(abx_stream *s, yyjson_val **result, abx_error **err)
{
    while (!s->_ended) {
        if (interrupted(s->cli, err) < 0)
            return -1;
        /* Output that nobody reads must not hold the end back. */
        abx_buf_reset(&s->_data);
        if (s->_paused) {
            s->_paused = false;
            abx_call_resume(s->_call);
        }
        abx_cli_turn(s->cli);
    }
    if (s->_err)
        return abx_error_take(err, ABX_TAKE(s->_err));
    if (result)
        *result = yyjson_doc_get_root(s->_result);
    return 0;
}

const char *abx_stream_notes(abx_stream *s)
{
    while (s->_notes.len > 0 && s->_notes.data[s->_notes.len - 1] == '\n')
        s->_notes.data[--s->_notes.len] = 0;
    return abx_buf_cstr(&s->_notes);
}

void abx_stream_close(abx_stream *s)
{
    if (s->_call)
        abx_call_cancel(s->_call);
    if (s->_input)
        abx_call_cancel(s->_input);
    while (s->_call || s->_input)
        abx_cli_turn(s->cli);
    abx_buf_clear(&s->_data);
    abx_buf_clear(&s->_taken);
    abx_buf_clear(&s->_notes);
    yyjson_doc_free(s->_result);
    abx_error_free(s->_err);
    free(s->_sandbox);
    memset(s, 0, sizeof *s);
}
