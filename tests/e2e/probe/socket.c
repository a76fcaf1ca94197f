/* Sockets: rare families, others' doors, the network of the machine. */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

/* "socket FAMILY TYPE PROTOCOL" */
static long try_socket(char **args)
{
    return socket(atoi(args[0]), atoi(args[1]) | SOCK_CLOEXEC, atoi(args[2]));
}

/* "connect PATH": '@' begins an abstract name. */
static long try_connect(char **args)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(args[0]);
    if (n >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, args[0], n);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

/* "tcp PORT": on the loopback. */
static long try_tcp(char **args)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(args[0])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

/* Bring a new interface into being. */
static long try_newlink(char **args)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
        struct nlattr kind_of;
        struct nlattr kind;
        char name[8];
    } q = {.head = {sizeof(q), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0},
           .kind_of = {sizeof(q.kind_of) + sizeof(q.kind) + sizeof(q.name), IFLA_LINKINFO},
           .kind = {sizeof(q.kind) + 7, 1 /* its kind */},
           .name = "bridge"};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char more[256];
    } a;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &q, sizeof(q), 0) < 0 || recv(fd, &a, sizeof(a), 0) < 0)
        return -1;
    errno = -a.error.error;
    return a.error.error == 0 ? 0 : -1;
}

const probe probes_socket[] = {
    {"socket", try_socket}, {"connect", try_connect}, {"tcp", try_tcp}, {"newlink", try_newlink},
    {NULL, NULL},
};
