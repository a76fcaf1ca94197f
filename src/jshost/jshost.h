/* The process of one JavaScript module: EPP/1 on its standard input and output, its files from descriptor 3 (jshost/bundle.h). It is
 * started by adapters/node as this same program with a hidden word. Before the first line of the module runs it has no file, no
 * environment and no rights but to talk to the network (jshost/lock.h). */
#ifndef ABX_JSHOST_JSHOST_H
#define ABX_JSHOST_JSHOST_H

#define ABX_JS_HOST_WORD "__js-host"

/* Its exit code. */
int abx_js_host_main(void);

#endif
