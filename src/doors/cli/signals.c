#include "doors/cli/signals.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

int abx_signal_number(const char *name)
{
    uint64_t number;
    if (abx_parse_uint(name, 64, &number) == 0)
        return number > 0 ? (int)number : -1;
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcasecmp(known, name) == 0)
            return i;
    }
    int offset;
    if (sscanf(name, "RTMIN+%d", &offset) == 1 && offset >= 0 && offset <= 30)
        return 34 + offset; /* as the kernel counts for programs of glibc and musl */
    return -1;
}

const char *abx_signal_name(int number)
{
    return number > 0 && number < NSIG ? sigabbrev_np(number) : NULL;
}
