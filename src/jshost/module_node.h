/* The modules of Node.js that there are: node:buffer, node:crypto, node:process, node:url, node:util. Threads: the loop's. */
#ifndef ABX_JSHOST_MODULE_NODE_H
#define ABX_JSHOST_MODULE_NODE_H

#include "jshost/js.h"

/* specifier, with "node:" or without: the module's name ("node:url"), or NULL: there is none. */
const char *abx__js_node_name(const char *specifier);
/* The module of that name, its exports declared; its part is loaded. NULL with an exception pending. */
JSModuleDef *abx__js_node_module(JSContext *ctx, const char *name);

#endif
