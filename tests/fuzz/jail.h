/* A world of its own for a target whose code signals processes and connects to ports: new pid, mount and net namespaces with a
 * loopback, and an empty folder /mnt. The target goes on in a child; who was started waits for it. */
#ifndef ABX_TESTS_FUZZ_JAIL_H
#define ABX_TESTS_FUZZ_JAIL_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static inline void jail_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ABX_CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static inline void jail_ids(uid_t uid, gid_t gid)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "0 %u 1", uid);
    jail_write("/proc/self/uid_map", text);
    jail_write("/proc/self/setgroups", "deny");
    (void)snprintf(text, sizeof(text), "0 %u 1", gid);
    jail_write("/proc/self/gid_map", text);
}

static inline void jail_loopback(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    memcpy(request.ifr_name, "lo", sizeof("lo"));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ABX_CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0);
    close(fd);
}

/* What reads symbols for the fuzzer must not run meanwhile: it would be stopped with all others. */
static inline void jail_quiet(int *argc, char ***argv)
{
    static char quiet[] = "-print_funcs=0";
    static char *words[64];
    ABX_CHECK(*argc + 2 <= (int)ABX_COUNT(words));
    memcpy(words, *argv, (size_t)*argc * sizeof(*words));
    words[(*argc)++] = quiet;
    *argv = words;
}

static inline void jail_enter(void)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    ABX_CHECK(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | (uid ? CLONE_NEWUSER : 0)) == 0);
    if (uid)
        jail_ids(uid, gid);
    ABX_CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    pid_t child = fork();
    ABX_CHECK(child >= 0);
    if (child > 0) {
        int status = 0;
        while (waitpid(child, &status, 0) < 0)
            ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    ABX_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    ABX_CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
    ABX_CHECK(mount("tmpfs", "/mnt", "tmpfs", 0, "size=64m,mode=755") == 0);
    jail_loopback();
}

#endif
