#include "jshost/heap.h"

#include <malloc.h>
#include <stdlib.h>

static bool fits(const abx_js *js, size_t more)
{
    size_t most = ABX_JS_HEAP_MAX + (js->starved ? ABX_JS_HEAP_LAST : 0) +
                  (js->broken ? ABX_JS_HEAP_LAST : 0);
    return more <= most && js->heap + js->host_bytes <= most - more;
}

static void *refuse(abx_js *js, size_t size)
{
    if (size > ABX_JS_HEAP_SMALL)
        return NULL;
    if (js->starved)
        abx_js_break(js, ABX_JS_NO_MEMORY);
    js->starved = true;
    return NULL;
}

static void *count(abx_js *js, void *p, size_t size)
{
    if (!p)
        return refuse(js, size);
    js->heap += malloc_usable_size(p);
    return p;
}

static void *on_malloc(void *opaque, size_t size)
{
    abx_js *js = opaque;
    return fits(js, size) ? count(js, malloc(size), size) : refuse(js, size);
}

static void *on_calloc(void *opaque, size_t n, size_t size)
{
    abx_js *js = opaque;
    size_t all;
    if (__builtin_mul_overflow(n, size, &all))
        return NULL;
    return fits(js, all) ? count(js, calloc(n, size), all) : refuse(js, all);
}

static void on_free(void *opaque, void *p)
{
    abx_js *js = opaque;
    js->heap -= malloc_usable_size(p);
    free(p);
}

static void *on_realloc(void *opaque, void *p, size_t size)
{
    abx_js *js = opaque;
    if (!p)
        return on_malloc(opaque, size);
    size_t old = malloc_usable_size(p);
    if (size > old && !fits(js, size - old))
        return refuse(js, size);
    void *now = realloc(p, size);
    if (!now)
        return refuse(js, size);
    js->heap = js->heap - old + malloc_usable_size(now);
    return now;
}

static size_t on_size(const void *p)
{
    return malloc_usable_size((void *)(uintptr_t)p);
}

JSRuntime *abx__js_heap_runtime(abx_js *js)
{
    static const JSMallocFunctions functions = {on_calloc, on_malloc, on_free, on_realloc, on_size};
    return JS_NewRuntime2(&functions, js);
}

bool abx__js_heap_room(abx_js *js, size_t n)
{
    if (!fits(js, n))
        JS_RunGC(js->rt);
    return fits(js, n);
}

bool abx__js_heap_is_full(abx_js *js)
{
    if (!js->starved)
        return false;
    JS_RunGC(js->rt);
    js->starved = js->heap + js->host_bytes > ABX_JS_HEAP_MAX - ABX_JS_HEAP_MAX / 16;
    return js->starved;
}
