#include "jshost/lazy.h"

#include <string.h>

#include "base/mem.h"
#include "js_compiled.h"

#define ABX_JS_PART(file, names)
#define ABX_JS_MADE(file, names) JSValue abx__js_make_##file(abx_js *js);
#define ABX_JS_NATIVES(name)     void abx__js_natives_##name(abx_js *js, JSValueConst internal);
#include "jshost/globals.def"

typedef struct part {
    const char *file, *names;
    JSValue (*make)(abx_js *js); /* or NULL: code */
    const uint8_t *code;
    size_t size;
} part;

static const part parts[] = {
#define ABX_JS_PART(file, names) {#file, names, NULL, abx_code_##file, sizeof(abx_code_##file)},
#define ABX_JS_MADE(file, names) {#file, names, abx__js_make_##file, NULL, 0},
#define ABX_JS_NATIVES(name)
#include "jshost/globals.def"
};
enum { PARTS = ABX_COUNT(parts), GLOBALS_MAX = 128, GLOBAL_MAX = 40 };

static void (*const natives[])(abx_js *js, JSValueConst internal) = {
#define ABX_JS_PART(file, names)
#define ABX_JS_MADE(file, names)
#define ABX_JS_NATIVES(name) abx__js_natives_##name,
#include "jshost/globals.def"
};

typedef struct lazy_name {
    char text[GLOBAL_MAX];
    unsigned part;
    JSValue getter; /* of its global as it was defined */
} lazy_name;

struct abx_js_lazy {
    JSValue made[PARTS]; /* JS_UNDEFINED: not loaded */
    bool loading[PARTS];
    lazy_name names[GLOBALS_MAX];
    unsigned count;
    bool has_natives, in_core;
};

/* --- loading ------------------------------------------------------------------------------------------- */

static JSValue run_part(abx_js *js, const part *p)
{
    if (p->make)
        return p->make(js);
    JSValue fn = abx_js_run_compiled(js, p->code, p->size);
    if (JS_IsException(fn))
        return fn;
    JSValueConst argv[] = {js->internal};
    JSValue v = JS_Call(js->ctx, fn, JS_UNDEFINED, 1, argv);
    JS_FreeValue(js->ctx, fn);
    return v;
}

/* The global becomes an ordinary property, unless the module has put something of its own there, took it away or froze everything. */
static int settle(abx_js *js, const lazy_name *n, JSValueConst made)
{
    JSContext *ctx = js->ctx;
    JSPropertyDescriptor d;
    JSAtom atom = JS_NewAtom(ctx, n->text);
    JSValue global = JS_GetGlobalObject(ctx), value = JS_GetProperty(ctx, made, atom);
    int there = JS_IsException(value) ? -1 : JS_GetOwnProperty(ctx, &d, global, atom);
    if (there > 0) {
        if ((d.flags & JS_PROP_GETSET) && JS_IsStrictEqual(ctx, d.getter, n->getter))
            there = JS_DefinePropertyValue(ctx, global, atom, JS_DupValue(ctx, value),
                                           JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
        JS_FreeValue(ctx, d.value);
        JS_FreeValue(ctx, d.getter);
        JS_FreeValue(ctx, d.setter);
    }
    JS_FreeValue(ctx, value);
    JS_FreeValue(ctx, global);
    JS_FreeAtom(ctx, atom);
    return there < 0 ? -1 : 0;
}

static JSValue load_part(abx_js *js, unsigned number)
{
    abx_js_lazy *l = js->lazy;
    const part *p = &parts[number];
    if (l->loading[number])
        return JS_ThrowInternalError(js->ctx, "'%s' needs itself", p->file);
    bool core = strcmp(p->file, "core") == 0; /* it and what it needs is in every session */
    l->in_core = l->in_core || core;
    if (!l->has_natives && !l->in_core) {
        l->has_natives = true;
        for (size_t i = 0; i < ABX_COUNT(natives); i++)
            natives[i](js, js->internal);
    }
    l->loading[number] = true;
    JSValue made = run_part(js, p);
    l->loading[number] = false;
    l->in_core = l->in_core && !core;
    if (JS_IsException(made))
        return made;
    l->made[number] = made;
    for (unsigned i = 0; i < l->count; i++)
        if (l->names[i].part == number && settle(js, &l->names[i], made) < 0)
            return JS_EXCEPTION;
    return JS_DupValue(js->ctx, made);
}

static JSValue need(abx_js *js, unsigned number)
{
    const JSValue made = js->lazy->made[number];
    return JS_IsUndefined(made) ? load_part(js, number) : JS_DupValue(js->ctx, made);
}

JSValue abx_js_need(abx_js *js, const char *name)
{
    for (unsigned i = 0; i < PARTS; i++)
        if (strcmp(parts[i].file, name) == 0)
            return need(js, i);
    return JS_ThrowInternalError(js->ctx, "there is no part '%.40s'", name);
}

JSValue abx_js_need_member(abx_js *js, const char *name, const char *member)
{
    JSValue made = abx_js_need(js, name);
    if (JS_IsException(made))
        return made;
    JSValue v = JS_GetPropertyStr(js->ctx, made, member);
    JS_FreeValue(js->ctx, made);
    return v;
}

/* --- the globals --------------------------------------------------------------------------------------- */

static JSValue get_global(JSContext *ctx, JSValueConst self, int magic)
{
    abx_js *js = abx_js_of(ctx);
    const lazy_name *n = &js->lazy->names[magic];
    (void)self;
    JSValue made = need(js, n->part);
    if (JS_IsException(made))
        return made;
    JSValue v = JS_GetPropertyStr(ctx, made, n->text);
    JS_FreeValue(ctx, made);
    return v;
}

/* Assigned before it was used: then it is what the module says. */
static JSValue set_global(JSContext *ctx, JSValueConst self, JSValueConst value, int magic)
{
    const lazy_name *n = &abx_js_of(ctx)->lazy->names[magic];
    JSValue target = JS_IsObject(self) ? JS_DupValue(ctx, self) : JS_GetGlobalObject(ctx);
    int rc = JS_DefinePropertyValueStr(ctx, target, n->text, JS_DupValue(ctx, value),
                                       JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE | JS_PROP_THROW);
    JS_FreeValue(ctx, target);
    return rc < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

static JSValue native_need(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const char *name = JS_ToCString(ctx, argv[0]);
    (void)self;
    (void)argc;
    JSValue v = name ? abx_js_need(abx_js_of(ctx), name) : JS_EXCEPTION;
    JS_FreeCString(ctx, name);
    return v;
}

static int define_name(abx_js *js, JSValueConst global, unsigned number, const char *text,
                       size_t len)
{
    JSContext *ctx = js->ctx;
    abx_js_lazy *l = js->lazy;
    const JSCFunctionType get = {.getter_magic = get_global}, set = {.setter_magic = set_global};
    ABX_CHECK(l->count < GLOBALS_MAX && len < GLOBAL_MAX);
    int magic = (int)l->count;
    lazy_name *n = &l->names[l->count++];
    memcpy(n->text, text, len);
    n->part = number;
    n->getter = JS_NewCFunction2(ctx, get.generic, n->text, 0, JS_CFUNC_getter_magic, magic);
    JSValue setter = JS_NewCFunction2(ctx, set.generic, n->text, 1, JS_CFUNC_setter_magic, magic);
    JSAtom atom = JS_NewAtom(ctx, n->text);
    int rc = JS_DefinePropertyGetSet(ctx, global, atom, JS_DupValue(ctx, n->getter), setter,
                                     JS_PROP_CONFIGURABLE);
    JS_FreeAtom(ctx, atom);
    return rc < 0 ? -1 : 0;
}

int abx__js_lazy_open(abx_js *js)
{
    js->lazy = ABX_NEW(abx_js_lazy);
    for (unsigned i = 0; i < PARTS; i++)
        js->lazy->made[i] = JS_UNDEFINED;
    js->internal = JS_NewObjectProto(js->ctx, JS_NULL);
    JSValue global = JS_GetGlobalObject(js->ctx);
    int rc = JS_SetPropertyStr(js->ctx, js->internal, "need",
                               JS_NewCFunction(js->ctx, native_need, "need", 1));
    for (unsigned i = 0; i < PARTS && rc >= 0; i++)
        for (const char *at = parts[i].names; *at && rc >= 0;) {
            size_t len = strcspn(at, " ");
            rc = define_name(js, global, i, at, len);
            at += len + (at[len] != 0);
        }
    JS_FreeValue(js->ctx, global);
    return rc < 0 ? -1 : 0;
}

void abx__js_lazy_close(abx_js *js)
{
    abx_js_lazy *l = js->lazy;
    if (!l)
        return;
    for (unsigned i = 0; i < PARTS; i++)
        JS_FreeValue(js->ctx, l->made[i]);
    for (unsigned i = 0; i < l->count; i++)
        JS_FreeValue(js->ctx, l->names[i].getter);
    JS_FreeValue(js->ctx, js->internal);
    free(l);
    js->lazy = NULL;
}
