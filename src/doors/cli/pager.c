#include "doors/cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

extern char **environ;

static const char *wanted(const abx_cli *cli)
{
    const char *pager = getenv("PAGER");
    bool asked = pager && pager[0] && strcmp(pager, "cat") != 0;
    bool person = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    return asked && person && !cli->no_input && cli->format <= ABX_OUT_WIDE ? pager : NULL;
}

/* Our environment, and LESS where it is not set: no pager for what fits on the screen. The list is the caller's. */
static char **pager_env(void)
{
    static char less[] = "LESS=FRX";
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = abx_alloc_array(n + 2, sizeof *env);
    memcpy(env, environ, n * sizeof *env);
    env[n] = getenv("LESS") ? NULL : less;
    env[n + 1] = NULL;
    return env;
}

/* PAGER is a line for a shell, as everywhere. It stays in our process group, or it could not read the terminal; SIGPIPE and
 * SIGINT are its own. */
static int spawn(const char *pager, int input, pid_t *pid)
{
    ABX_AUTO_FREE char *line = abx_strdup(pager);
    char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    ABX_CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attr) == 0);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    char **env = pager_env();
    int error = posix_spawn(pid, "/bin/sh", &actions, &attr, argv, env);
    free(env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return error;
}

int abx_pager_start(abx_cli *cli, abx_error **err)
{
    const char *pager = wanted(cli);
    if (!pager || cli->_pager > 0)
        return 0;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open a pipe");
    ABX_AUTO_FD read_end = ends[0];
    ABX_AUTO_FD write_end = ends[1];
    pid_t pid;
    int error = spawn(pager, read_end, &pid);
    if (error)
        return abx_fail_errno(err, ABX_ERR_FILE, error, "cannot start the pager '%s'", pager);
    if (dup2(write_end, STDOUT_FILENO) < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write to the pager '%s'", pager);
    cli->_pager = pid;
    if (!cli->_open)
        signal(SIGINT, SIG_IGN); /* the pager's, as long as it runs */
    return 0;
}

void abx_pager_finish(abx_cli *cli)
{
    if (cli->_pager <= 0)
        return;
    close(STDOUT_FILENO);
    while (waitpid(cli->_pager, NULL, 0) < 0 && errno == EINTR)
        continue;
    /* The place of standard output stays taken. */
    (void)open("/dev/null", O_WRONLY);
}
