/* process.stdin and process.close_stdin of a process that emulate_input.c started: bytes become the next file of its
 * folder. A file is written under a name that nobody reads, then renamed. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"

#define HOLD     ((size_t)256 * 1024) /* bytes that wait before the door is asked to hold */
#define FILE_MAX ((size_t)64 * 1024 * 1024)

typedef struct input {
    abx__emulation e;
    abx__file_input *to;
    abx_buf waiting;
    bool ended, full;
    bool close; /* the process sees the end after these bytes */
} input;

static void pump(input *in);

static yyjson_mut_doc *params(const input *in, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "sandboxId", in->to->sandbox);
    abx_mut_str(d, *root, "user", in->to->user);
    return d;
}

static void on_closed(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    (void)result;
    (void)output;
    abx__emulation_end(e, NULL);
}

static void on_renamed(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    input *in = (input *)e;
    (void)result;
    (void)output;
    in->to->written++;
    pump(in);
}

static void on_written(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    input *in = (input *)e;
    (void)result;
    (void)output;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = params(in, &root);
    ABX_AUTO_FREE char *from = abx_format("%s/next", in->to->folder);
    ABX_AUTO_FREE char *to = abx_format("%s/%" PRIu64, in->to->folder, in->to->written);
    abx_mut_str(d, root, "from", from);
    abx_mut_str(d, root, "to", to);
    abx__emulation_ask(e, ABX_OP_FS_RENAME, d, NULL, 0, 0, on_renamed);
}

static void write_file(input *in, const char *name, abx__emulation_cb cb)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = params(in, &root);
    ABX_AUTO_FREE char *path = abx_format("%s/%s", in->to->folder, name);
    abx_mut_str(d, root, "path", path);
    abx_mut_int(d, root, "size", (int64_t)in->waiting.len);
    ABX_AUTO_BUF bytes = in->waiting;
    abx_buf_init(&in->waiting, FILE_MAX);
    abx__emulation_ask(&in->e, ABX_OP_FS_WRITE, d, abx_buf_cstr(&bytes), bytes.len, 0, cb);
}

static void pump(input *in)
{
    if (in->e.inner || !in->e.outer || in->e.done)
        return;
    if (in->to
            ->over) { /* nobody reads any more: as with a pipe of one's own, that is no error of the writer's */
        abx__emulation_end(&in->e, NULL);
        return;
    }
    if (in->waiting.len > 0)
        write_file(in, "next", on_written);
    else if (in->ended && in->close)
        write_file(in, "end", on_closed);
    else if (in->ended)
        abx__emulation_end(&in->e, NULL);
    if (in->full && !in->e.done && in->waiting.len == 0) {
        in->full = false;
        abx_call_want_input(in->e.outer);
    }
}

static int on_input(abx_call *c, const uint8_t *bytes, size_t n, void *state)
{
    input *in = state;
    (void)c;
    if (abx_buf_add(&in->waiting, bytes, n) < 0) {
        abx__emulation_fail(
            &in->e, abx_error_new(ABX_ERR_TOO_LARGE, "process.stdin: more than 64 MiB at once"));
        return 1;
    }
    pump(in);
    in->full = in->waiting.len >= HOLD;
    return !in->full;
}

static void on_input_end(abx_call *c, void *state)
{
    input *in = state;
    (void)c;
    in->ended = true;
    pump(in);
}

static void release(abx__emulation *e)
{
    input *in = (input *)e;
    in->to->busy = false;
    if (in->to->over)
        abx__file_input_end(e->host, in->to);
    abx_buf_clear(&in->waiting);
    abx__emulation_clear(e);
    free(in);
}

static int refuse(abx_call *call, abx_error *err)
{
    static const abx_call_backend nothing = {0};
    abx_call_accept(call, &nothing, NULL);
    abx_call_fail(call, err);
    return -1;
}

static int find(abx_host *host, const char *provider, abx_call *call, abx__file_input **out)
{
    yyjson_val *p = abx_call_params(call);
    const char *process = abx_json_str(p, "processId", "");
    *out = abx__file_input_find(host, provider, abx_json_str(p, "sandboxId", ""), process);
    ABX_AUTO_FREE char *shown = abx_printable(process);
    if (!*out)
        return refuse(call, abx_error_new(ABX_ERR_PROCESS_NOT_FOUND,
                                          "process '%s' has no input that can be written from here",
                                          shown));
    if ((*out)->busy)
        return refuse(call, abx_error_new(ABX_ERR_CONFLICT,
                                          "somebody else writes the input of process '%s'", shown));
    return 0;
}

void abx__emulate_stdin(abx_host *host, const char *provider, abx_call *call)
{
    static const abx_call_backend backend = {.on_cancel = abx__emulation_on_cancel,
                                             .on_input = on_input,
                                             .on_input_end = on_input_end,
                                             .on_release = abx__emulation_on_release};
    abx__file_input *to;
    if (find(host, provider, call, &to) < 0)
        return;
    bool only_close = abx_call_op(call)->id == ABX_OP_PROCESS_CLOSE_STDIN;
    input *in = ABX_NEW(input);
    abx__emulation_init(&in->e, host, provider, call);
    in->e.release = release;
    in->to = to;
    to->busy = true;
    abx_buf_init(&in->waiting, FILE_MAX);
    in->close = only_close || abx_json_bool(abx_call_params(call), "close", false);
    abx_call_accept(call, &backend, in);
    if (only_close) {
        in->ended = true;
        pump(in);
    }
}
