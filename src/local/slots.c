#include "local/slots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/backend.h"

uint32_t abx_slot_base(void)
{
    const char *text = getenv("ABX_SLOT_BASE");
    char *end = NULL;
    unsigned long long n = text ? strtoull(text, &end, 0) : 0;
    if (!text || !*text || *end || n % ABX_SLOT_SIZE || n < ABX_SLOT_SIZE ||
        n + (uint64_t)ABX_SLOT_COUNT * ABX_SLOT_SIZE > 0x80000000ULL)
        return ABX_SLOT_BASE;
    return (uint32_t)n;
}

uint32_t abx_slot_first(uint32_t base, int k)
{
    return base + (uint32_t)k * ABX_SLOT_SIZE;
}

static bool touches(uint32_t first, uint64_t a, uint64_t n)
{
    return a < (uint64_t)first + ABX_SLOT_SIZE && a + n > first;
}

/* Fields i and i + 1 (from 0) of each line, as numbers: is one of them (or the range that both are) in the slot? */
static bool lines_touch(uint32_t first, const char *text, int field, bool is_range)
{
    while (text && *text) {
        const char *end = strchrnul(text, '\n'), *p = text;
        for (int i = 0; i < field && p; i++) {
            p = memchr(p, ':', (size_t)(end - p));
            p = p ? p + 1 : NULL;
        }
        char *stop = NULL;
        uint64_t a = p ? strtoull(p, &stop, 10) : 0;
        uint64_t b = p && stop > p && *stop == ':' ? strtoull(stop + 1, NULL, 10) : 0;
        if (p && stop > p &&
            (is_range ? touches(first, a, b) : touches(first, a, 1) || touches(first, b, 1)))
            return true;
        text = *end ? end + 1 : end;
    }
    return false;
}

bool abx_slot_overlaps(uint32_t base, int k, const char *subids, const char *passwd)
{
    uint32_t first = abx_slot_first(base, k);
    return lines_touch(first, subids, 1, true) || lines_touch(first, passwd, 2, false);
}

/* --- the register ------------------------------------------------------------------------------------ */

static int open_register(const char *dir, abx_error **err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        if (abx_make_dirs(dir, 0700, err) < 0)
            return -1;
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    }
    struct stat st;
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open '%s'", dir);
    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
        close(fd);
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "'%s' can be written by others", dir);
    }
    return fd;
}

/* True if the folder that this register entry names, or a rest of it in the trash, is still there. */
static bool owner_exists(const char *base_dir, const char *id)
{
    ABX_AUTO_FREE char *folder = abx_format("%s/sandboxes/%s", base_dir, id);
    struct stat st;
    if (lstat(folder, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return true;
    ABX_AUTO_FREE char *trash = abx_path_join(base_dir, "trash");
    DIR *d = opendir(trash);
    if (!d)
        return errno != ENOENT && errno != ENOTDIR;
    size_t n = strlen(id);
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(d));)
        found = strncmp(e->d_name, id, n) == 0 && (!e->d_name[n] || e->d_name[n] == '.');
    closedir(d);
    return found;
}

/* An entry is a symbolic link, made in one step and never followed: "ID:HOME/local". */
static int read_entry(int dirfd, const char *name, char **base_dir, char **id)
{
    char text[4096];
    ssize_t n = readlinkat(dirfd, name, text, sizeof(text) - 1);
    if (n < 0)
        return -1;
    text[n] = 0;
    char *colon = strchr(text, ':');
    if (!colon)
        return -1;
    *base_dir = abx_strdup(colon + 1);
    *id = abx_strndup(text, (size_t)(colon - text));
    return 0;
}

static bool is_stale(int dirfd, const char *name)
{
    ABX_AUTO_FREE char *base_dir = NULL;
    ABX_AUTO_FREE char *id = NULL;
    return read_entry(dirfd, name, &base_dir, &id) == 0 && !owner_exists(base_dir, id);
}

static char *whole_file(const char *path)
{
    ABX_AUTO_BUF b = ABX_BUF(16u << 20);
    return abx_read_file(path, b.max, &b, NULL) == 0 ? abx_buf_take(&b) : abx_strdup("");
}

static bool slot_collides(uint32_t base, int k)
{
    ABX_AUTO_FREE char *subuid = whole_file("/etc/subuid");
    ABX_AUTO_FREE char *subgid = whole_file("/etc/subgid");
    ABX_AUTO_FREE char *passwd = whole_file("/etc/passwd");
    return abx_slot_overlaps(base, k, subuid, passwd) || abx_slot_overlaps(base, k, subgid, NULL);
}

static int claim(int dirfd, const char *entry, uint32_t base, int *slot)
{
    uint32_t start;
    abx_random_bytes(&start, sizeof(start));
    for (uint32_t i = 0; i < ABX_SLOT_COUNT; i++) {
        int k = (int)((start + i) % ABX_SLOT_COUNT);
        char name[16];
        snprintf(name, sizeof(name), "%d", k);
        if (symlinkat(entry, dirfd, name) < 0) {
            if (errno != EEXIST)
                return -1;
            continue;
        }
        if (!slot_collides(base, k)) {
            *slot = k;
            return 0;
        }
        unlinkat(dirfd, name, 0);
    }
    errno = EUSERS;
    return -1;
}

int abx_slot_take(const char *dir, const char *base_dir, const char *id, abx_error **err)
{
    ABX_AUTO_FD dirfd = open_register(dir, err);
    if (dirfd < 0)
        return -1;
    ABX_AUTO_FREE char *entry = abx_format("%s:%s", id, base_dir);
    int slot = -1, rc = claim(dirfd, entry, abx_slot_base(), &slot);
    if (rc < 0 && errno == EUSERS && abx_slot_sweep(dir) > 0)
        rc = claim(dirfd, entry, abx_slot_base(), &slot);
    int e = errno;
    if (rc < 0 && e == EUSERS) {
        abx_fail(err, ABX_ERR_QUOTA, "all %u id slots in '%s' are in use", ABX_SLOT_COUNT, dir);
        return abx_hint(err, "end other sandboxes of root with 'abx kill'");
    }
    if (rc < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, e, "cannot write in '%s'", dir);
    return slot;
}

void abx_slot_free(const char *dir, int k, const char *base_dir, const char *id)
{
    ABX_AUTO_FD dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *owner = NULL;
    ABX_AUTO_FREE char *owner_id = NULL;
    char name[16];
    snprintf(name, sizeof(name), "%d", k);
    if (dirfd >= 0 && read_entry(dirfd, name, &owner, &owner_id) == 0 &&
        abx_str_eq(owner, base_dir) && abx_str_eq(owner_id, id))
        unlinkat(dirfd, name, 0);
}

int abx_slot_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    int freed = 0;
    if (!d)
        return 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && is_stale(dirfd(d), e->d_name) &&
            unlinkat(dirfd(d), e->d_name, 0) == 0)
            freed++;
    closedir(d);
    return freed;
}
