/* Calls with bytes both ways over a WebSocket: terminals (pty.open, or process.attach to one) and sandbox.tunnel. Binary
 * frames are the bytes; text frames are JSON objects with one member. */
#include "doors/engine/stream.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define MAX_MESSAGE ((size_t)1024 * 1024)
#define MAX_SIDE    65535 /* columns or rows */

enum { CLOSE_FINE = 1000, CLOSE_GOES = 1001, CLOSE_FAILED = 1011 };

typedef struct wire {
    engine_request *request; /* its x is NULL when the client is gone */
    abx_call *call;          /* NULL: over */
    abx_call *input;         /* pty.write; of a tunnel its call; NULL: none, or over */
    abx_call *resizing;      /* pty.resize, one at a time */
    int64_t cols, rows;      /* that are still to be told; 0: none */
    char *sandbox;           /* of a terminal */
    char *id;                /* of a terminal, once it is known */
    bool tunnel;             /* else a terminal */
    bool up;                 /* frames go */
    bool closing;            /* our close frame is out */
    yyjson_doc *exit;        /* its exit event */
} wire;

static void free_when_over(wire *w)
{
    if (w->request->x || w->call || w->input || w->resizing)
        return;
    engine_request_end(w->request);
    yyjson_doc_free(w->exit);
    free(w->sandbox);
    free(w->id);
    free(w);
}

/* --- text frames ------------------------------------------------------------------------------------------------ */
/* {name: value}; value NULL: {}. */
static void say(const wire *w, const char *name, yyjson_val *value)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX);
    if (value)
        abx_mut_val(d, root, name, value);
    else
        (void)abx_mut_obj(d, root, name);
    ABX_CHECK(abx_json_write_mut(root, &text) == 0);
    (void)abx_ws_send(w->request->x, true, text.data, text.len);
}

/* The last words; what still runs ends with the connection. */
static void fail(wire *w, const abx_error *err)
{
    if (!w->request->x || w->closing)
        return;
    ABX_AUTO_FREE char *text = engine_request_error(w->request, err);
    w->closing = true;
    (void)abx_ws_send(w->request->x, true, text, strlen(text));
    abx_ws_close(w->request->x, CLOSE_FAILED, abx_error_code(err));
}

/* The engine ends. */
static void last_words(engine_request *r, const abx_error *why)
{
    wire *w = r->handler;
    if (!w->up || w->closing)
        return;
    w->closing = true;
    abx_ws_close(r->x, CLOSE_GOES, abx_error_code(why));
}

/* --- input of a terminal ------------------------------------------------------------------------------------------ */
static yyjson_mut_doc *side_params(const wire *w, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "sandboxId", w->sandbox);
    abx_mut_str(d, *root, "ptyId", w->id);
    return d;
}

static void input_writable(abx_call *c, void *data)
{
    (void)c;
    const wire *w = data;
    if (w->request->x)
        abx_exchange_resume(w->request->x);
}

/* That a terminal has ended is told by its own call. */
static bool is_of_the_end(const abx_error *err)
{
    return err->id != ABX_ERR_USAGE && err->id != ABX_ERR_FEATURE_MISSING;
}

static void input_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    wire *w = data;
    w->input = NULL;
    if (err && !is_of_the_end(err))
        fail(w, err);
    if (w->request->x)
        abx_exchange_resume(w->request->x);
    free_when_over(w);
}

/* The call that takes what is typed; a new one when the last has broken. */
static abx_call *input_of(wire *w)
{
    static const abx_call_handlers on = {.on_writable = input_writable, .on_end = input_end};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR err = NULL;
    if (w->input || w->tunnel || !w->call)
        return w->input;
    w->input =
        engine_request_call(w->request, ABX_OP_PTY_WRITE, side_params(w, &root), &on, w, &err);
    if (!w->input)
        fail(w, err);
    return w->input;
}

static void resize(wire *w);

static void on_resized(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    wire *w = data;
    w->resizing = NULL;
    if (err && !is_of_the_end(err))
        fail(w, err);
    if (w->cols > 0 && w->request->x && w->call)
        resize(w);
    free_when_over(w);
}

static void resize(wire *w)
{
    static const abx_call_handlers on = {.on_end = on_resized};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR err = NULL;
    if (w->resizing)
        return;
    yyjson_mut_doc *d = side_params(w, &root);
    abx_mut_int(d, root, "cols", w->cols);
    abx_mut_int(d, root, "rows", w->rows);
    w->cols = w->rows = 0;
    w->resizing = engine_request_call(w->request, ABX_OP_PTY_RESIZE, d, &on, w, &err);
    if (!w->resizing)
        fail(w, err);
}

/* --- frames that come ----------------------------------------------------------------------------------------------- */
static int read_size(wire *w, yyjson_val *size, abx_error **err)
{
    int64_t cols = abx_json_int(size, "cols", 0), rows = abx_json_int(size, "rows", 0);
    if (cols < 1 || cols > MAX_SIDE || rows < 1 || rows > MAX_SIDE)
        return abx_fail(err, ABX_ERR_USAGE, "'resize' needs 'cols' and 'rows', 1 to %d each",
                        MAX_SIDE);
    w->cols = cols;
    w->rows = rows;
    return 0;
}

static int on_text(wire *w, const uint8_t *bytes, size_t n, abx_error **err)
{
    ABX_AUTO_JSON doc = abx_json_parse(bytes, n, ABX_ERR_USAGE, "a text frame", err);
    if (!doc)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *size = abx_json_get(root, "resize"), *end = abx_json_get(root, "end");
    if (yyjson_obj_size(root) == 1 && size && !w->tunnel) {
        if (read_size(w, size, err) < 0)
            return -1;
        if (w->call)
            resize(w);
        return 0;
    }
    if (yyjson_obj_size(root) == 1 && end && w->tunnel) {
        if (w->call)
            abx_call_write_end(w->call);
        return 0;
    }
    return abx_fail(err, ABX_ERR_USAGE, "a text frame must be %s",
                    w->tunnel ? "{\"end\":{}}" : "{\"resize\":{\"cols\":N,\"rows\":N}}");
}

static void on_message(abx_exchange *x, bool text, const uint8_t *bytes, size_t n, void *data)
{
    wire *w = data;
    if (w->closing)
        return;
    if (text) {
        ABX_AUTO_ERROR err = NULL;
        if (on_text(w, bytes, n, &err) < 0)
            fail(w, err);
        return;
    }
    abx_call *input = n > 0 ? input_of(w) : NULL;
    if (input && !abx_call_write(input, bytes, n))
        abx_exchange_pause(x);
}

static void on_writable(abx_exchange *x, void *data)
{
    (void)x;
    const wire *w = data;
    if (w->call)
        abx_call_resume(w->call);
}

static void leave(wire *w)
{
    w->request->x = NULL;
    if (w->input && w->input != w->call)
        abx_call_cancel(w->input);
    if (w->resizing)
        abx_call_cancel(w->resizing);
    if (w->call)
        abx_call_cancel(w->call);
    free_when_over(w);
}

static void on_ws_close(abx_exchange *x, int code, void *data)
{
    (void)x;
    (void)code;
    leave(data);
}

/* --- what comes from the call --------------------------------------------------------------------------------------- */
static void go_up(wire *w, yyjson_val *started)
{
    static const abx_ws_handlers on = {
        .on_message = on_message, .on_writable = on_writable, .on_close = on_ws_close};
    if (w->up)
        return;
    w->up = true;
    if (!w->tunnel && !w->id)
        w->id = abx_strdup(abx_json_str(started, "id", ""));
    if (abx_exchange_upgrade(w->request->x, NULL, MAX_MESSAGE, &on, w) == 0)
        say(w, "started", started);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    wire *w = data;
    if (!w->request->x || w->closing)
        return;
    if (strcmp(type, "started") == 0) {
        go_up(w, event);
    } else if (!w->up) {
        return;
    } else if (strcmp(type, "exit") == 0) {
        yyjson_doc_free(w->exit);
        w->exit = abx_json_copy(event);
    } else {
        say(w, type, event);
    }
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    const wire *w = data;
    if (w->request->x && w->up && !w->closing && !abx_ws_send(w->request->x, false, bytes, n))
        abx_call_pause(c);
}

static void call_writable(abx_call *c, void *data)
{
    (void)c;
    const wire *w = data;
    if (w->tunnel && w->request->x)
        abx_exchange_resume(w->request->x);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    wire *w = data;
    w->call = NULL;
    if (w->tunnel)
        w->input = NULL;
    if (w->input)
        abx_call_cancel(w->input);
    if (w->request->x && !w->up && err) {
        engine_fail(w->request, err);
    } else if (w->request->x && !w->up) {
        ABX_AUTO_ERROR why = abx_error_new(ABX_ERR_BACKEND_ANSWER, "it ended before it had begun");
        engine_fail(w->request, why);
    } else if (err) {
        fail(w, err);
    } else if (w->request->x && !w->closing) {
        if (!w->tunnel)
            say(w, "exit", w->exit ? yyjson_doc_get_root(w->exit) : result);
        w->closing = true;
        abx_ws_close(w->request->x, CLOSE_FINE, NULL);
    }
    free_when_over(w);
}

/* --- the request -------------------------------------------------------------------------------------------------------- */
static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    leave(data);
}

/* pty=ID: a terminal that runs. From ?from= on, else with what came while nobody listened. */
static abx_call *reattach(wire *w, const abx_call_handlers *on, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    engine_place place;
    if (engine_place_read(w->request->x, &place, err) < 0)
        return NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", w->sandbox);
    abx_mut_str(d, root, "processId", w->id);
    if (place.known)
        engine_place_put(&place, d, root);
    else
        abx_mut_bool(d, root, "missed", true);
    return engine_request_call(w->request, ABX_OP_PROCESS_ATTACH, d, on, w, err);
}

void engine_socket(engine_request *r)
{
    static const abx_call_handlers on = {
        .on_event = on_event, .on_chunk = on_chunk, .on_writable = call_writable, .on_end = on_end};
    static const abx_exchange_handlers client = {.on_close = on_close};
    ABX_AUTO_ERROR err = NULL;
    wire *w = ABX_NEW(wire);
    w->request = r;
    r->handler = w;
    r->last_words = last_words;
    w->tunnel = r->row->id == ABX_OP_SANDBOX_TUNNEL;
    w->sandbox = abx_strdup(yyjson_mut_get_str(yyjson_mut_obj_get(r->root, "sandboxId")));
    w->id = w->tunnel ? NULL : abx_exchange_query_get(r->x, "pty");
    abx_exchange_handle(r->x, &client, w);
    if (!abx_exchange_wants_ws(r->x))
        (void)abx_fail(&err, ABX_ERR_USAGE, "this route is a WebSocket (RFC 6455, version 13)");
    else if (w->id)
        w->call = reattach(w, &on, &err);
    else
        w->call = engine_request_start(r, &on, w);
    if (err)
        engine_fail(r, err);
    if (w->tunnel)
        w->input = w->call;
}
