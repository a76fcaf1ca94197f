#include "doors/cli/fd_kind.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

abx_fd_kind abx_fd_kind_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return ABX_FD_CLOSED;
    if (S_ISREG(st.st_mode))
        return ABX_FD_FILE;
    if (S_ISFIFO(st.st_mode))
        return ABX_FD_PIPE;
    if (S_ISSOCK(st.st_mode))
        return ABX_FD_SOCKET;
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        return ABX_FD_NULL;
    if (S_ISCHR(st.st_mode) && isatty(fd))
        return ABX_FD_TTY;
    return ABX_FD_OTHER;
}

const char *abx_fd_kind_name(abx_fd_kind kind)
{
    static const char *const names[] = {"closed", "file",      "pipe", "socket",
                                        "tty",    "/dev/null", "other"};
    ABX_CHECK((size_t)kind < ABX_COUNT(names));
    return names[kind];
}

void abx_fd_fill_standard(bool *stdin_closed)
{
    *stdin_closed = false;
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (fd == 0)
            *stdin_closed = true;
        /* The lowest free number is fd: those below it are open by now. */
        int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        if (got >= 0 && got != fd)
            close(got);
    }
}

int abx_fd_reopen(int fd, int flags)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int abx_fd_watch(int fd, bool for_write)
{
    ABX_AUTO_FD watch = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = for_write ? EPOLLOUT : EPOLLIN};
    if (watch < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event) < 0)
        return -1;
    return abx_take_fd(&watch);
}
