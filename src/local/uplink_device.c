/* The tap device of a sandbox, made before the helper attaches to it. It lets out what goes to the gateway and, for the sandbox
 * to say who it is, to all: nothing to a group. A route does not hold a socket that is bound to the device, and to a group
 * no neighbour is asked for, so services of the machine that listen to groups (names, printers, media) would hear the sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/uplink.h"

static int open_namespace(pid_t pid, const char *kind)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* An ordinary user may join by the user namespace alone, in which it then has no way back. Root stays root: it may open
 * the device where others may not. */
static const char *join(pid_t pid)
{
    int user = open_namespace(pid, "user"), net = open_namespace(pid, "net");
    if (user < 0 || net < 0)
        return "its namespaces";
    if (setns(net, CLONE_NEWNET) < 0 &&
        (setns(user, CLONE_NEWUSER) < 0 || setns(net, CLONE_NEWNET) < 0))
        return "joining its namespaces";
    return NULL;
}

static const char *make(pid_t pid)
{
    union {
        struct tun_filter head; /* and behind it two addresses */
        uint8_t room[sizeof(struct tun_filter) + 12];
    } filter = {.head = {.count = 2}};
    uint8_t *addresses = filter.room + sizeof(filter.head);
    struct ifreq q = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    const char *failed = join(pid);
    if (failed)
        return failed;
    int fd = open(ABX_UPLINK_TUN, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return ABX_UPLINK_TUN;
    abx_uplink_mac(addresses);
    memset(addresses + 6, 0xff, 6);
    memcpy(q.ifr_name, ABX_UPLINK_DEVICE, sizeof(ABX_UPLINK_DEVICE));
    if (ioctl(fd, TUNSETIFF, &q) < 0)
        return "its device";
    /* it stays without us, for the helper; it goes with its net namespace */
    if (ioctl(fd, TUNSETTXFILTER, &filter) < 0 || ioctl(fd, TUNSETPERSIST, 1L) < 0)
        return "the filter of its device";
    return NULL;
}

/* In a process of its own: it cannot come back from where it goes. It shares nothing with us but what it writes. */
void abx_uplink_make_device(pid_t pid)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        const char *failed = make(pid);
        if (failed)
            dprintf(2, "cannot make the device: %s: %s\n", failed, strerror(errno));
        _exit(failed ? 1 : 0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || status != 0)
        _exit(127);
}
