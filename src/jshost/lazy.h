/* The runtime's parts (globals.def): globals that are made when one of them is first touched. Threads: the loop's. */
#ifndef ABX_JSHOST_LAZY_H
#define ABX_JSHOST_LAZY_H

#include "jshost/js.h"

typedef struct abx_js_lazy abx_js_lazy;

/* Define the globals, none of them loaded. 0, or -1: out of memory. */
int abx__js_lazy_open(abx_js *js);
void abx__js_lazy_close(abx_js *js);

/* What a part returned, loaded first if need be; or an exception: a part that could not be loaded (no memory, no stack) is tried again
 * when it is next used. Never by the name of a global, which the module may have replaced. */
JSValue abx_js_need(abx_js *js, const char *part);
/* A member of it: abx_js_need_member(js, "url", "URL"). */
JSValue abx_js_need_member(abx_js *js, const char *part, const char *name);

#endif
