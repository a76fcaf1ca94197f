/* A session of a module that has all of the runtime's insides, for fuzz targets: the driver, JavaScript, finds its input in `bytes` and
 * what only the runtime's own JavaScript is given in `internal`. */
#ifndef ABX_FUZZ_JS_RIG_H
#define ABX_FUZZ_JS_RIG_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/session.h"

static void make_bundle(abx_buf *out, const char *driver)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", "fuzz");
    abx_mut_str(d, root, "entry", "m.mjs");
    abx_mut_obj(d, root, "features");
    ABX_CHECK(abx_js_bundle_begin(out, root) == 0);
    ABX_CHECK(abx_js_bundle_add(out, "m.mjs", driver, strlen(driver)) == 0);
}

static void free_session(js_session *s, uv_loop_t *loop)
{
    JSContext *ctx = s->js.ctx;
    const JSValue mine[] = {s->load,   s->request, s->input,   s->input_end,
                            s->cancel, s->resume,  s->describe};
    for (size_t i = 0; i < ABX_COUNT(mine); i++)
        JS_FreeValue(ctx, mine[i]);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->quiet, NULL);
    uv_close((uv_handle_t *)&s->out.pipe, NULL);
    uv_close((uv_handle_t *)&s->out.idle, NULL);
    abx_js_close(&s->js);
    for (int i = 0; i < 100 && uv_run(loop, UV_RUN_NOWAIT); i++)
        ;
    abx_epp_plugin_free(s->epp);
}

static int js_rig_run(const char *driver, const uint8_t *data, size_t size)
{
    static uv_loop_t loop;
    static bool begun;
    static js_session s;
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF bytes = ABX_BUF(ABX_JS_BUNDLE_MAX);
    abx_js_bundle bundle = {0};
    if (!begun)
        ABX_CHECK(uv_loop_init(&loop) == 0);
    begun = true;
    make_bundle(&bytes, driver);
    ABX_CHECK(abx_js_bundle_read(&bundle, bytes.data, bytes.len, &err) == 0);
    ABX_CHECK(js_session_open(&s, &loop, &bundle, &err) == 0);
    s.js.run_ms = 2000;
    js_output_open(&s.out, &loop, open("/dev/null", O_WRONLY | O_CLOEXEC));

    abx_js_enter(&s.js);
    JSContext *ctx = s.js.ctx;
    JSValue global = JS_GetGlobalObject(ctx);
    JS_SetPropertyStr(ctx, global, "internal", JS_DupValue(ctx, s.js.internal));
    JS_SetPropertyStr(ctx, global, "bytes", JS_NewUint8ArrayCopy(ctx, data, size));
    JS_FreeValue(ctx, global);
    JS_FreeValue(ctx, abx_js_import(&s.js, "m.mjs"));
    abx_js_leave(&s.js);
    for (int i = 0; i < 3 && !s.js.broken; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    free_session(&s, &loop);
    abx_js_bundle_clear(&bundle);
    return 0;
}

#endif
