/* What a root caller does for its new sandbox from outside: id maps, and layers seen through them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/create.h"
#include "local/sys_mount.h"

static int write_map(pid_t pid, const char *name, const char *text)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

int abx_write_maps(pid_t pid, const abx_plan *plan, abx_error **err)
{
    if (write_map(pid, "uid_map", plan->uid_map) < 0)
        return abx_layer_error(err, ABX_LAYER_IDS, errno, "write of 'uid_map'");
    if (write_map(pid, "gid_map", plan->gid_map) < 0)
        return abx_layer_error(err, ABX_LAYER_IDS, errno, "write of 'gid_map'");
    return 0;
}

/* A detached clone of one mount, read-only, with the ids of a user namespace (-1: as they are). -1 with
 * errno. */
static int mapped_clone(int at, const char *path, int userns)
{
    int fd = (int)syscall(SYS_open_tree, at, path, ABX_OPEN_TREE_CLONE | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
    };
    if (userns >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns;
    }
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        abx_close_fd(&fd);
    return fd;
}

int abx_idmapped_layers(abx_local *local, pid_t pid, const abx_plan *plan, abx_layers *out,
                        abx_error **err)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    ABX_AUTO_FD userns = open(path, O_RDONLY | O_CLOEXEC);
    if (userns < 0)
        return abx_layer_error(err, ABX_LAYER_IDS, errno, "the user namespace");
    if (plan->stack && !plan->copied_root) {
        out->layers = mapped_clone(local->base_fd, "layers", userns);
        if (out->layers < 0)
            return 1;
    }
    if (!abx_plan_on_host(plan))
        return 0;
    out->usr = plan->usr_overlay ? mapped_clone(AT_FDCWD, "/usr", userns) : -1;
    out->plain_usr = out->usr < 0;
    if (out->plain_usr)
        out->usr = mapped_clone(AT_FDCWD, "/usr", -1);
    if (out->usr < 0)
        return abx_layer_error(err, ABX_LAYER_USR, errno, "a clone of '/usr'");
    if (plan->copied_root)
        return 0;
    out->skeleton = mapped_clone(local->skeleton_fd, plan->digest, userns);
    return out->skeleton >= 0 ? 0 : 1;
}

int abx_send_go(int pair, const abx_layers *layers, abx_error **err)
{
    const int all[ABX_GO_CLONES] = {layers->usr, layers->skeleton, layers->layers};
    int fds[ABX_GO_CLONES];
    unsigned mask = 0;
    size_t n = 0;
    for (unsigned i = 0; i < ABX_GO_CLONES; i++) {
        if (all[i] < 0)
            continue;
        mask |= 1u << i;
        fds[n++] = all[i];
    }
    char bytes[2] = {layers->plain_usr ? ABX_GO_PLAIN : ABX_GO, (char)mask};
    struct iovec io = {bytes, sizeof(bytes)};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(ABX_GO_CLONES * sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control));
    struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1};
    if (n > 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    if (sendmsg(pair, &msg, MSG_NOSIGNAL) != sizeof(bytes))
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno,
                              "the sandbox's first process ended early");
    return 0;
}
