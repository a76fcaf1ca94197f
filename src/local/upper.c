/* Where the private layers lie. Not every file system can hold an upper layer: then another place is looked for, and
 * where there is none, the skeleton is copied instead of laid under. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/create.h"

#define NOTE      "upper" /* in the sandbox's folder: the path of its layers */
#define PREFIX    "abx-layers-"
#define PATH_ROOM 8192

/* 1: can hold an upper layer, 0: cannot. The kinds that are known to work cost one call. */
static int can_hold(int fd)
{
    struct statfs st;
    if (fstatfs(fd, &st) < 0)
        return 0;
    switch ((unsigned long)st.f_type) {
    case EXT4_SUPER_MAGIC:
    case 0x58465342: /* xfs */
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC: return 1;
    case OVERLAYFS_SUPER_MAGIC:
    case NFS_SUPER_MAGIC:
    case 0x65735546: /* FUSE, virtiofs */
    case V9FS_MAGIC:
    case MSDOS_SUPER_MAGIC:
    case 0xff534d42: /* CIFS */
    case 0xfe534d42: /* SMB2 */ return 0;
    default: break;
    }
    /* Opaque folders are stored as an attribute; a tmpfs has those from 6.6 on. */
    int rc = fsetxattr(fd, "user.abx", "y", 1, 0);
    if (rc == 0)
        (void)fremovexattr(fd, "user.abx");
    return rc == 0;
}

/* Make PLACE/abx-layers-UID-ID and note it; the note comes first, so that nothing can be left that nobody knows of. */
static int use_place(const char *place, int folder_fd, abx_plan *plan)
{
    struct stat st;
    if (!place || place[0] != '/' || strlen(place) > PATH_ROOM / 2)
        return -1;
    if (stat(place, &st) < 0 || !S_ISDIR(st.st_mode))
        return -1;
    ABX_AUTO_FREE char *path =
        abx_format("%s/" PREFIX "%u-%s", place, (unsigned)geteuid(), plan->id);
    if (abx_write_atomic_at(folder_fd, NOTE, path, strlen(path), 0600, false, NULL) < 0)
        return -1;
    if (mkdir(path, 0700) < 0)
        return -1;
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || !can_hold(fd)) {
        rmdir(path);
        return -1;
    }
    plan->upper = ABX_TAKE(path);
    snprintf(plan->skeleton, sizeof(plan->skeleton), "k"); /* bound there */
    return 0;
}

int abx_upper_choose(abx_local *local, int folder_fd, abx_plan *plan, abx_error **err)
{
    free(ABX_TAKE(plan->upper));
    if (can_hold(folder_fd))
        return 0;
    const char *places[] = {getenv("XDG_STATE_HOME"), getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"),
                            "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < ABX_COUNT(places); i++)
        if (use_place(places[i], folder_fd, plan) == 0)
            return 0;
    unlinkat(folder_fd, NOTE, 0);
    plan->copied_root = true;
    return 0;
}

/* The note lies in a folder that only its owner can write; its last name is checked all the same. */
int abx_upper_remove(int folder_fd, uint64_t until_ms)
{
    ABX_AUTO_BUF note = ABX_BUF(PATH_ROOM);
    if (abx_read_file_at(folder_fd, NOTE, note.max, &note, NULL) != 0)
        return 0;
    const char *path = abx_buf_cstr(&note);
    ABX_AUTO_FREE char *expected = abx_format(PREFIX "%u-", (unsigned)geteuid());
    const char *name = abx_path_base(path);
    if (path[0] != '/' || !abx_has_prefix(name, expected) || !abx_is_id(name + strlen(expected)))
        return 0;
    ABX_AUTO_FREE char *place = abx_path_dir(path);
    ABX_AUTO_FD fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : abx_remove_tree_until(fd, name, until_ms, NULL);
}
