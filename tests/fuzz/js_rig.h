/* A session of a module that has all of the runtime's insides, for fuzz targets and unit tests: the driver, JavaScript, finds its input in `bytes` and
 * what only the runtime's own JavaScript is given in `internal`. */
#ifndef ABX_FUZZ_JS_RIG_H
#define ABX_FUZZ_JS_RIG_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/session.h"

static inline void make_bundle(abx_buf *out, const char *driver)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", "fuzz");
    abx_mut_str(d, root, "entry", "m.mjs");
    abx_mut_obj(d, root, "features");
    ABX_CHECK(abx_js_bundle_begin(out, root) == 0);
    ABX_CHECK(abx_js_bundle_add(out, "m.mjs", driver, strlen(driver)) == 0);
}

typedef struct js_rig {
    js_session session; /* first */
    abx_js_bundle bundle;
    abx_buf text; /* of the bundle */
} js_rig;

/* Its first turn is done: queued work may be left. */
static inline void js_rig_open(js_rig *r, uv_loop_t *loop, const char *driver, const uint8_t *data,
                               size_t size)
{
    ABX_AUTO_ERROR err = NULL;
    abx_js *js = &r->session.js;
    memset(r, 0, sizeof *r);
    abx_buf_init(&r->text, ABX_JS_BUNDLE_MAX);
    make_bundle(&r->text, driver);
    ABX_CHECK(abx_js_bundle_read(&r->bundle, r->text.data, r->text.len, &err) == 0);
    ABX_CHECK(js_session_open(&r->session, loop, &r->bundle, &err) == 0);
    js->run_ms = 2000;
    js_output_open(&r->session.out, loop, open("/dev/null", O_WRONLY | O_CLOEXEC));

    abx_js_enter(js);
    JSValue global = JS_GetGlobalObject(js->ctx);
    JS_SetPropertyStr(js->ctx, global, "internal", JS_DupValue(js->ctx, js->internal));
    JS_SetPropertyStr(js->ctx, global, "bytes", JS_NewUint8ArrayCopy(js->ctx, data, size));
    JS_FreeValue(js->ctx, global);
    JS_FreeValue(js->ctx, abx_js_import(js, "m.mjs"));
    abx_js_leave(js);
}

static inline void js_rig_close(js_rig *r)
{
    js_session_close(&r->session);
    abx_js_bundle_clear(&r->bundle);
    abx_buf_clear(&r->text);
}

static inline int js_rig_run(const char *driver, const uint8_t *data, size_t size)
{
    static uv_loop_t loop;
    static bool begun;
    static js_rig rig;
    if (!begun)
        ABX_CHECK(uv_loop_init(&loop) == 0);
    begun = true;
    js_rig_open(&rig, &loop, driver, data, size);
    for (int i = 0; i < 3 && !rig.session.js.broken; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    js_rig_close(&rig);
    return 0;
}

#endif
