#include "local/range_remove.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/file.h"
#include "base/mem.h"
#include "local/ids.h"

enum { MORE = 2 }; /* exit status of the child: its time was over */

static int wait_for(pid_t pid)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, __WALL);
    while (got < 0 && errno == EINTR);
    if (got != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == MORE ? 1 : WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* newuidmap PID 0 CALLER 1 1 SUB COUNT: root inside is the caller, so that both kinds of files can be removed. */
static int map_with(const char *program, pid_t pid, uint32_t caller, uint32_t sub, uint32_t count)
{
    char words[4][16];
    snprintf(words[0], sizeof(words[0]), "%d", (int)pid);
    snprintf(words[1], sizeof(words[1]), "%" PRIu32, caller);
    snprintf(words[2], sizeof(words[2]), "%" PRIu32, sub);
    snprintf(words[3], sizeof(words[3]), "%" PRIu32, count);
    char zero[] = "0", one[] = "1", path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char *argv[] = {
        (char *)(uintptr_t)program, words[0], zero, words[1], one, one, words[2], words[3], NULL};
    char *envp[] = {path, NULL};
    char where[64];
    pid_t child;
    snprintf(where, sizeof(where), "/usr/bin/%s", program);
    if (posix_spawn(&child, where, NULL, NULL, argv, envp) != 0)
        return -1;
    return wait_for(child);
}

static _Noreturn void remove_inside(int go, int dirfd, const char *name, uint64_t until_ms)
{
    char byte;
    if (read(go, &byte, 1) != 1)
        _exit(1);
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        _exit(1);
    int rc = abx_remove_tree_until(dirfd, name, until_ms, NULL);
    _exit(rc == 0 ? 0 : rc > 0 ? MORE : 1);
}

int abx_range_remove(int dirfd, const char *name, uint64_t until_ms)
{
    uint32_t uid, uids, gid, gids;
    int go[2];
    if (abx_subid_read(&uid, &uids, &gid, &gids, NULL) < 0 || pipe2(go, O_CLOEXEC) < 0)
        return -1;
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        close(go[1]);
        remove_inside(go[0], dirfd, name, until_ms);
    }
    close(go[0]);
    int rc = -1;
    if (pid > 0) {
        rc = map_with("newuidmap", pid, getuid(), uid, uids);
        if (rc == 0)
            rc = map_with("newgidmap", pid, getgid(), gid, gids);
        if (rc == 0 && abx_write_full(go[1], "G", 1) < 0)
            rc = -1;
    }
    close(go[1]);
    int ended = pid > 0 ? wait_for(pid) : -1;
    return rc < 0 ? rc : ended;
}
