/* process.start with standard input, where a provider has none: a shell in front of the command opens files that the
 * host writes. Input that is whole is one file. A stream is a folder of files that are put together in a fifo; they
 * come by rename, so that a file is there with all its bytes or not at all. */
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"
#include "wire/bytes_json.h"

#define INPUT_MAX ((size_t)64 * 1024 * 1024)

/* The reader ends with the end of the input, or when the command is gone: $$ is its pid. It is a grandchild, so that
 * the command does not wait for a child that it did not start. */
static const char from_folder[] =
    "mkfifo \"$d/in\" || exit 125\n"
    "( ( n=0; while :; do e=; [ -e \"$d/end\" ] && e=1\n"
    "if [ -e \"$d/$n\" ]; then cat \"$d/$n\" || break; rm -f \"$d/$n\"; n=$((n+1))\n"
    "elif [ \"$e\" ]; then break\n"
    "elif ! kill -0 $$ && ! [ -d /proc/$$ ]; then break\n"
    "else sleep 0.02 || sleep 1; fi; done; rm -rf \"$d\" ) >\"$d/in\" 2>/dev/null </dev/null & )\n"
    "exec <\"$d/in\"; unset d\n";
static const char from_file[] = "exec <\"$d\" || exit 125; rm -f \"$d\"; unset d\n";

typedef struct start {
    abx__emulation e;
    bool stream, started;
    char *folder;                  /* relative: the file, or where the files are made */
    abx__file_input *stream_input; /* known once the process has started; owned by the host */
} start;

/* --- what the host remembers --------------------------------------------------------------------------- */

static void free_input(abx__file_input *in)
{
    free(in->provider);
    free(in->sandbox);
    free(in->process);
    free(in->user);
    free(in->folder);
    free(in);
}

abx__file_input *abx__file_input_find(abx_host *host, const char *provider, const char *sandbox,
                                      const char *process)
{
    for (abx__file_input *in = host->file_inputs; in; in = in->next)
        if (strcmp(in->provider, provider) == 0 && strcmp(in->sandbox, sandbox) == 0 &&
            strcmp(in->process, process) == 0)
            return in;
    return NULL;
}

static void on_removed(void *data, yyjson_val *result, const abx_error *err)
{
    (void)data;
    (void)result;
    (void)err; /* the reader removed it before us, or the sandbox is gone */
}

static void remove_files(abx_host *host, const char *provider, const char *sandbox,
                         const char *user, const char *path)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", sandbox);
    abx_mut_str(d, root, "path", path);
    abx_mut_str(d, root, "user", user);
    abx__host_ask(host, provider, ABX_OP_FS_REMOVE, d, on_removed, NULL);
}

void abx__file_input_end(abx_host *host, abx__file_input *input)
{
    input->over = true;
    if (input->busy)
        return;
    for (abx__file_input **at = &host->file_inputs; *at; at = &(*at)->next) {
        if (*at == input) {
            *at = input->next;
            break;
        }
    }
    remove_files(host, input->provider, input->sandbox, input->user, input->folder);
    free_input(input);
}

void abx__file_inputs_free(abx_host *host)
{
    while (host->file_inputs) {
        abx__file_input *in = host->file_inputs;
        host->file_inputs = in->next;
        free_input(in);
    }
}

static void remember(start *s, const char *process)
{
    yyjson_val *params = abx_call_params(s->e.outer);
    abx__file_input *in = ABX_NEW(abx__file_input);
    in->provider = abx_strdup(s->e.provider);
    in->sandbox = abx_strdup(abx_json_str(params, "sandboxId", ""));
    in->process = abx_strdup(process);
    in->user = abx_strdup(abx_json_str(params, "user", NULL));
    in->folder = abx_strdup(s->folder);
    in->next = s->e.host->file_inputs;
    s->e.host->file_inputs = in;
    s->stream_input = in;
}

/* --- the start ------------------------------------------------------------------------------------------- */

static void on_event(abx__emulation *e, const char *type, yyjson_val *event)
{
    start *s = (start *)e;
    const char *id = abx_json_str(event, "id", NULL);
    if (strcmp(type, "started") != 0 || s->started)
        return;
    s->started = true;
    if (s->stream && id)
        remember(s, id);
}

static void on_end(abx__emulation *e, yyjson_val *result)
{
    start *s = (start *)e;
    /* One in the background has only started. */
    bool lives = result && !abx_json_get(result, "exitCode") && !abx_json_get(result, "signal");
    if (s->stream_input && !lives)
        abx__file_input_end(e->host, ABX_TAKE(s->stream_input));
    yyjson_val *params = e->outer ? abx_call_params(e->outer) : NULL;
    if (params && !s->started && !result) /* nobody reads what was written */
        remove_files(e->host, e->provider, abx_json_str(params, "sandboxId", ""),
                     abx_json_str(params, "user", NULL), s->folder);
}

/* The command with the shell's lines before it. */
static void put_command(const start *s, yyjson_mut_doc *d, yyjson_mut_val *root, const char *path)
{
    yyjson_val *params = abx_call_params(s->e.outer), *cmd = abx_json_get(params, "cmd");
    const char *tail = s->stream ? from_folder : from_file;
    ABX_AUTO_FREE char *word = abx__shell_word(path);
    if (yyjson_is_str(cmd)) {
        ABX_AUTO_FREE char *text = abx_format("d=%s\n%s%s", word, tail, yyjson_get_str(cmd));
        abx_mut_str(d, root, "cmd", text);
        abx_mut_bool(d, root, "shell", true);
        return;
    }
    ABX_AUTO_FREE char *text = abx_format("d=%s\n%sexec \"$@\"\n", word, tail);
    yyjson_mut_val *words = abx_mut_arr(d, root, "cmd");
    yyjson_mut_arr_add_strcpy(d, words, "sh");
    yyjson_mut_arr_add_strcpy(d, words, "-c");
    yyjson_mut_arr_add_strcpy(d, words, text);
    yyjson_mut_arr_add_strcpy(d, words, "sh");
    size_t i, n;
    yyjson_val *one;
    yyjson_arr_foreach(cmd, i, n, one) yyjson_mut_arr_append(words, yyjson_val_mut_copy(d, one));
}

static void on_written(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    static const char *const kept[] = {"sandboxId",  "cwd",       "env",          "user",
                                       "background", "timeoutMs", "onDisconnect", NULL};
    start *s = (start *)e;
    (void)output;
    const char *path = abx_json_str(result, "path", "");
    if (*path != '/') {
        abx__emulation_fail(
            e,
            abx_error_new(
                ABX_ERR_PROVIDER_PROTOCOL,
                "fs.write gave no absolute path: without one standard input cannot be emulated"));
        return;
    }
    ABX_AUTO_FREE char *at = abx_strdup(path);
    if (s->stream)
        *strrchr(at, '/') = 0;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx__emulation_params(e, &root, kept);
    put_command(s, d, root, at);
    e->on_event = on_event;
    e->on_relay_end = on_end;
    abx__emulation_relay(e, ABX_OP_PROCESS_START, d);
}

static void release(abx__emulation *e)
{
    start *s = (start *)e;
    free(s->folder);
    abx__emulation_clear(e);
    free(s);
}

void abx__emulate_start(abx_host *host, const char *provider, abx_call *call)
{
    static const char *const kept[] = {"sandboxId", "user", NULL};
    yyjson_val *params = abx_call_params(call);
    start *s = ABX_NEW(start);
    abx__emulation_init(&s->e, host, provider, call);
    s->e.release = release;
    abx__emulation_accept(&s->e);
    yyjson_val *input = abx_json_get(params, "input");
    s->stream = !input;
    ABX_AUTO_BUF bytes = ABX_BUF(INPUT_MAX);
    abx_error *why = NULL;
    if (input && abx_bytes_json_get(input, ABX_ERR_USAGE, &bytes, &why) < 0) {
        abx__emulation_fail(&s->e, why);
        return;
    }
    char id[17];
    abx_random_id(id, 16);
    s->folder = abx_format(".abx-input-%s", id);
    ABX_AUTO_FREE char *path =
        s->stream ? abx_format("%s/begin", s->folder) : abx_strdup(s->folder);
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx__emulation_params(&s->e, &root, kept);
    abx_mut_str(d, root, "path", path);
    abx_mut_int(d, root, "size", (int64_t)bytes.len);
    abx__emulation_ask(&s->e, ABX_OP_FS_WRITE, d, abx_buf_cstr(&bytes), bytes.len, 0, on_written);
}
