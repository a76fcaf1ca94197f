/* Calls of the client of envd, for tests that put their own server or proxy before it.
 *
 *     envd_call OPTIONS METHOD PARAMS [METHOD PARAMS...]
 *
 * OPTIONS is an object with the members of abx_envd_client_options (baseUrl, codeUrl, connectTo, sandboxId, token,
 * trafficToken, version, defaultUser, form, octets, streamInput, pollWatch, proto). The calls run one behind the other with
 * one client. PARAMS are those of the operation and, for this program: "_input" text, "_inputBytes" so many bytes instead,
 * "_deadlineMs", "_cancelOn" the name of an event or channel, "_cancelAfterMs", "_quiet" no chunks.
 * Output: a line of JSON for each event, chunk (base64) and end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "e2b/client.h"
#include "ops/call_host.h"
#include "wire/base64.h"

#define PIECE ((size_t)64 * 1024)

typedef struct run {
    uv_loop_t *loop;
    abx_call *call;
    yyjson_val *params;
    char *cancel_on;
    bool quiet;
    const char *input;
    size_t left; /* bytes of input */
    size_t bytes;
    bool ended, failed;
} run;

static void print(yyjson_mut_doc *d)
{
    char *text = yyjson_mut_write(d, 0, NULL);
    (void)printf("%s\n", text);
    (void)fflush(stdout);
    free(text);
    yyjson_mut_doc_free(d);
}

static void cancel_at(run *r, const char *name)
{
    if (r->cancel_on && strcmp(r->cancel_on, name) == 0)
        abx_call_cancel(r->call);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "event", type);
    abx_mut_val(d, root, "data", event);
    print(d);
    cancel_at(data, type);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    run *r = data;
    r->bytes += n;
    if (!r->quiet) {
        yyjson_mut_val *root = NULL;
        yyjson_mut_doc *d = abx_mut_new(&root);
        ABX_AUTO_FREE char *text = abx_base64_text(bytes, n, ABX_BASE64_STANDARD, true);
        abx_mut_str(d, root, "chunk", abx_channel_name(channel));
        abx_mut_str(d, root, "bytes", text);
        print(d);
    }
    cancel_at(r, abx_channel_name(channel));
}

/* Give input until the call holds. */
static void feed(run *r)
{
    static const char zeros[PIECE];
    int more = 1;
    while (more && r->left > 0) {
        size_t n = r->left < PIECE ? r->left : PIECE;
        more = abx_call_write(r->call, r->input ? r->input : zeros, n);
        if (r->input)
            r->input += n;
        r->left -= n;
    }
    if (r->left == 0)
        abx_call_write_end(r->call);
}

static void on_writable(abx_call *c, void *data)
{
    feed(data);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    run *r = data;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    if (result)
        abx_mut_val(d, root, "result", result);
    else
        abx_mut_put(d, root, "error", abx_error_json(d, err));
    abx_mut_int(d, root, "bytes", (int64_t)r->bytes);
    print(d);
    r->ended = true;
    r->failed = err != NULL;
}

static void on_cancel(uv_timer_t *timer)
{
    run *r = timer->data;
    if (!r->ended)
        abx_call_cancel(r->call);
}

static yyjson_doc *parse(const char *text)
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    if (!yyjson_is_obj(yyjson_doc_get_root(doc))) {
        (void)fprintf(stderr, "envd_call: no object: %s\n", text);
        exit(2);
    }
    return doc;
}

/* The parameters without those of this program. */
static yyjson_doc *cleaned(yyjson_doc *doc)
{
    yyjson_mut_doc *d = yyjson_doc_mut_copy(doc, NULL);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
    static const char *const own[] = {"_input",    "_inputBytes",    "_deadlineMs",
                                      "_cancelOn", "_cancelAfterMs", "_quiet"};
    for (size_t i = 0; i < ABX_COUNT(own); i++)
        yyjson_mut_obj_remove_key(root, own[i]);
    yyjson_doc *out = yyjson_mut_doc_imut_copy(d, NULL);
    yyjson_mut_doc_free(d);
    return out;
}

static bool run_call(abx_envd_client *client, uv_loop_t *loop, const char *method,
                     const char *params)
{
    static const abx_call_handlers handlers = {on_event, on_chunk, on_writable, on_end};
    ABX_AUTO_JSON doc = parse(params);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const abx_op_row *op = abx_op_find(method);
    ABX_AUTO_ERROR err = NULL;
    if (!op) {
        (void)fprintf(stderr, "envd_call: no operation '%s'\n", method);
        exit(2);
    }
    run r = {.loop = loop, .quiet = abx_json_bool(root, "_quiet", false)};
    r.cancel_on = abx_strdup(abx_json_str(root, "_cancelOn", NULL));
    r.input = abx_json_str(root, "_input", NULL);
    r.left = r.input ? strlen(r.input) : (size_t)abx_json_int(root, "_inputBytes", 0);
    r.call = abx_call_new(loop, op->id, cleaned(doc), &handlers, &r);
    int64_t deadline = abx_json_int(root, "_deadlineMs", 0);
    if (deadline > 0)
        abx_call_set_deadline(r.call, (uint64_t)deadline);
    abx_call_enter_start(r.call);
    int rc = abx_envd_client_start(client, r.call, &err);
    abx_call_leave_start(r.call);
    if (rc < 0) {
        on_end(r.call, NULL, err, &r);
        abx_call_discard(r.call);
    } else if (op->style == ABX_STYLE_BODY_IN) {
        feed(&r);
    }
    int64_t after = abx_json_int(root, "_cancelAfterMs", 0);
    uv_timer_t timer = {.data = &r};
    uv_timer_init(loop, &timer);
    if (after > 0)
        uv_timer_start(&timer, on_cancel, (uint64_t)after, 0);
    while (!r.ended)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    free(r.cancel_on);
    return !r.failed;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc % 2) {
        (void)fprintf(stderr, "usage: envd_call OPTIONS METHOD PARAMS [METHOD PARAMS...]\n");
        return 2;
    }
    ABX_AUTO_JSON doc = parse(argv[1]);
    yyjson_val *o = yyjson_doc_get_root(doc);
    uv_loop_t loop;
    abx_envd_client *client = NULL;
    ABX_AUTO_ERROR err = NULL;
    uv_loop_init(&loop);
    const abx_envd_client_options options = {
        .loop = &loop,
        .base_url = abx_json_str(o, "baseUrl", NULL),
        .code_url = abx_json_str(o, "codeUrl", NULL),
        .connect_to = abx_json_str(o, "connectTo", NULL),
        .sandbox_id = abx_json_str(o, "sandboxId", "sb1"),
        .token = abx_json_str(o, "token", NULL),
        .traffic_token = abx_json_str(o, "trafficToken", NULL),
        .version = abx_json_str(o, "version", NULL),
        .default_user = abx_json_str(o, "defaultUser", NULL),
        .upload = abx_json_bool(o, "form", false)     ? ABX_ENVD_UPLOAD_FORM
                  : abx_json_bool(o, "octets", false) ? ABX_ENVD_UPLOAD_OCTETS
                                                      : ABX_ENVD_UPLOAD_BY_VERSION,
        .stream_input = abx_json_bool(o, "streamInput", false),
        .poll_watch = abx_json_bool(o, "pollWatch", false),
        .codec = abx_json_bool(o, "proto", false) ? ABX_E2B_PROTO : ABX_E2B_JSON,
    };
    if (!options.base_url || abx_envd_client_open(&options, &client, &err) < 0) {
        (void)fprintf(stderr, "envd_call: %s\n", err ? abx_error_text(err) : "no baseUrl");
        return 2;
    }
    bool good = true;
    for (int i = 2; i < argc && good; i += 2)
        good = run_call(client, &loop, argv[i], argv[i + 1]);
    abx_envd_client_close(client, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return good ? 0 : 1;
}
