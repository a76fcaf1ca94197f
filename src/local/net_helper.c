/* The net namespace, made beside the mounts: it is the slowest of the namespaces, and waits for nothing else.
 * A short-lived process that shares memory and descriptors with pid 1 makes it; pid 1 joins it before it
 * changes its root. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/setup.h"

#define STACK_BYTES (64u << 10)

static int raise_loopback(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    memcpy(request.ifr_name, "lo", sizeof("lo"));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int rc = ioctl(fd, SIOCSIFFLAGS, &request), e = errno;
    close(fd);
    errno = e;
    return rc;
}

/* errno is shared with pid 1 too: it is read at once, and only after a failure. */
static int make_net(void *data)
{
    abx_net_helper *h = (abx_net_helper *)data;
    if (unshare(CLONE_NEWNET) < 0) {
        h->error = errno;
        h->step = "unshare";
    } else if (raise_loopback() < 0) {
        h->error = errno;
        h->step = "raising the loopback interface";
    } else if ((h->fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) < 0) {
        h->error = errno;
        h->step = "open of the namespace";
    }
    return 0;
}

int abx_start_net(abx_setup *s)
{
    abx_net_helper *h = &s->net;
    h->fd = h->pid = -1;
    h->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (h->stack == MAP_FAILED)
        return abx_refused(s, ABX_LAYER_NET, "stack");
    h->pid = clone(make_net, (char *)h->stack + STACK_BYTES, CLONE_VM | CLONE_FILES | SIGCHLD, h);
    if (h->pid < 0) {
        munmap(h->stack, STACK_BYTES);
        return abx_refused(s, ABX_LAYER_NET, "clone");
    }
    return 0;
}

int abx_join_net(abx_setup *s)
{
    abx_net_helper *h = &s->net;
    if (h->pid < 0)
        return 0;
    while (waitpid(h->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    munmap(h->stack, STACK_BYTES);
    errno = h->error;
    if (h->fd < 0)
        return abx_refused(s, ABX_LAYER_NET, "%s", h->step ? h->step : "its maker ended");
    int rc = setns(h->fd, CLONE_NEWNET), e = errno;
    close(h->fd);
    errno = e;
    s->own_net = rc == 0;
    return rc < 0 ? abx_refused(s, ABX_LAYER_NET, "setns") : 0;
}
