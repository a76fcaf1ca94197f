#include "adapters/registry.h"

#include "adapters/builtin/builtin.h"

const abx_adapter *const abx_adapters[] = {&abx_adapter_local, &abx_adapter_alicloud_express, NULL};
