/* Providers of kind node: a JavaScript module, run by this program in a process of its own (src/jshost). */
#ifndef ABX_ADAPTERS_NODE_NODE_H
#define ABX_ADAPTERS_NODE_NODE_H

#include "host/adapter.h"

extern const abx_adapter abx_adapter_node;

#endif
