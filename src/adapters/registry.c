#include "adapters/registry.h"

#include "adapters/builtin/builtin.h"
#include "adapters/exec/exec.h"
#include "adapters/node/node.h"
#include "adapters/rest/rest.h"

const abx_adapter *const abx_adapters[] = {&abx_adapter_local, &abx_adapter_alicloud_express,
                                           &abx_adapter_exec,  &abx_adapter_rest,
                                           &abx_adapter_node,  NULL};
