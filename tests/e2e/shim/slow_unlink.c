/* Preloaded into a program: each name that it removes takes SLOW_UNLINK microseconds more. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

int unlinkat(int dir, const char *name, int flags)
{
    const char *us = getenv("SLOW_UNLINK");
    if (us)
        (void)usleep((useconds_t)strtoul(us, NULL, 10));
    return (int)syscall(SYS_unlinkat, dir, name, flags);
}
