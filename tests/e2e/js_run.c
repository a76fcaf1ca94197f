/* Runs scripts in the runtime of modules, without a host: js_run FILE …. Each is a script of its own in one global scope (with eval and
 * `print` and `quit`, which modules do not have); queued work runs
 * after the last one. Ends when nothing is open any more. Exit code 1: a script threw. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "jshost/session.h"

static JSValue print(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    for (int i = 0; i < argc; i++) {
        const char *text = JS_ToCString(ctx, argv[i]);
        if (!text)
            return JS_EXCEPTION;
        printf("%s%s", i ? " " : "", text);
        JS_FreeCString(ctx, text);
    }
    printf("\n");
    fflush(stdout);
    return JS_UNDEFINED;
}

static bool over;

static JSValue quit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)ctx;
    (void)self;
    (void)argc;
    (void)argv;
    over = true;
    return JS_UNDEFINED;
}

static void on_rejection(abx_js *js, JSValueConst reason, void *data)
{
    const char *text = JS_ToCString(js->ctx, reason);
    (void)data;
    fprintf(stderr, "nobody handles: %s\n", text ? text : "?");
    JS_FreeCString(js->ctx, text);
}

static void show_exception(JSContext *ctx, const char *path)
{
    JSValue e = JS_GetException(ctx), stack = JS_GetPropertyStr(ctx, e, "stack");
    const char *text = JS_ToCString(ctx, e), *where = JS_ToCString(ctx, stack);
    fprintf(stderr, "%s: %s\n%s\n", path, text ? text : "?", where ? where : "");
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, where);
    JS_FreeValue(ctx, stack);
    JS_FreeValue(ctx, e);
}

static int run_file(abx_js *js, const char *path)
{
    ABX_AUTO_BUF text = ABX_BUF((size_t)64 << 20);
    ABX_AUTO_ERROR err = NULL;
    if (abx_read_file(path, (size_t)64 << 20, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err->message);
        return -1;
    }
    if (abx_buf_add(&text, "", 1) < 0)
        return -1;
    JSValue v = JS_Eval(js->ctx, (char *)text.data, text.len - 1, path, JS_EVAL_TYPE_GLOBAL);
    int rc = JS_IsException(v) ? -1 : 0;
    if (rc < 0)
        show_exception(js->ctx, path);
    JS_FreeValue(js->ctx, v);
    return rc;
}

static void add(JSContext *ctx, JSValueConst where, const char *name, JSCFunction *fn)
{
    JS_DefinePropertyValueStr(ctx, where, name, JS_NewCFunction(ctx, fn, name, 2), JS_PROP_C_W_E);
}

int main(int argc, char **argv)
{
    static js_session session;
    static abx_js_bundle bundle;
    static uv_loop_t loop;
    ABX_AUTO_ERROR err = NULL;
    abx_js *js = &session.js;
    int rc = 0;
    bundle.head = abx_json_copy(NULL);
    if (uv_loop_init(&loop) < 0 || js_session_open(&session, &loop, &bundle, &err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 1;
    }
    js->run_ms = 60000;
    js->on_leave = NULL;
    js->on_rejection = on_rejection;
    JSValue global = JS_GetGlobalObject(js->ctx);
    if (JS_AddIntrinsicEval(js->ctx) < 0)
        return 1;
    add(js->ctx, global, "print", print);
    add(js->ctx, global, "quit", quit);
    add(js->ctx, js->internal, "log", print);
    if (getenv("JS_RUN_INTERNAL"))
        JS_SetPropertyStr(js->ctx, global, "internal", JS_DupValue(js->ctx, js->internal));
    JS_FreeValue(js->ctx, global);
    abx_js_enter(js);
    for (int i = 1; i < argc && rc == 0; i++)
        rc = run_file(js, argv[i]);
    abx_js_leave(js);
    while (rc == 0 && !over && !js->broken && (js->open > 0 || JS_IsJobPending(js->rt)))
        uv_run(&loop, UV_RUN_ONCE);
    if (js->broken)
        fprintf(stderr, "broken: %s\n", js->broken);
    return rc < 0 || js->broken ? 1 : 0;
}
