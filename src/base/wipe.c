#include "base/wipe.h"

bool abx__wipes_freed;

void abx_wipe_freed(void)
{
    abx__wipes_freed = true;
}
