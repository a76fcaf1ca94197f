/* The memory of the engine: what it has, with the buffers that the host made for it, is limited. The first small request that is refused
 * means that the heap is full: from then on a reserve is given, so that an error can be made and caught; when that is used up too, the
 * runtime is broken. Threads: the loop's. */
#ifndef ABX_JSHOST_HEAP_H
#define ABX_JSHOST_HEAP_H

#include "jshost/js.h"

#define ABX_JS_HEAP_MAX  ((size_t)256 << 20) /* bytes, with those of host buffers */
#define ABX_JS_HEAP_LAST ((size_t)1 << 20)   /* the reserve */
#define ABX_JS_HEAP_SMALL                                                                          \
    ((size_t)64 << 10) /* a request that is over the limit but larger than this fails alone */

/* A runtime whose memory is counted in js; or NULL. */
JSRuntime *abx__js_heap_runtime(abx_js *js);
/* Room for n more bytes of a buffer of the host? Collects garbage when it is short. */
bool abx__js_heap_room(abx_js *js, size_t n);
/* After the code has ended: was the heap full and is it still? */
bool abx__js_heap_is_full(abx_js *js);

#endif
