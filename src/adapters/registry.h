/* All adapters of this program, NULL at the end: what main hands to the host. */
#ifndef ABX_ADAPTERS_REGISTRY_H
#define ABX_ADAPTERS_REGISTRY_H

#include "host/adapter.h"

extern const abx_adapter *const abx_adapters[];

#endif
