/* What a module can call, called at random: every C function that the runtime's own JavaScript is given, every global and every method of
 * what they return, with arguments of all types: views over buffers that shrink while they are read, getters and valueOf that throw,
 * detach or call again, proxies. Nothing may be read or written out of bounds, and no reference may be lost or freed twice. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/session.h"

static const char driver[] =
    "const bytes = globalThis.bytes, internal = globalThis.internal;\n"
    "delete globalThis.bytes; delete globalThis.internal;\n"
    "let at = 0;\n"
    "const byte = () => at < bytes.length ? bytes[at++] : 0;\n"
    "const pick = (n) => n > 0 ? (n > 255 ? byte() * 256 + byte() : byte()) % n : 0;\n"
    "const shared = new ArrayBuffer(64, { maxByteLength: 4096 });\n"
    "const shrink = () => { try { shared.resize(byte()); } catch {} };\n"
    "const make = [\n"
    "  () => undefined, () => null, () => true, () => byte(), () => -1, () => NaN, () => 2 ** 40, "
    "() => 10n, () => Symbol.iterator,\n"
    "  () => '', () => 'a', () => '\\ud800x', () => 'x'.repeat(1000), () => "
    "'http://127.0.0.1:1/?a=b', () => 'utf-8', () => 'SHA-256', () => 'stdout',\n"
    "  () => String.fromCharCode(byte(), byte() * 256 + byte()), () => new Uint8Array(byte()), () "
    "=> new ArrayBuffer(byte()),\n"
    "  () => new Uint8Array(shared), () => new DataView(shared, byte() % 64), () => new "
    "Uint16Array(shared, (byte() % 32) * 2), () => shared,\n"
    "  () => { const a = new Uint8Array(16); a.buffer.transfer(); return a; }, () => new "
    "Uint8Array(new ArrayBuffer(8).transferToImmutable()),\n"
    "  () => new Float64Array(3), () => [1, 'a', {}], () => ({}), () => ({ a: 1, b: [2], code: "
    "'E1001', message: 'm' }), () => [['a', 'b'], ['c']],\n"
    "  () => new Map([[1, 2]]), () => new Set([1]), () => new Error('e'), () => new Date(0), () => "
    "/x/g, () => (...a) => a[0], () => Promise.resolve(1),\n"
    "  () => Promise.reject(2), () => async function* () { yield new Uint8Array(3); }(), () => ({ "
    "get x() { throw 1; }, toString() { throw 2; } }),\n"
    "  () => ({ valueOf() { shrink(); return byte(); } }), () => ({ toString() { shrink(); return "
    "'utf-8'; } }),\n"
    "  () => ({ get then() { shrink(); return undefined; }, length: 2 ** 31, 0: 1 }), () => ({ "
    "[Symbol.iterator]() { return { next: shrink }; } }),\n"
    "  () => new Proxy({}, { get(t, k) { shrink(); return k === Symbol.toPrimitive ? undefined : "
    "byte(); } }),\n"
    "  () => new Proxy(function () {}, { apply() { throw 3; } }), () => [0, 0, 0, 0, 0], () => [1, "
    "255, 255, 0, 255], () => kept[pick(kept.length)],\n"
    "];\n"
    "const kept = [internal, globalThis];\n"
    "const value = () => make[pick(make.length)]();\n"
    "function names(o) {\n"
    "  const all = [];\n"
    "  for (let p = o, n = 0; p !== null && n < 5; p = Object.getPrototypeOf(p), n++) "
    "all.push(...Reflect.ownKeys(p));\n"
    "  return all;\n"
    "}\n"
    "const refused = new Set(['need', 'wake', 'sleep']);\n"
    "for (let n = 0; n < 60 && at < bytes.length; n++) {\n"
    "  try {\n"
    "    const o = pick(3) ? kept[pick(2)] : kept[pick(kept.length)];\n"
    "    const list = names(o), name = list[pick(list.length)];\n"
    "    const f = refused.has(name) ? undefined : o[name];\n"
    "    let r = f;\n"
    "    if (typeof f === 'function') {\n"
    "      const args = Array.from({ length: pick(5) }, value);\n"
    "      r = pick(4) === 0 ? new f(...args) : Reflect.apply(f, pick(5) ? o : value(), args);\n"
    "    }\n"
    "    if (r instanceof Promise) r.catch(() => {});\n"
    "    if ((typeof r === 'object' && r !== null) || typeof r === 'function') kept.length < 40 ? "
    "kept.push(r) : kept[2 + pick(38)] = r;\n"
    "  } catch {}\n"
    "}\n";

static void make_bundle(abx_buf *out)
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
    uv_close((uv_handle_t *)&s->out, NULL);
    abx_js_close(&s->js);
    for (int i = 0; i < 100 && uv_run(loop, UV_RUN_NOWAIT); i++)
        ;
    abx_epp_plugin_free(s->epp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
    make_bundle(&bytes);
    ABX_CHECK(abx_js_bundle_read(&bundle, bytes.data, bytes.len, &err) == 0);
    ABX_CHECK(js_session_open(&s, &loop, &bundle, &err) == 0);
    s.js.run_ms = 2000;
    ABX_CHECK(uv_pipe_init(&loop, &s.out, 0) == 0);
    ABX_CHECK(uv_pipe_open(&s.out, open("/dev/null", O_WRONLY | O_CLOEXEC)) == 0);

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
