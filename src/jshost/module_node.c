/* The modules of Node.js that are small: node:NAME is the part node_NAME (js/), each member of its `exports` an export, and all of them the
 * default one. */
#include <string.h>

#include "base/mem.h"
#include "jshost/lazy.h"
#include "jshost/module_node.h"

static const char *const names[] = {"buffer", "crypto", "process", "url", "util"};

const char *abx__js_node_name(const char *specifier)
{
    static const char *const whole[] = {"node:buffer", "node:crypto", "node:process", "node:url",
                                        "node:util"};
    const char *name = strncmp(specifier, "node:", 5) == 0 ? specifier + 5 : specifier;
    for (size_t i = 0; i < ABX_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return whole[i];
    return NULL;
}

static JSValue exports_of(JSContext *ctx, const char *name)
{
    ABX_AUTO_FREE char *part = abx_format("node_%s", name + strlen("node:"));
    return abx_js_need_member(abx_js_of(ctx), part, "exports");
}

/* The names of its exports; freed by JS_FreePropertyEnum. Their count, or -1 with an exception pending. */
static int64_t list(JSContext *ctx, JSValueConst exports, JSPropertyEnum **out)
{
    uint32_t n = 0;
    if (JS_GetOwnPropertyNames(ctx, out, &n, exports, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0)
        return -1;
    return n;
}

static int init(JSContext *ctx, JSModuleDef *m)
{
    JSAtom atom = JS_GetModuleName(ctx, m);
    const char *name = JS_AtomToCString(ctx, atom);
    JSPropertyEnum *keys = NULL;
    JSValue exports = name ? exports_of(ctx, name) : JS_EXCEPTION;
    int64_t n = JS_IsException(exports) ? -1 : list(ctx, exports, &keys);
    int rc = n < 0 ? -1 : JS_SetModuleExport(ctx, m, "default", JS_DupValue(ctx, exports));
    for (int64_t i = 0; i < n && rc == 0; i++) {
        const char *key = JS_AtomToCString(ctx, keys[i].atom);
        JSValue v = key ? JS_GetProperty(ctx, exports, keys[i].atom) : JS_EXCEPTION;
        rc = JS_IsException(v) ? -1 : JS_SetModuleExport(ctx, m, key, v);
        JS_FreeCString(ctx, key);
    }
    if (n >= 0)
        JS_FreePropertyEnum(ctx, keys, (uint32_t)n);
    JS_FreeValue(ctx, exports);
    JS_FreeCString(ctx, name);
    JS_FreeAtom(ctx, atom);
    return rc;
}

JSModuleDef *abx__js_node_module(JSContext *ctx, const char *name)
{
    JSPropertyEnum *keys = NULL;
    JSValue exports = exports_of(ctx, name);
    int64_t n = JS_IsException(exports) ? -1 : list(ctx, exports, &keys);
    JSModuleDef *m = n < 0 ? NULL : JS_NewCModule(ctx, name, init);
    bool good = m && JS_AddModuleExport(ctx, m, "default") == 0;
    for (int64_t i = 0; i < n && good; i++) {
        const char *key = JS_AtomToCString(ctx, keys[i].atom);
        good = key && JS_AddModuleExport(ctx, m, key) == 0;
        JS_FreeCString(ctx, key);
    }
    if (n >= 0)
        JS_FreePropertyEnum(ctx, keys, (uint32_t)n);
    JS_FreeValue(ctx, exports);
    return good ? m : NULL;
}
