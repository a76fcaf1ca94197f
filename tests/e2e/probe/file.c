/* Files, devices and other things by name that are not one's own. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe.h"

long list_folder(const char *path)
{
    DIR *d = opendir(path);
    if (!d)
        return -1;
    long n = 0;
    while (readdir(d))
        n++;
    (void)closedir(d);
    errno = ENODATA;
    return n > 2 ? 0 : -1;
}

/* "read PATH": a byte of a file, or an entry of a folder. */
static long try_read(char **args)
{
    char byte;
    if (list_folder(args[0]) == 0)
        return 0;
    if (errno == ENODATA)
        return -1;
    int fd = open(args[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    long n = read(fd, &byte, 1);
    errno = n == 0 ? ENODATA : errno;
    return n == 1 ? 0 : -1;
}

static long try_write(char **args)
{
    int fd = open(args[0], O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || !args[1] ? fd : write(fd, args[1], strlen(args[1]));
}

static int writable;

static int look(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)at;
    if (kind != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    (void)fprintf(stderr, "%s\n", path);
    writable++;
    (void)close(fd);
    return 0;
}

/* "any-writable FOLDER" */
static long try_any_writable(char **args)
{
    if (nftw(args[0], look, 16, FTW_PHYS) < 0)
        return -1;
    errno = EROFS;
    return writable > 0 ? 0 : -1;
}

/* Does this file hold the text? A limit keeps endless files out. */
static int holds(const char *path, const char *text)
{
    static char bytes[1 << 18];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    long n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    int found = n > 0 && memmem(bytes, (size_t)n, text, strlen(text)) != NULL;
    if (fd >= 0)
        (void)close(fd);
    if (found)
        (void)fprintf(stderr, "%s\n", path);
    return found;
}

/* "proc-tells TEXT": whether /proc shows it, of any process but this one and its own parts. */
static long try_proc_tells(char **args)
{
    static const char *const files[] = {"mountinfo", "mounts", "mountstats", "cgroup", "cmdline",
                                        "environ",   "comm",   "maps",       "status", "net/unix"};
    char path[300], link[512];
    int found = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        if (atoi(e->d_name) == getpid() || strcmp(e->d_name, "kmsg") == 0)
            continue;
        for (size_t i = 0; e->d_type == DT_DIR && i < sizeof files / sizeof *files; i++) {
            (void)snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, files[i]);
            found |= holds(path, args[0]);
        }
        (void)snprintf(path, sizeof(path), "/proc/%s", e->d_name);
        if (e->d_type == DT_REG && strcmp(e->d_name, "kcore") != 0)
            found |= holds(path, args[0]);
        (void)snprintf(path, sizeof(path), "/proc/%s/exe", e->d_name);
        long n = e->d_type == DT_DIR ? readlink(path, link, sizeof(link) - 1) : -1;
        link[n < 0 ? 0 : n] = 0;
        found |= strstr(link, args[0]) != NULL;
    }
    if (d)
        (void)closedir(d);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "/proc/self/%s", files[i]);
        found |= holds(path, args[0]);
    }
    errno = ENODATA;
    return found ? 0 : -1;
}

/* Descriptors that this program did not open. */
static long try_descriptors(char **args)
{
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 0;
    return -1;
}

/* "dots PATH": upwards from everywhere, then down. */
static long try_dots(char **args)
{
    static const char *const starts[] = {"/",    "/proc/self/cwd", "/proc/self/root", "/tmp",
                                         "/usr", "/dev",           "/proc/self/fd"};
    char path[1024];
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        int fd = open(starts[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        int up = 0;
        for (; fd >= 0 && up < 40; up++)
            fd = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)snprintf(path, sizeof(path), ".%s", args[0]);
        if (fd >= 0 && openat(fd, path, O_RDONLY | O_CLOEXEC) >= 0)
            return 0;
    }
    return -1;
}

/* "device KIND MAJOR MINOR": make a node, and open it. */
static long try_device(char **args)
{
    char path[64];
    mode_t kind = args[0][0] == 'b' ? S_IFBLK : S_IFCHR;
    (void)snprintf(path, sizeof(path), "/tmp/probe-node-%d", getpid());
    if (mknod(path, kind | 0600, makedev((unsigned)atoi(args[1]), (unsigned)atoi(args[2]))) < 0)
        return -1;
    long rc = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int why = errno;
    (void)unlink(path);
    errno = why;
    return rc;
}

static long try_link(char **args)
{
    return link(args[0], args[1]);
}

static long try_xattr(char **args)
{
    return setxattr(args[0], args[1], args[2], strlen(args[2]), 0);
}

static long try_signal(char **args)
{
    return kill(atoi(args[0]), 0);
}

static long try_pidfd(char **args)
{
    return syscall(SYS_pidfd_open, atoi(args[0]), 0);
}

static long try_shm(char **args)
{
    return shmget((key_t)atoi(args[0]), 0, 0);
}

static long try_mqueue(char **args)
{
    return mq_open(args[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* "change-exe PID": take hold of a program's file by its process, and change it. */
static long try_change_exe(char **args)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%s/exe", args[0]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : fchmod(fd, 0755);
}

const probe probes_file[] = {
    {"read", try_read},
    {"write", try_write},
    {"any-writable", try_any_writable},
    {"proc-tells", try_proc_tells},
    {"descriptors", try_descriptors},
    {"dots", try_dots},
    {"device", try_device},
    {"hard-link", try_link},
    {"xattr", try_xattr},
    {"signal", try_signal},
    {"pidfd", try_pidfd},
    {"sysv-shm", try_shm},
    {"mqueue", try_mqueue},
    {"change-exe", try_change_exe},
    {NULL, NULL},
};
