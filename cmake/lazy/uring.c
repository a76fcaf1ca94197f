/* libuv makes an io_uring in every loop, to hand several epoll_ctl over at once, and has no switch for it. Here loops
 * are short-lived and wait for few descriptors: the ring costs more (three system calls, two mappings, its end) than
 * it saves, and the first process of a sandbox may not use one at all. So the kernel's answer is given for it: there
 * is none, and libuv calls epoll_ctl itself. Linked behind libuv into everything, with --wrap=syscall. */
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    if (number == SYS_io_uring_setup) {
        errno = ENOSYS;
        return -1;
    }
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) /* as the function of glibc: all six, whatever the call has */
        a[i] = va_arg(list, long);
    va_end(list);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
