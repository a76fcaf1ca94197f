/* Reaching the server of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/folder.h"
#include "local/state.h"

/* Never waits: the kernel answers a Unix connect at once. EAGAIN: the server's queue of connections is full. */
static int connect_to(int fd, const struct sockaddr_un *address)
{
    int rc;
    do
        rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* Connected to the socket of an open folder, or -1 with errno. */
static int connect_folder(int folder)
{
    /* through the descriptor: no path is too long */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/s", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect_to(fd, &address) < 0)
        abx_close_fd(&fd);
    return fd;
}

pid_t abx_folder_peer(int folder)
{
    struct ucred peer = {0};
    socklen_t n = sizeof(peer);
    ABX_AUTO_FD fd = connect_folder(folder);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 ? peer.pid : 0;
}

/* The kernel tells who called listen on that socket: it must be the process that the state names. */
static int check_peer(int fd, const abx_state *s, abx_error **err)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot check sandbox '%s'", s->id);
    if (peer.pid != s->pid || peer.uid != s->uid)
        return abx_fail(err, ABX_ERR_LOCAL_STATE,
                        "the socket of sandbox '%s' is served by another process", s->id);
    return 0;
}

int abx_local_dial(abx_local *local, const char *id, char **token, abx_error **err)
{
    ABX_AUTO_FD folder = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    int rc = folder < 0 ? abx_folder_not_there(id, err) : abx_state_read(folder, &s, err);
    if (rc == 1)
        return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
    if (rc < 0)
        return -1;
    ABX_AUTO_FD fd = connect_folder(folder);
    if (fd < 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
        if (errno == EAGAIN)
            return abx_fail(err, ABX_ERR_RATE_LIMIT, "sandbox '%s' is busy: its queue is full", id);
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot reach sandbox '%s'", id);
    }
    if (check_peer(fd, &s, err) < 0)
        return -1;
    if (token)
        *token = abx_strdup(s.token);
    return abx_take_fd(&fd);
}

char *abx_local_token(abx_local *local, const char *id, abx_error **err)
{
    ABX_AUTO_FD fd = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    int rc = fd < 0 ? abx_folder_not_there(id, err) : abx_state_read(fd, &s, err);
    if (rc == 1)
        abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
    return rc == 0 ? ABX_TAKE(s.token) : NULL;
}
