/* Providers that are compiled in. Their ids are reserved. */
#ifndef ABX_ADAPTERS_BUILTIN_BUILTIN_H
#define ABX_ADAPTERS_BUILTIN_BUILTIN_H

#include "host/adapter.h"

extern const abx_adapter abx_adapter_local;            /* src/local over src/e2b */
extern const abx_adapter abx_adapter_alicloud_express; /* the default provider */

#endif
