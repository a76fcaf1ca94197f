/* The library hands the one list of adapters to its hosts, as main does in the program. */
#include "adapters/registry.h"
#include "doors/capi/inner.h"

const abx_adapter *const *capi_adapters(void)
{
    return abx_adapters;
}
