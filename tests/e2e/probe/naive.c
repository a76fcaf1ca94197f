#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static void need(long rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "probe: naive sandbox: %s: %s\n", what, strerrorname_np(errno));
    _exit(2);
}

static void write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    need(fd, path);
    need(write(fd, text, strlen(text)), path);
    need(close(fd), path);
}

static void map_ids(void)
{
    char uids[64], gids[64];
    (void)snprintf(uids, sizeof(uids), "0 %d 1", (int)geteuid());
    (void)snprintf(gids, sizeof(gids), "0 %d 1", (int)getegid());
    need(unshare(CLONE_NEWUSER), "unshare");
    write_to("/proc/self/setgroups", "deny");
    write_to("/proc/self/uid_map", uids);
    write_to("/proc/self/gid_map", gids);
}

static void lay_file(const char *at)
{
    static const char text[] = "secret\n";
    need(mount("none", "/mnt", "tmpfs", 0, "mode=755"), "/mnt");
    int fd = open("/mnt/file", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    need(fd, "/mnt/file");
    need(write(fd, text, sizeof(text) - 1), "/mnt/file");
    need(close(fd), "/mnt/file");
    struct stat st;
    if (stat(at, &st) < 0) { /* this machine lacks it */
        const char *top = strncmp(at, "/dev/", 5) == 0 ? "/dev" : "/proc";
        need(mount("none", top, "tmpfs", 0, "mode=755"), top);
        char folder[256];
        for (const char *slash = at + 1; (slash = strchr(slash, '/')); slash++) {
            (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - at), at);
            (void)mkdir(folder, 0755);
        }
        fd = open(at, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
        need(fd, at);
        need(close(fd), at);
    }
    need(mount("/mnt/file", at, NULL, MS_BIND, NULL), at);
}

static void on_term(int sig)
{
    (void)sig;
    _exit(0); /* whoever made pid 1 end has won */
}

static int code_of(pid_t pid)
{
    int status;
    for (pid_t got; (got = waitpid(pid, &status, 0)) != pid;)
        if (got < 0 && errno != EINTR)
            return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

void enter_naive(const char *at)
{
    map_ids();
    need(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_NEWCGROUP),
         "unshare");
    (void)fflush(NULL);
    pid_t init = fork();
    need(init, "fork");
    if (init > 0)
        _exit(code_of(init));
    need(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
    need(setsid(), "setsid"); /* a scheduling group of its own: the first of a machine has none */
    need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
    need(mount("proc", "/proc", "proc", 0, NULL), "/proc");
    if (at)
        lay_file(at);
    need(setenv("SECRET", "of-pid-1", 1), "setenv");
    struct sigaction action = {.sa_handler = on_term};
    need(sigaction(SIGTERM, &action, NULL), "sigaction");
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t pid = fork();
    need(pid, "fork");
    if (pid > 0)
        _exit(code_of(pid));
}
