#include "local/envd/usage.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

enum { MAX_INODES = 4096, TEXT = 8192 };

/* Files that were counted already. When the set is full, further ones count again. */
struct abx__inodes {
    uint64_t number[MAX_INODES];
    size_t count;
};

static bool knows(const abx__inodes *set, uint64_t number)
{
    for (size_t i = 0; set && i < set->count; i++)
        if (set->number[i] == number)
            return true;
    return false;
}

static bool add_new(abx__inodes *set, uint64_t number)
{
    if (knows(set, number))
        return false;
    if (set->count < MAX_INODES)
        set->number[set->count++] = number;
    return true;
}

/* --- texts of /proc ---------------------------------------------------------------------------------- */

static ssize_t read_text(int proc, pid_t pid, const char *name, char out[TEXT])
{
    char path[40];
    (void)snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    ABX_AUTO_FD fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_read_full(fd, out, TEXT - 1);
    out[n > 0 ? n : 0] = 0;
    return n;
}

/* "KEY:   N kB" → bytes. */
static uint64_t field(const char *text, const char *key)
{
    unsigned long long n = 0;
    const char *at = strstr(text, key);
    return at && sscanf(at + strlen(key), " %llu", &n) == 1 ? n : 0;
}

static uint64_t used_of(const char *path)
{
    struct statvfs st;
    return statvfs(path, &st) == 0 ? (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize : 0;
}

/* Segments of System V: "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap". */
static uint64_t segments(int proc)
{
    char text[TEXT];
    uint64_t sum = 0;
    ABX_AUTO_FD fd = openat(proc, "sysvipc/shm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_read_full(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
        unsigned long long rss = 0;
        if (sscanf(line, " %*d %*d %*o %*u %*d %*d %*u %*u %*u %*u %*u %*u %*u %*u %llu", &rss) ==
            1)
            sum += rss;
    }
    return sum;
}

uint64_t abx__smaps_shared(char *text, const abx__inodes *files)
{
    uint64_t sum = 0;
    bool counts = false;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (isupper((unsigned char)line[0])) {
            if (counts && abx_has_prefix(line, "Pss:"))
                sum += field(line, "Pss:") * 1024;
            continue;
        }
        char perms[5] = "", name[64] = "";
        unsigned long long inode = 0;
        (void)sscanf(line, "%*s %4s %*s %*s %llu %63[^\n]", perms, &inode, name);
        counts = (abx_has_prefix(name, "/dev/zero (deleted)") && perms[3] == 's') ||
                 (abx_has_prefix(name, "/memfd:") && !knows(files, inode));
    }
    return sum;
}

/* --- one process ------------------------------------------------------------------------------------- */

/* Files that it has open and that no folder shows: in memory, or on the disk. */
static void read_open(int proc, abx__used *p, abx__usage *u, abx__inodes *files)
{
    char path[40], link[64];
    (void)snprintf(path, sizeof(path), "%d/fd", (int)p->pid);
    int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        ssize_t n = readlinkat(fd, d->d_name, link, sizeof(link) - 1);
        if (n <= 0 || link[0] != '/')
            continue;
        link[n] = 0;
        bool memfd = abx_has_prefix(link, "/memfd:");
        if (abx_has_prefix(link, "/dev/") || abx_has_prefix(link, "/run/") ||
            fstatat(fd, d->d_name, &st, 0) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0)
            continue;
        uint64_t bytes = (uint64_t)st.st_blocks * 512;
        if (memfd)
            p->held += bytes;
        if (!add_new(files, st.st_ino ^ (uint64_t)(memfd ? 0 : 1) << 63))
            continue;
        if (memfd)
            u->memory += bytes;
        else
            u->deleted += bytes;
    }
    if (dir)
        closedir(dir);
}

static void read_memory(int proc, abx__used *p, abx__usage *u)
{
    char text[TEXT];
    if (read_text(proc, p->pid, "status", text) <= 0)
        return;
    p->anon = field(text, "\nRssAnon:") * 1024;
    p->shared = field(text, "\nRssShmem:") * 1024;
    u->memory += p->anon + p->shared;
}

/* What several share counts once. */
static void refine_memory(int proc, abx__used *p, abx__usage *u, const abx__inodes *files)
{
    char text[TEXT], path[40];
    u->memory -= p->anon + p->shared;
    if (read_text(proc, p->pid, "smaps_rollup", text) > 0) {
        p->anon = field(text, "\nPss_Anon:") * 1024;
        if (p->shared > 0) {
            (void)snprintf(path, sizeof(path), "%d/smaps", (int)p->pid);
            ABX_AUTO_BUF all = ABX_BUF(8u << 20);
            if (abx_read_file_at(proc, path, all.max, &all, NULL) == 0 && all.data)
                p->shared = abx__smaps_shared((char *)all.data, files);
        }
    }
    u->memory += p->anon + p->shared;
}

static void read_cpu(int proc, abx__used *p)
{
    char text[TEXT];
    unsigned long long own = 0, kernel = 0, theirs = 0, their_kernel = 0;
    if (read_text(proc, p->pid, "stat", text) <= 0)
        return;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                     &own, &kernel, &theirs, &their_kernel) == 4)
        p->cpu_us =
            (own + kernel + theirs + their_kernel) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void read_written(int proc, abx__used *p)
{
    char text[TEXT];
    if (read_text(proc, p->pid, "io", text) > 0)
        p->written = field(text, "\nwrite_bytes:");
    p->passed = field(text, "wchar:");
}

/* --- all --------------------------------------------------------------------------------------------- */

static void list_processes(abx__usage *u)
{
    size_t room = 0;
    pid_t self = getpid();
    DIR *dir = opendir("/proc");
    for (struct dirent *d; dir && (d = readdir(dir));) {
        uint64_t pid = 0;
        if (abx_parse_uint(d->d_name, INT32_MAX, &pid) < 0 || (pid_t)pid == self)
            continue;
        if (u->count == room) {
            room = room ? room * 2 : 32;
            u->list = abx_realloc(u->list, room * sizeof(*u->list));
        }
        u->list[u->count++] = (abx__used){.pid = (pid_t)pid};
    }
    if (dir)
        closedir(dir);
}

static uint64_t own_cpu_us(void)
{
    static const int whom[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    uint64_t us = 0;
    for (size_t i = 0; i < ABX_COUNT(whom); i++) {
        struct rusage r;
        if (getrusage(whom[i], &r) == 0)
            us += (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
                  (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    }
    return us;
}

void abx__usage_read(abx__usage *u, int what, bool disk_is_memory)
{
    memset(u, 0, sizeof(*u));
    ABX_AUTO_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE abx__inodes *files = ABX_NEW(abx__inodes);
    bool memory = what & ABX__USE_MEMORY;
    list_processes(u);
    if (memory)
        u->memory = used_of("/dev/shm") + used_of("/run") + segments(proc) +
                    (disk_is_memory ? used_of("/") : 0);
    for (size_t i = 0; i < u->count; i++) {
        abx__used *p = &u->list[i];
        if (memory)
            read_memory(proc, p, u);
        if (memory || what & ABX__USE_DELETED)
            read_open(proc, p, u, files);
        if (what & ABX__USE_CPU)
            read_cpu(proc, p);
        if (what & ABX__USE_WRITTEN)
            read_written(proc, p);
        u->cpu_us += p->cpu_us;
    }
    for (size_t i = 0; memory && what & ABX__USE_EXACT && i < u->count; i++)
        refine_memory(proc, &u->list[i], u, files);
    if (what & ABX__USE_CPU)
        u->cpu_us += own_cpu_us();
}

void abx__usage_clear(abx__usage *u)
{
    free(u->list);
    memset(u, 0, sizeof(*u));
}
