/* Opening the backend: folders and settings. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "local/backend.h"

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

void abx_local_look(abx_local *local)
{
    if (local->base_fd < 0)
        local->base_fd = open(local->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (local->base_fd < 0)
        return;
    if (local->sandboxes_fd < 0)
        local->sandboxes_fd = open_dir(local->base_fd, "sandboxes");
    if (local->trash_fd < 0)
        local->trash_fd = open_dir(local->base_fd, "trash");
    if (local->skeleton_fd < 0)
        local->skeleton_fd = open_dir(local->base_fd, "skeleton");
}

/* A caller's umask may be so tight that we could not enter our own folders; it is not ours to change. */
static int make_private(int at, const char *name)
{
    if (mkdirat(at, name, 0700) < 0)
        return errno == EEXIST ? 0 : -1;
    return fchmodat(at, name, 0700, 0);
}

static int make_dir(abx_local *local, int *fd, const char *name, abx_error **err)
{
    if (*fd >= 0)
        return 0;
    if (make_private(local->base_fd, name) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot make '%s/%s'", local->base, name);
    *fd = open_dir(local->base_fd, name);
    if (*fd < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s/%s'", local->base, name);
    return 0;
}

static int prepare(abx_local *local, abx_error **err)
{
    if (local->base_fd < 0) {
        if (make_private(AT_FDCWD, local->base) < 0)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot make '%s'", local->base);
        local->base_fd = open(local->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (local->base_fd < 0)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s'", local->base);
    }
    if (make_dir(local, &local->sandboxes_fd, "sandboxes", err) < 0 ||
        make_dir(local, &local->trash_fd, "trash", err) < 0)
        return -1;
    return make_dir(local, &local->skeleton_fd, "skeleton", err);
}

int abx_local_prepare(abx_local *local, abx_error **err)
{
    if (local->base_fd >= 0 && local->sandboxes_fd >= 0 && local->trash_fd >= 0 &&
        local->skeleton_fd >= 0)
        return 0;
    return prepare(local, err);
}

int abx_local_open(const abx_local_options *options, abx_local **out, abx_error **err)
{
    if (!options->home || options->home[0] != '/')
        return abx_fail(err, ABX_ERR_HOME, "the home of the local backend is no absolute path");
    abx_local *local = ABX_NEW(abx_local);
    local->loop = options->loop;
    local->home = abx_strdup(options->home);
    local->base = abx_path_join(options->home, "local");
    local->may_fork = options->may_fork;
    local->starter = abx_strdup(options->starter);
    local->keeper = options->keeper;
    local->log = options->log;
    local->base_fd = local->sandboxes_fd = local->trash_fd = local->skeleton_fd = -1;
    local->remover.orders = -1;
    abx_local_look(local);
    *out = local;
    return 0;
}

void abx_local_close(abx_local *local)
{
    if (!local)
        return;
    abx_close_fd(&local->base_fd);
    abx_close_fd(&local->sandboxes_fd);
    abx_close_fd(&local->trash_fd);
    abx_close_fd(&local->skeleton_fd);
    abx_close_fd(&local->remover.orders);
    free(local->home);
    free(local->base);
    free(local->starter);
    free(local);
}
