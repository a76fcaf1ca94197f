/* Addresses and routes, by netlink: read outside, set inside. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/uplink.h"

#define ANSWER_BYTES 32768
#define PREFIXES_MAX 65536u /* an own address each; more is no machine that we know */

/* One request; the header of its kind, then attributes. */
typedef struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
        struct ndmsg neighbour;
        struct ndtmsg table;
    };
    char attributes[256];
} request;

static void begin(request *r, uint16_t type, uint16_t flags, size_t kind)
{
    memset(r, 0, sizeof(*r));
    r->head.nlmsg_type = type;
    r->head.nlmsg_flags = NLM_F_REQUEST | flags;
    r->head.nlmsg_len = (uint32_t)NLMSG_LENGTH(kind);
}

static struct rtattr *add(request *r, uint16_t type, const void *value, size_t n)
{
    size_t at = NLMSG_ALIGN(r->head.nlmsg_len);
    ABX_CHECK(at + RTA_SPACE(n) <= sizeof(*r));
    struct rtattr *a = (struct rtattr *)(void *)((char *)r + at);
    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(n);
    if (n > 0)
        memcpy(RTA_DATA(a), value, n);
    r->head.nlmsg_len = (uint32_t)(at + RTA_SPACE(n));
    return a;
}

static void add_u32(request *r, uint16_t type, uint32_t value)
{
    add(r, type, &value, sizeof(value));
}

/* Send it, and read whether it was done. 0, or -1 with errno. */
static int ask(int fd, request *r)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[sizeof(request)];
    } answer;
    r->head.nlmsg_flags |= NLM_F_ACK;
    if (send(fd, r, r->head.nlmsg_len, 0) < 0)
        return -1;
    ssize_t n = recv(fd, &answer, sizeof(answer), 0);
    if (n < 0)
        return -1;
    if ((size_t)n < NLMSG_LENGTH(sizeof(answer.error)) || answer.head.nlmsg_type != NLMSG_ERROR) {
        errno = EPROTO;
        return -1;
    }
    errno = -answer.error.error;
    return answer.error.error == 0 ? 0 : -1;
}

static int open_netlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

/* --- outside -------------------------------------------------------------------------------------------- */

typedef struct prefixes {
    abx_prefix *list;
    size_t n, room;
} prefixes;

static void take_route(prefixes *p, struct nlmsghdr *m)
{
    struct rtmsg *route = (struct rtmsg *)NLMSG_DATA(m);
    int left = (int)RTM_PAYLOAD(m);
    if (m->nlmsg_type != RTM_NEWROUTE || route->rtm_family != AF_INET ||
        route->rtm_type != RTN_LOCAL || p->n >= PREFIXES_MAX)
        return;
    for (struct rtattr *a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type != RTA_DST || RTA_PAYLOAD(a) != sizeof(uint32_t))
            continue;
        if (p->n == p->room) {
            p->room = p->room ? 2 * p->room : 16;
            p->list = (abx_prefix *)abx_realloc(p->list, p->room * sizeof(*p->list));
        }
        abx_prefix *to = &p->list[p->n++];
        memcpy(&to->address, RTA_DATA(a), sizeof(to->address));
        to->bits = route->rtm_dst_len;
    }
}

/* Every route that ends at the machine itself; they lie in the table `local`. */
static int read_routes(int fd, prefixes *p)
{
    request r;
    ABX_AUTO_FREE char *answer = (char *)abx_alloc(ANSWER_BYTES);
    begin(&r, RTM_GETROUTE, NLM_F_DUMP, sizeof(r.route));
    r.route.rtm_family = AF_INET;
    if (send(fd, &r, r.head.nlmsg_len, 0) < 0)
        return -1;
    for (;;) {
        ssize_t n = recv(fd, answer, ANSWER_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        size_t left = (size_t)n;
        for (struct nlmsghdr *m = (struct nlmsghdr *)(void *)answer; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_type == NLMSG_DONE)
                return 0;
            if (m->nlmsg_type == NLMSG_ERROR) {
                errno = -((struct nlmsgerr *)NLMSG_DATA(m))->error;
                return -1;
            }
            take_route(p, m);
        }
    }
}

int abx_netlink_own_prefixes(abx_prefix **out, size_t *n)
{
    prefixes p = {0};
    ABX_AUTO_FD fd = open_netlink();
    int rc = fd < 0 ? -1 : read_routes(fd, &p);
    if (rc < 0) {
        free(p.list);
        p = (prefixes){0};
    }
    *out = p.list;
    *n = p.n;
    return rc;
}

/* --- inside ------------------------------------------------------------------------------------------------ */

static uint32_t address_of(const char *text)
{
    struct in_addr a = {0};
    ABX_CHECK(inet_pton(AF_INET, text, &a) == 1);
    return a.s_addr;
}

void abx_uplink_mac(uint8_t mac[6])
{
    unsigned byte[6];
    ABX_CHECK(sscanf(ABX_UPLINK_MAC, "%x:%x:%x:%x:%x:%x", &byte[0], &byte[1], &byte[2], &byte[3],
                     &byte[4], &byte[5]) == 6);
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)byte[i];
}

static int raise_device(void)
{
    struct ifreq q = {.ifr_mtu = ABX_UPLINK_MTU};
    memcpy(q.ifr_name, ABX_UPLINK_DEVICE, sizeof(ABX_UPLINK_DEVICE));
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFMTU, &q) < 0)
        return -1;
    q.ifr_flags = IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &q);
}

/* Nobody is asked where an address lives: the gateway alone is known. A socket that is bound to the device is sent past a
 * route that closes its target: without one the kernel takes the target for a neighbour, and both helpers answer for
 * each address that is asked for. */
static int stop_asking(int fd, unsigned device)
{
    request r;
    begin(&r, RTM_SETNEIGHTBL, NLM_F_REPLACE, sizeof(r.table));
    r.table.ndtm_family = AF_INET;
    add(&r, NDTA_NAME, "arp_cache", sizeof("arp_cache"));
    struct rtattr *parms = add(&r, NDTA_PARMS, NULL, 0);
    add_u32(&r, NDTPA_IFINDEX, device);
    add_u32(&r, NDTPA_MCAST_PROBES, 0);
    add_u32(&r, NDTPA_UCAST_PROBES, 0);
    add_u32(&r, NDTPA_APP_PROBES, 0);
    parms->rta_len = (unsigned short)((char *)&r + r.head.nlmsg_len - (char *)parms);
    return ask(fd, &r);
}

static int set_address(int fd, unsigned device)
{
    request r;
    uint32_t own = address_of(ABX_UPLINK_ADDRESS);
    begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(r.address));
    r.address.ifa_family = AF_INET;
    r.address.ifa_prefixlen = 32;
    r.address.ifa_index = device;
    add_u32(&r, IFA_LOCAL, own);
    add_u32(&r, IFA_ADDRESS, own);
    return ask(fd, &r);
}

static int set_neighbour(int fd, unsigned device)
{
    request r;
    uint8_t mac[6];
    abx_uplink_mac(mac);
    begin(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(r.neighbour));
    r.neighbour.ndm_family = AF_INET;
    r.neighbour.ndm_ifindex = (int)device;
    r.neighbour.ndm_state = NUD_PERMANENT;
    add_u32(&r, NDA_DST, address_of(ABX_UPLINK_GATEWAY));
    add(&r, NDA_LLADDR, mac, sizeof(mac));
    return ask(fd, &r);
}

static void begin_route(request *r, uint8_t type, uint8_t scope, abx_prefix to)
{
    begin(r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(r->route));
    r->route.rtm_family = AF_INET;
    r->route.rtm_table = RT_TABLE_MAIN;
    r->route.rtm_protocol = RTPROT_STATIC;
    r->route.rtm_type = type;
    r->route.rtm_scope = scope;
    r->route.rtm_dst_len = to.bits;
    if (to.bits > 0)
        add_u32(r, RTA_DST, to.address);
}

static int close_prefix(int fd, abx_prefix to)
{
    request r;
    begin_route(&r, RTN_BLACKHOLE, RT_SCOPE_UNIVERSE, to);
    return ask(fd, &r);
}

static int open_way(int fd, unsigned device)
{
    request r;
    uint32_t gateway = address_of(ABX_UPLINK_GATEWAY);
    begin_route(&r, RTN_UNICAST, RT_SCOPE_LINK, (abx_prefix){gateway, 32});
    add_u32(&r, RTA_OIF, device);
    if (ask(fd, &r) < 0)
        return -1;
    begin_route(&r, RTN_UNICAST, RT_SCOPE_UNIVERSE, (abx_prefix){0});
    add_u32(&r, RTA_OIF, device);
    add_u32(&r, RTA_GATEWAY, gateway);
    add_u32(&r, RTA_PREFSRC, address_of(ABX_UPLINK_ADDRESS));
    return ask(fd, &r);
}

/* Closed on any machine: "this host", its loopback (a socket bound to the device would reach out for it), and link-local
 * addresses, where clouds keep the credentials of a machine. */
static int close_all(int fd, const abx_prefix *closed, size_t n)
{
    const abx_prefix always[] = {
        {htonl(0x00000000), 8}, {htonl(0x7f000000), 8}, {htonl(0xa9fe0000), 16}};
    for (size_t i = 0; i < ABX_COUNT(always); i++)
        if (close_prefix(fd, always[i]) < 0)
            return -1;
    for (size_t i = 0; i < n; i++)
        if (close_prefix(fd, closed[i]) < 0)
            return -1;
    return 0;
}

const char *abx_netlink_configure(const abx_prefix *closed, size_t n)
{
    ABX_AUTO_FD fd = open_netlink();
    unsigned device = if_nametoindex(ABX_UPLINK_DEVICE);
    if (fd < 0)
        return "a netlink socket";
    if (device == 0)
        return "its device '" ABX_UPLINK_DEVICE "'";
    if (stop_asking(fd, device) < 0)
        return "the neighbours of its device";
    if (close_all(fd, closed, n) < 0)
        return "routes that close the machine's own addresses";
    if (set_address(fd, device) < 0)
        return "its address";
    if (raise_device() < 0)
        return "raising its device";
    if (set_neighbour(fd, device) < 0 || open_way(fd, device) < 0)
        return "its route";
    return NULL;
}
