/* Modules come from the bundle, by names that stay inside of it. They are compiled in a context of their own, since the one that runs
 * them has no compiler (so no eval). */
#include <string.h>

#include "base/mem.h"
#include "jshost/js.h"
#include "jshost/module_node.h"

/* --- names --------------------------------------------------------------------------------------------- */

static char *throw_import(JSContext *ctx, const char *base, const char *name, const char *why)
{
    ABX_AUTO_FREE char *text = abx_format("cannot import '%.100s' in %.100s: %s", name, base, why);
    JS_ThrowTypeError(ctx, "%s", text);
    return NULL;
}

/* The path of `name` beside `base` (both without the provider's id), without "." and "..": owned, or NULL when it leaves. */
static char *resolve(const char *base, const char *name)
{
    const char *slash = strrchr(base, '/');
    ABX_AUTO_FREE char *whole = abx_format("%.*s/%s", slash ? (int)(slash - base) : 0, base, name);
    char *out = abx_alloc(strlen(whole) + 2);
    size_t len = 0;
    char *rest = whole;
    for (char *part; (part = strsep(&rest, "/"));) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") != 0) {
            size_t n = strlen(part);
            if (len)
                out[len++] = '/';
            memcpy(out + len, part, n + 1);
            len += n;
            continue;
        }
        if (len == 0) {
            free(out);
            return NULL;
        }
        while (len > 0 && out[len - 1] != '/')
            len--;
        if (len > 0)
            len--;
        out[len] = 0;
    }
    return out;
}

static char *normalize(JSContext *ctx, const char *base, const char *name, void *opaque)
{
    abx_js *js = opaque;
    size_t id = strlen(js->id);
    if (strncmp(base, js->id, id) != 0 || base[id] != '/') /* we ask for the entry */
        return js_strdup(ctx, name);
    const char *node = abx__js_node_name(name);
    if (node)
        return js_strdup(ctx, node);
    if (strncmp(name, "./", 2) != 0 && strncmp(name, "../", 3) != 0)
        return throw_import(ctx, base, name,
                            "a module may import files of its own folder, by './' or '../', and "
                            "node:buffer, crypto, process, url and util");
    ABX_AUTO_FREE char *path = resolve(base + id + 1, name);
    if (!path)
        return throw_import(ctx, base, name, "it leaves the folder of the provider");
    if (!abx_js_bundle_find(js->bundle, path))
        return throw_import(ctx, base, name, "there is no such file among its modules");
    ABX_AUTO_FREE char *full = abx_format("%s/%s", js->id, path);
    return js_strdup(ctx, full);
}

/* --- compiling ----------------------------------------------------------------------------------------- */

static int init_nothing(JSContext *ctx, JSModuleDef *m)
{
    (void)ctx;
    (void)m;
    return 0;
}

static JSContext *compiler(abx_js *js)
{
    JSContext *side = JS_NewContextRaw(js->rt);
    if (!side)
        return NULL;
    if (JS_AddIntrinsicBaseObjects(side) == 0 && JS_AddIntrinsicEval(side) == 0) {
        JS_AddIntrinsicRegExpCompiler(side);
        return side;
    }
    JS_FreeContext(side);
    return NULL;
}

/* The text as bytecode, freed by js_free; NULL with an exception pending in ctx. */
static uint8_t *compile(JSContext *ctx, abx_js *js, const char *name, const abx_js_file *f,
                        size_t *n)
{
    JSContext *side = js->side ? js->side : compiler(js);
    uint8_t *code = NULL;
    if (!side) {
        JS_ThrowOutOfMemory(ctx);
        return NULL;
    }
    JSValue v =
        JS_Eval(side, f->text, f->len, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    if (!JS_IsException(v))
        code = JS_WriteObject(side, n, v, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    JS_FreeValue(side, v);
    if (!code)
        JS_Throw(ctx, JS_GetException(side));
    if (side != js->side)
        JS_FreeContext(side);
    return code;
}

static JSModuleDef *load(JSContext *ctx, const char *name, void *opaque, JSValueConst attributes)
{
    abx_js *js = opaque;
    size_t n;
    (void)attributes;
    if (ctx != js->ctx) /* while compiling nothing is resolved yet */
        return JS_NewCModule(ctx, name, init_nothing);
    if (abx__js_node_name(name))
        return abx__js_node_module(ctx, name);
    const abx_js_file *f = abx_js_bundle_find(js->bundle, name + strlen(js->id) + 1);
    if (!f) {
        throw_import(ctx, js->id, name, "there is no such file among its modules");
        return NULL;
    }
    uint8_t *code = compile(ctx, js, name, f, &n);
    if (!code)
        return NULL;
    JSValue v = JS_ReadObject(ctx, code, n, JS_READ_OBJ_BYTECODE);
    js_free(ctx, code);
    if (JS_IsException(v))
        return NULL;
    JSModuleDef *m = JS_VALUE_GET_PTR(v);
    JSValue meta = JS_GetImportMeta(ctx, m);
    ABX_AUTO_FREE char *url = abx_format("abx:%s", name);
    JS_DefinePropertyValueStr(ctx, meta, "url", JS_NewString(ctx, url), JS_PROP_C_W_E);
    JS_FreeValue(ctx, meta);
    JS_FreeValue(ctx, v); /* the context keeps it */
    return m;
}

static int check_attributes(JSContext *ctx, void *opaque, JSValueConst attributes)
{
    JSPropertyEnum *names = NULL;
    uint32_t n = 0;
    (void)opaque;
    if (JS_IsUndefined(attributes) ||
        JS_GetOwnPropertyNames(ctx, &names, &n, attributes, JS_GPN_STRING_MASK) < 0)
        return 0;
    JS_FreePropertyEnum(ctx, names, n);
    if (n == 0)
        return 0;
    JS_ThrowTypeError(ctx, "an import takes no attributes here");
    return -1;
}

void abx__js_modules_init(abx_js *js)
{
    JS_SetModuleLoaderFunc2(js->rt, normalize, load, check_attributes, js);
}

/* What it imports statically is compiled by one compiler: to make one takes longer than to compile a small file. */
JSValue abx_js_import(abx_js *js, const char *path)
{
    ABX_AUTO_FREE char *name = abx_format("%s/%s", js->id, path);
    js->side = compiler(js);
    JSValue v = JS_LoadModule(js->ctx, "", name);
    if (js->side)
        JS_FreeContext(js->side);
    js->side = NULL;
    return v;
}
