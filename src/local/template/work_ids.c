/* The ids of a process that works on the files of sandboxes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/ids.h"
#include "local/template/work.h"

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    abx_close_fd(&fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* All files are the caller's: as root of a namespace of its own he can reach each of them, whatever its mode. Where there is no
 * namespace to be had, most can be reached all the same. */
static void take_single(void)
{
    char uid_map[40], gid_map[40];
    (void)snprintf(uid_map, sizeof(uid_map), "1000 %u 1\n", (unsigned)geteuid());
    (void)snprintf(gid_map, sizeof(gid_map), "1000 %u 1\n", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) < 0)
        return;
    (void)write_text("/proc/self/setgroups", "deny");
    (void)write_text("/proc/self/uid_map", uid_map);
    (void)write_text("/proc/self/gid_map", gid_map);
}

/* newuidmap PID 0 SUB 1000 1000 CALLER 1 1001 SUB+1000 REST: as in the sandboxes. */
static int map_with(const char *program, pid_t pid, uint32_t caller, uint32_t sub, uint32_t count)
{
    abx_id_line lines[3];
    char words[10][16], where[64], path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char *argv[12] = {(char *)(uintptr_t)program, words[0]}, *envp[] = {path, NULL};
    int status = 0;
    pid_t child;
    size_t n = abx_id_range_lines(caller, sub, count, lines);
    (void)snprintf(words[0], sizeof(words[0]), "%d", (int)pid);
    for (size_t i = 0; i < n; i++) {
        const uint32_t values[3] = {lines[i].inside, lines[i].outside, lines[i].count};
        for (size_t j = 0; j < 3; j++) {
            (void)snprintf(words[1 + 3 * i + j], sizeof(words[0]), "%" PRIu32, values[j]);
            argv[2 + 3 * i + j] = words[1 + 3 * i + j];
        }
    }
    (void)snprintf(where, sizeof(where), "/usr/bin/%s", program);
    if (posix_spawn(&child, where, NULL, NULL, argv, envp) != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* Wait for the one who works; who cancels the work means that one. Its exit code. */
static int wait_for_it(pid_t pid)
{
    const struct timespec look = {.tv_sec = 1};
    sigset_t set;
    int status = 0;
    pid_t got;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR))
        if (sigtimedwait(&set, NULL, &look) == SIGTERM)
            (void)kill(pid, SIGTERM);
    return got == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The range's maps are written from outside: this process forks, the child goes on with the work, the parent maps, waits for it
 * and ends as it ends. */
static int take_range(abx_error **err)
{
    uint32_t uid, uids, gid, gids;
    int born[2], go[2];
    char byte = 0;
    if (abx_subid_read(&uid, &uids, &gid, &gids, err) < 0)
        return -1;
    uid_t me = geteuid();
    gid_t group = getegid();
    if (pipe2(born, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a pipe");
    pid_t pid = fork();
    if (pid < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot start a process");
    if (pid == 0) {
        close(go[1]);
        close(born[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int rc = unshare(CLONE_NEWUSER);
        if (rc < 0 || abx_write_full(born[1], "b", 1) < 0 || read(go[0], &byte, 1) != 1)
            return abx_fail(err, ABX_ERR_ISOLATION,
                            "layer 'range' is refused: no ids could be mapped");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[0]);
        close(born[1]);
        return 0;
    }
    close(go[0]);
    close(born[1]);
    if (read(born[0], &byte, 1) == 1 && map_with("newuidmap", pid, me, uid, uids) == 0 &&
        map_with("newgidmap", pid, group, gid, gids) == 0)
        (void)!write(go[1], "g", 1);
    close(go[1]);
    _exit(wait_for_it(pid));
}

int abx_work_take_ids(abx_ids ids, abx_error **err)
{
    if (ids == ABX_IDS_RANGE)
        return take_range(err);
    if (ids == ABX_IDS_SINGLE)
        take_single();
    return 0;
}
