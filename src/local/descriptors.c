#include "local/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void close_between(unsigned first, unsigned last)
{
    if (first <= last)
        syscall(SYS_close_range, first, last, 0u);
}

static int make_null(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -1;
    for (int fd = 0; fd < 3; fd++)
        if (null != fd ? dup2(null, fd) < 0 : fcntl(fd, F_SETFD, 0) < 0)
            return -1;
    return 0;
}

int abx_keep_only(int *const *kept, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (*kept[i] < 0 || *kept[i] >= 3)
            continue;
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, 3);
        if (*kept[i] < 0)
            return -1;
    }
    if (make_null() < 0)
        return -1;
    unsigned next = 3;
    for (;;) { /* the gaps between them, smallest first */
        int least = -1;
        for (size_t i = 0; i < n; i++)
            if (*kept[i] >= (int)next && (least < 0 || *kept[i] < least))
                least = *kept[i];
        if (least < 0)
            break;
        close_between(next, (unsigned)least - 1);
        next = (unsigned)least + 1;
    }
    close_between(next, ~0u);
    return 0;
}
