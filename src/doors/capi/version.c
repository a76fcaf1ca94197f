#include <abx/abx.h>

#include "abx_build.h"

const char *abx_version(void)
{
    return ABX_VERSION;
}
