/* The steps of pid 1 towards a network: what must stay closed is read while it is in the machine's net namespace, the
 * helper is asked for as soon as it is in its own, and both meet before capabilities go. Nothing is done, not one system
 * call, for a sandbox without a network. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/setup.h"

int abx_note_own_routes(abx_setup *s)
{
    if (s->plan->network == ABX_NETWORK_NONE)
        return 0;
    if (abx_netlink_own_prefixes(&s->own_prefixes, &s->own_prefix_count) < 0)
        return abx_refused(s, ABX_LAYER_NET, "reading the machine's own addresses");
    return 0;
}

/* The helper reaches our namespaces by /proc, without the capability that looks at any process: a change of ids has closed
 * that door. abx_drop_caps closes it for good, before anything foreign runs here. */
int abx_ask_uplink(abx_setup *s)
{
    if (s->plan->network == ABX_NETWORK_NONE)
        return 0;
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    abx_setup_tell(s, ABX_REPORT_UPLINK);
    return 0;
}

/* Settings of the device, made before it is raised. */
static int set_device(abx_setup *s)
{
    static const char *const paths[] = {
        /* neither of the helpers is told to carry it */
        "/proc/sys/net/ipv6/conf/" ABX_UPLINK_DEVICE "/disable_ipv6",
        /* we say who we are: a helper that must ask first loses the first answer */
        "/proc/sys/net/ipv4/conf/" ABX_UPLINK_DEVICE "/arp_notify",
    };
    for (size_t i = 0; i < ABX_COUNT(paths); i++) {
        int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue; /* a kernel without IPv6 */
        ssize_t n = fd < 0 ? -1 : write(fd, "1\n", 2);
        int e = errno;
        if (fd >= 0)
            close(fd);
        errno = e;
        if (n != 2)
            return abx_refused(s, ABX_LAYER_NET, "write of '%s'", paths[i]);
    }
    return 0;
}

static int write_resolver(abx_setup *s)
{
    static const char path[] = "/etc/resolv.conf", text[] = "nameserver " ABX_UPLINK_RESOLVER "\n";
    int fd = -1;
    if (unlink(path) == 0 || errno == ENOENT)
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    ssize_t n = fd < 0 ? -1 : write(fd, text, sizeof(text) - 1);
    int e = errno;
    if (fd >= 0)
        close(fd);
    errno = e;
    return n == (ssize_t)sizeof(text) - 1 ? 0
                                          : abx_refused(s, ABX_LAYER_DEV, "write of '%s'", path);
}

int abx_join_uplink(abx_setup *s)
{
    char go[2];
    ssize_t n;
    if (s->plan->network == ABX_NETWORK_NONE)
        return 0;
    do
        n = recv(s->pair, go, sizeof(go), MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n != sizeof(go) || go[0] != ABX_GO)
        _exit(1); /* the creator is gone, or will say itself why there is no helper */
    if (set_device(s) < 0)
        return -1;
    const char *failed = abx_netlink_configure(s->own_prefixes, s->own_prefix_count);
    int e = errno;
    free(s->own_prefixes);
    s->own_prefixes = NULL;
    errno = e;
    if (failed)
        return abx_refused(s, ABX_LAYER_NET, "%s", failed);
    return write_resolver(s);
}
