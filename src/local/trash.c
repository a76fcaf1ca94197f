#include "local/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "local/cgroup.h"
#include "local/create.h"
#include "local/range_remove.h"
#include "local/slots.h"

int abx_trash_move(abx_local *local, const char *id, char name[64])
{
    char random[9];
    if (local->trash_fd < 0 && abx_local_prepare(local, NULL) < 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        abx_random_id(random, 8);
        snprintf(name, 64, "%.48s.%s", id, random);
        if (renameat(local->sandboxes_fd, id, local->trash_fd, name) == 0)
            return 0;
        if (errno == ENOENT)
            return 1;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -1;
    }
    return -1;
}

int abx_trash_remove(abx_local *local, const char *name, uint64_t until_ms, abx_error **err)
{
    ABX_AUTO_FD fd = openat(local->trash_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && abx_cgroup_remove(fd) != 0)
        return ABX_TRASH_BUSY; /* its note must stay until they are gone */
    if (fd >= 0 && abx_upper_remove(fd, until_ms) > 0)
        return ABX_TRASH_MORE;
    ABX_AUTO_ERROR why = NULL;
    int rc = abx_remove_tree_until(local->trash_fd, name, until_ms, &why);
    /* Files of a range belong to ids that are ours only inside of a user namespace with that range. */
    if (rc < 0 && geteuid() != 0 && fd >= 0) {
        int inside = abx_range_remove(local->trash_fd, name, until_ms);
        rc = inside < 0 ? rc : inside;
    }
    return rc < 0 ? abx_error_take(err, ABX_TAKE(why)) : rc > 0 ? ABX_TRASH_MORE : ABX_TRASH_GONE;
}

void abx_trash_sandbox(abx_local *local, const char *id, int slot)
{
    char name[64];
    ABX_AUTO_ERROR err = NULL;
    int rc = abx_trash_move(local, id, name);
    if (rc == 0)
        rc = abx_trash_remove(local, name, ABX_FOREVER, &err);
    if (rc < 0 || err)
        abx_logf(local->log, ABX_LOG_WARN, "sandbox '%s' is not removed yet: %s", id,
                 err ? err->message : strerror(errno));
    else if (rc == 0 && slot >= 0)
        abx_slot_free(ABX_SLOTS_DIR, slot, local->base, id);
}

/* The next entry of a folder but "." and "..", or NULL. */
static struct dirent *next_entry(DIR *d)
{
    struct dirent *e;
    while ((e = readdir(d)) && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")))
        ;
    return e;
}

int abx_trash_empty(abx_local *local, uint64_t limit_ms)
{
    int removed = 0;
    if (local->trash_fd < 0)
        return 0;
    int fd = openat(local->trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        abx_close_fd(&fd);
        return 0;
    }
    if (limit_ms && flock(fd, LOCK_EX | LOCK_NB) < 0) { /* others are at it */
        closedir(d);
        return 0;
    }
    uint64_t until = limit_ms ? abx_now_mono_ms() + limit_ms : ABX_FOREVER;
    for (struct dirent *e; (e = next_entry(d)) && (!limit_ms || abx_now_mono_ms() < until);) {
        ABX_AUTO_ERROR err = NULL;
        if (abx_trash_remove(local, e->d_name, until, &err) == ABX_TRASH_GONE)
            removed++;
        else if (err)
            abx_logf(local->log, ABX_LOG_WARN, "cannot clear '%s/trash/%s': %s", local->base,
                     e->d_name, abx_error_text(err));
    }
    closedir(d);
    if (removed > 0 && geteuid() == 0)
        abx_slot_sweep(ABX_SLOTS_DIR);
    return removed;
}
