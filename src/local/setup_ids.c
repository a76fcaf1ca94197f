/* Ids of the new process: its maps, and the nested namespace in which a single id is called root. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/setup.h"

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = strlen(text);
    ssize_t done = write(fd, text, n); /* one write: the kernel takes a map whole or not at all */
    int e = errno;
    close(fd);
    errno = done < 0 ? e : EIO;
    return done == (ssize_t)n ? 0 : -1;
}

/* The creator's answer: two bytes, and for a root caller clones of what lies under its root. End of file: the
 * creator is gone. */
static int receive_go(abx_setup *s)
{
    char bytes[2] = {0};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(ABX_GO_CLONES * sizeof(int))];
    } control;
    struct iovec io = {bytes, sizeof(bytes)};
    struct msghdr msg = {.msg_iov = &io,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(s->pair, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != sizeof(bytes) || (bytes[0] != ABX_GO && bytes[0] != ABX_GO_PLAIN))
        _exit(1);
    s->plain_usr = bytes[0] == ABX_GO_PLAIN;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int fds[ABX_GO_CLONES] = {-1, -1, -1}, *const to[] = {&s->usr, &s->skeleton, &s->layers};
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
        for (int i = 0, k = 0; i < ABX_GO_CLONES; i++)
            if ((unsigned char)bytes[1] & 1u << i)
                *to[i] = fds[k++];
    }
    return 0;
}

int abx_wait_for_maps(abx_setup *s)
{
    const abx_plan *p = s->plan;
    if (p->ids != ABX_IDS_SINGLE)
        return receive_go(s);
    if (write_file("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
        return abx_refused(s, ABX_LAYER_IDS, "write of '/proc/self/setgroups'");
    if (write_file("/proc/self/uid_map", p->uid_map) < 0)
        return abx_refused(s, ABX_LAYER_IDS, "write of '/proc/self/uid_map'");
    if (write_file("/proc/self/gid_map", p->gid_map) < 0)
        return abx_refused(s, ABX_LAYER_IDS, "write of '/proc/self/gid_map'");
    return 0;
}

/* Be the owner of the layers: id 0 of a slot; else the one id that the caller is. */
int abx_take_inside_ids(abx_setup *s)
{
    if (s->plan->ids == ABX_IDS_SINGLE)
        return 0;
    if (setgroups(0, NULL) < 0)
        return abx_refused(s, ABX_LAYER_IDS, "setgroups");
    if (s->plan->ids == ABX_IDS_RANGE)
        return 0;
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return abx_refused(s, ABX_LAYER_IDS, "setresuid");
    return 0;
}

/* --- the nested namespace ---------------------------------------------------------------------------- */

typedef struct nested {
    const char *uid_map, *gid_map;
    int fd, error;
} nested;

/* Shares memory and descriptors with its parent, which waits for it. */
static int make_nested(void *data)
{
    nested *n = (nested *)data;
    if (write_file("/proc/self/setgroups", "deny") == 0 &&
        write_file("/proc/self/uid_map", n->uid_map) == 0 &&
        write_file("/proc/self/gid_map", n->gid_map) == 0)
        n->fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    n->error = errno;
    return 0;
}

/* It is made now and not when first asked for: later this process cannot be looked at through /proc, not even by
 * itself, and the maps could not be written without opening it to those inside. */
int abx_make_root_userns(abx_setup *s)
{
    if (s->plan->ids != ABX_IDS_SINGLE)
        return 0;
    nested n = {"0 1000 1\n", "0 1000 1\n", -1, 0};
    const size_t stack_bytes = 64u << 10;
    char *stack = (char *)mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return abx_refused(s, ABX_LAYER_IDS, "stack");
    pid_t pid = clone(make_nested, stack + stack_bytes,
                      CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWUSER | SIGCHLD, &n);
    int e = errno;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    munmap(stack, stack_bytes);
    errno = pid < 0 ? e : n.error;
    if (pid < 0 || n.fd < 0)
        return abx_refused(s, ABX_LAYER_IDS, "nested user namespace for 'root'");
    s->root_userns = n.fd;
    return 0;
}
