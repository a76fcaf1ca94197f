#include "jshost/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/code.h"
#include "base/mem.h"
#include "epp/epp.h"
#include "jshost/lazy.h"
#include "jshost/lock.h"

_Static_assert(ABX_JS_LOAD_MS < ABX_EPP_START_MS,
               "the module's reason must come before the host's patience ends");

enum {
    READ_SIZE = 256 * 1024,
    QUIET_MS = 500 /* after its last call a process lets go of its code */
};

static void write_pieces(const abx_epp_piece *pieces, size_t count, void *data)
{
    js_session *s = data;
    js_output_write(&s->out, pieces, count);
}

void js_session_write(const void *bytes, size_t n, void *data)
{
    const abx_epp_piece piece = {bytes, n};
    write_pieces(&piece, 1, data);
}

static void on_timeout(uv_timer_t *t)
{
    (void)t;
    _exit(1);
}

void js_session_die(js_session *s)
{
    const char *why = s->js.broken ? s->js.broken : "it cannot go on";
    ABX_AUTO_ERROR err =
        abx_error_new(s->greeted ? ABX_ERR_PROVIDER_MODULE : ABX_ERR_PROVIDER_START,
                      "the module was ended: %s", why);
    abx_epp_log(s->epp, "error", err->message);
    if (s->loading)
        abx_epp_greeted(s->epp, NULL, err);
    else
        abx_epp_retire(s->epp, why);
    while (s->calls) {
        js_call *c = s->calls;
        s->calls = c->next;
        abx_epp_fail(c->request, err);
    }
    uv_read_stop((uv_stream_t *)&s->in);
    uv_timer_start(&s->timer, on_timeout, ABX_EPP_END_MS, 0);
    while (js_output_waiting(&s->out) > 0)
        uv_run(s->js.loop, UV_RUN_ONCE);
    _exit(1);
}

/* --- calls --------------------------------------------------------------------------------------------- */

js_call *js_session_find(js_session *s, uint64_t id)
{
    js_call *c = s->calls;
    while (c && c->id != id)
        c = c->next;
    return c;
}

static void on_quiet(uv_timer_t *t)
{
    const js_session *s = t->data;
    if (!s->calls)
        abx_code_let_go();
}

typedef struct js_late {
    struct js_late *next;
    char *type;
    yyjson_mut_doc *event;
} js_late;

/* send: else they are dropped. */
static void clear_late(js_call *c, bool send)
{
    for (js_late *l = c->late, *next; l; l = next) {
        next = l->next;
        if (send)
            abx_epp_event_send(c->request, l->type, ABX_TAKE(l->event));
        yyjson_mut_doc_free(l->event);
        free(l->type);
        free(l);
    }
    c->late = NULL;
    c->late_end = &c->late;
}

static void free_call(js_call *c)
{
    yyjson_mut_doc_free(c->result);
    abx_error_free(c->error);
    clear_late(c, false);
    for (size_t i = 0; i < ABX_COUNT(c->waiting); i++)
        abx_buf_clear(&c->waiting[i]);
    free(c);
}

static void answer(js_session *s, js_call *c)
{
    js_call **at = &s->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (s->js.starved &&
        !s->js.broken) { /* before its answer: the host's next call must not come here */
        abx_js_break(&s->js, ABX_JS_NO_MEMORY);
        abx_epp_retire(s->epp, ABX_JS_NO_MEMORY);
    }
    if (c->error)
        abx_epp_fail(c->request, c->error);
    else
        abx_epp_end(c->request, ABX_TAKE(c->result));
    free_call(c);
    if (!s->calls)
        uv_timer_start(&s->quiet, on_quiet, QUIET_MS, 0);
}

size_t js_call_waiting(const js_call *c)
{
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNT(c->waiting); i++)
        n += c->waiting[i].len;
    return n;
}

static void push_channel(js_session *s, js_call *c, abx_channel channel)
{
    abx_buf *b = &c->waiting[channel];
    while (b->len > 0) {
        size_t n = b->len, room = abx_epp_room(c->request);
        n = n < room ? n : room;
        n = n < ABX_EPP_CHUNK_MAX ? n : ABX_EPP_CHUNK_MAX;
        if (n == 0)
            break;
        js_output_offer(&s->out, b);
        (void)abx_epp_bytes_send(c->request, channel, b->data, n, false);
        js_output_taken(&s->out, b, n);
    }
}

void js_call_push(js_session *s, js_call *c)
{
    for (size_t i = 0; i < ABX_COUNT(c->waiting); i++)
        push_channel(s, c, (abx_channel)i);
    if (js_call_waiting(c) == 0)
        clear_late(c, true);
    if (c->ended && (c->error || js_call_waiting(c) == 0))
        answer(s, c);
}

void js_call_event(js_session *s, js_call *c, const char *type, yyjson_mut_doc *event)
{
    for (size_t i = 0; i < ABX_COUNT(c->waiting); i++)
        push_channel(s, c, (abx_channel)i);
    if (js_call_waiting(c) == 0) {
        clear_late(c, true);
        abx_epp_event_send(c->request, type, event);
        return;
    }
    js_late *l = ABX_NEW(js_late);
    l->type = abx_strdup(type);
    l->event = event;
    *c->late_end = l;
    c->late_end = &l->next;
}

static JSValue number(js_session *s, uint64_t n)
{
    return JS_NewInt64(s->js.ctx, (int64_t)n);
}

static void call_js(js_session *s, JSValueConst fn, int argc, JSValue *argv)
{
    JS_FreeValue(s->js.ctx, abx_js_call(&s->js, fn, argc, argv));
}

static void on_request(abx_epp_request *r, yyjson_val *params, void *data)
{
    js_session *s = data;
    js_call *c = ABX_NEW(js_call);
    c->request = r;
    c->id = abx_epp_request_id(r);
    c->late_end = &c->late;
    for (size_t i = 0; i < ABX_COUNT(c->waiting); i++)
        abx_buf_init(&c->waiting[i], ABX_JS_WAITING_MAX);
    c->next = s->calls;
    s->calls = c;
    if (js_run_take(s, c, params))
        return;
    JSValue argv[] = {number(s, c->id), JS_NewString(s->js.ctx, abx_epp_request_op(r)->method),
                      abx_js_from_json(s->js.ctx, params)};
    call_js(s, s->request, 3, argv);
}

static void on_input(abx_epp_request *r, const uint8_t *bytes, size_t n, void *data)
{
    js_session *s = data;
    const js_call *c = js_session_find(s, abx_epp_request_id(r));
    if (c && c->run) {
        js_run_input(c->run, bytes, n);
        return;
    }
    JSValue argv[] = {number(s, abx_epp_request_id(r)), JS_NewUint8ArrayCopy(s->js.ctx, bytes, n)};
    call_js(s, s->input, 2, argv);
}

static void on_input_end(abx_epp_request *r, void *data)
{
    js_session *s = data;
    const js_call *c = js_session_find(s, abx_epp_request_id(r));
    if (c && c->run) {
        js_run_input_end(c->run);
        return;
    }
    JSValue argv[] = {number(s, abx_epp_request_id(r))};
    call_js(s, s->input_end, 1, argv);
}

static void on_cancel(abx_epp_request *r, void *data)
{
    js_session *s = data;
    const js_call *c = js_session_find(s, abx_epp_request_id(r));
    if (c && c->run)
        js_run_cancel(c->run);
    JSValue argv[] = {number(s, abx_epp_request_id(r))};
    call_js(s, s->cancel, 1, argv);
}

static void on_resume(abx_epp_request *r, void *data)
{
    js_session *s = data;
    uint64_t id = abx_epp_request_id(r);
    js_call *c = js_session_find(s, id);
    if (!c)
        return;
    js_call_push(s, c);
    c = js_session_find(s, id);
    if (!c || js_call_waiting(c) > 0)
        return;
    if (c->run) {
        js_run_resume(c->run);
        return;
    }
    JSValue argv[] = {number(s, id)};
    call_js(s, s->resume, 1, argv);
}

static int on_initialize(yyjson_val *params, yyjson_mut_doc *d, yyjson_mut_val *features,
                         void *data, abx_error **err)
{
    js_session *s = data;
    (void)d;
    (void)features;
    if (s->greeted || s->loading)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "initialize came twice");
    s->loading = true;
    int64_t call_ms = abx_json_int(params, "callTimeoutMs", ABX_JS_RUN_MS);
    if (call_ms > 0 && (uint64_t)call_ms < s->js.run_ms)
        s->js.run_ms = (uint64_t)call_ms;
    s->call_run_ms = s->js.run_ms;
    if (s->js.run_ms > ABX_JS_LOAD_MS)
        s->js.run_ms = ABX_JS_LOAD_MS;
    abx_js_enter(&s->js);
    JSValue argv[] = {
        abx_js_from_json(s->js.ctx, params),
        abx_js_import(&s->js, abx_json_str(yyjson_doc_get_root(s->bundle->head), "entry", ""))};
    call_js(s, s->load, 2, argv);
    abx_js_leave(&s->js);
    return 1;
}

static void on_shutdown(void *data)
{
    (void)data; /* the host closes our input next */
}

const abx_epp_plugin_handlers js_session_handlers = {
    .write = js_session_write,
    .write_pieces = write_pieces,
    .initialize = on_initialize,
    .request = on_request,
    .input = on_input,
    .input_end = on_input_end,
    .cancel = on_cancel,
    .resume = on_resume,
    .shutdown = on_shutdown,
};

/* --- the loop ------------------------------------------------------------------------------------------ */

/* A module that waits for nothing that could happen will never be loaded. */
static void on_leave(abx_js *js, void *data)
{
    js_session *s = data;
    if (js->broken)
        return;
    if (s->loading && js->open == 0 && !JS_IsJobPending(js->rt))
        abx_js_break(js, "it waits for something that never happens while it is loaded");
}

static void on_rejection(abx_js *js, JSValueConst reason, void *data)
{
    js_session *s = data;
    JSValueConst argv[] = {reason, JS_TRUE};
    JSValue v = JS_Call(js->ctx, s->describe, JS_UNDEFINED, 2, argv);
    if (JS_IsException(v))
        abx_js_break_by_exception(js);
    JS_FreeValue(js->ctx, v);
}

static void give_buffer(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    js_session *s = h->data;
    (void)wanted;
    *buf = uv_buf_init((char *)s->read_buffer, READ_SIZE);
}

static void on_read(uv_stream_t *in, ssize_t n, const uv_buf_t *buf)
{
    js_session *s = in->data;
    ABX_AUTO_ERROR why = NULL;
    if (n == 0 || (n > 0 && abx_epp_plugin_feed(s->epp, buf->base, (size_t)n, &why) == 0))
        return;
    if (!ABX_JS_SANITIZED)
        _exit(0);
    s->over = true;
    uv_read_stop(in);
}

void js_session_serve(js_session *s)
{
    uv_loop_t *loop = s->js.loop;
    s->read_buffer =
        mmap(NULL, READ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ABX_CHECK(s->read_buffer != MAP_FAILED); /* not of the heap: most of it is never touched */
    ABX_CHECK(uv_pipe_init(loop, &s->in, 0) == 0);
    s->in.data = s;
    ABX_CHECK(uv_pipe_open(&s->in, 0) == 0);
    js_output_open(&s->out, loop, 1);
    ABX_CHECK(uv_read_start((uv_stream_t *)&s->in, give_buffer, on_read) == 0);
    while (!s->js.broken && !s->over)
        uv_run(loop, UV_RUN_ONCE);
    if (!s->over)
        js_session_die(s);
}

/* --- birth and end ------------------------------------------------------------------------------------- */

int js_session_open(js_session *s, uv_loop_t *loop, const abx_js_bundle *bundle, abx_error **err)
{
    memset(s, 0, sizeof *s);
    s->bundle = bundle;
    if (abx_js_open(&s->js, loop, bundle, abx_json_str(yyjson_doc_get_root(bundle->head), "id", ""),
                    err) < 0)
        return -1;
    JSContext *ctx = s->js.ctx;
    s->js.on_leave = on_leave;
    s->js.on_rejection = on_rejection;
    s->js.data = s;
    s->epp = abx_epp_plugin_new(&js_session_handlers, s, true, true);
    ABX_CHECK(uv_timer_init(loop, &s->timer) == 0 && uv_timer_init(loop, &s->quiet) == 0);
    s->timer.data = s->quiet.data = s;
    js_natives(s);
    if (abx_js_probe)
        abx_js_probe(ctx);
    JSValue core = abx_js_need(&s->js, "core");
    int rc = 0;
    if (JS_IsException(core)) {
        abx_js_break_by_exception(&s->js);
        rc = abx_fail(err, ABX_ERR_INTERNAL, "the runtime of modules does not start: %s",
                      s->js.broken);
    } else {
        s->load = JS_GetPropertyStr(ctx, core, "load");
        s->request = JS_GetPropertyStr(ctx, core, "request");
        s->input = JS_GetPropertyStr(ctx, core, "input");
        s->input_end = JS_GetPropertyStr(ctx, core, "inputEnd");
        s->cancel = JS_GetPropertyStr(ctx, core, "cancel");
        s->resume = JS_GetPropertyStr(ctx, core, "resume");
        s->describe = JS_GetPropertyStr(ctx, core, "report");
    }
    JS_FreeValue(ctx, core);
    return rc;
}

void js_session_close(js_session *s)
{
    uv_loop_t *loop = s->js.loop;
    JSValue *const mine[] = {&s->load,   &s->request, &s->input,   &s->input_end,
                             &s->cancel, &s->resume,  &s->describe};
    while (s->calls) {
        js_call *c = s->calls;
        s->calls = c->next;
        free_call(c);
    }
    for (size_t i = 0; i < ABX_COUNT(mine); i++) {
        JS_FreeValue(s->js.ctx, *mine[i]);
        *mine[i] = JS_UNDEFINED;
    }
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->quiet, NULL);
    if (s->in.loop)
        uv_close((uv_handle_t *)&s->in, NULL);
    js_output_close(&s->out);
    abx_js_close(&s->js);
    uv_run(loop, UV_RUN_DEFAULT);
    abx_js_free(&s->js);
    abx_epp_plugin_free(s->epp);
    if (s->read_buffer)
        munmap(s->read_buffer, READ_SIZE);
}
