#include "spawn.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what it is started with ----------------------------------------------------------------------------------- */

static size_t count(char **list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Append "NAME=VALUE" (taken over), in the place of the same NAME. */
static void put(char ***list, char *entry)
{
    size_t n = count(*list), name = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < n; i++) {
        if (strncmp((*list)[i], entry, name) == 0) {
            free((*list)[i]);
            (*list)[i] = entry;
            return;
        }
    }
    *list = realloc(*list, (n + 2) * sizeof **list);
    if (!*list)
        abort();
    (*list)[n] = entry;
    (*list)[n + 1] = NULL;
}

static char *joined(const char *a, const char *middle, const char *b)
{
    char *out;
    if (asprintf(&out, "%s%s%s", a, middle, b) < 0)
        abort();
    return out;
}

static void put_map(char ***list, const epp_json *map)
{
    for (const epp_json *m = map ? map->first : NULL; m; m = m->next)
        put(list, joined(m->name, "=", m->text));
}

static void make_env(const epp_json *params, const box *b, bool terminal, plan *p)
{
    struct passwd *pw = getpwuid(getuid());
    const char *path = getenv("PATH"), *lang = getenv("LANG");
    put(&p->envp, joined("PATH", "=", path ? path : "/usr/bin:/bin"));
    put(&p->envp, joined("HOME", "=", b->home));
    put(&p->envp, joined("USER", "=", pw ? pw->pw_name : "user"));
    put(&p->envp, joined("LANG", "=", lang ? lang : "C.UTF-8"));
    put_map(&p->envp, epp_get(b->about, "env"));
    put_map(&p->envp, epp_get(params, "env"));
    if (terminal)
        put(&p->envp, joined("TERM", "=", epp_str(params, "term", "xterm-256color")));
}

static void make_argv(const epp_json *params, plan *p)
{
    const epp_json *cmd = epp_get(params, "cmd");
    size_t n = 0;
    for (const epp_json *a = cmd && cmd->type == '[' ? cmd->first : NULL; a; a = a->next)
        n++;
    p->argv = calloc(n + 4, sizeof *p->argv);
    if (!p->argv)
        abort();
    if (n > 0) {
        n = 0;
        for (const epp_json *a = cmd->first; a; a = a->next)
            p->argv[n++] = strdup(a->text);
    } else if (cmd) {
        p->argv[0] = strdup("sh");
        p->argv[1] = strdup("-c");
        p->argv[2] = strdup(cmd->text);
    } else { /* a terminal without a command: a shell */
        p->argv[0] = strdup(access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh");
    }
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_program(plan *p)
{
    const char *name = p->argv[0], *path = "";
    if (strchr(name, '/')) {
        p->program = joined(name[0] == '/' ? "" : p->cwd, name[0] == '/' ? "" : "/", name);
        return is_program(p->program);
    }
    for (size_t i = 0; p->envp[i]; i++)
        if (strncmp(p->envp[i], "PATH=", 5) == 0)
            path = p->envp[i] + 5;
    while (name[0] && *path) {
        size_t n = strcspn(path, ":");
        free(p->program);
        if (asprintf(&p->program, "%.*s/%s", (int)n, path, name) < 0)
            abort();
        if (is_program(p->program))
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

int plan_make(epp_call *call, const box *b, bool terminal, plan *p)
{
    unsigned char random[8];
    struct stat st;
    *p = (plan){0};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    strcpy(p->mark, "ABX_JOB=");
    for (int i = 0; i < 8; i++)
        sprintf(p->mark + 8 + 2 * i, "%02x", random[i]);
    snprintf(p->sandbox_mark, sizeof p->sandbox_mark, "ABX_SANDBOX=%s", b->id);
    const char *cwd = epp_str(call->params, "cwd", b->home);
    p->cwd = joined(cwd[0] == '/' ? "" : b->home, cwd[0] == '/' ? "" : "/", cwd);
    make_env(call->params, b, terminal, p);
    make_argv(call->params, p);
    if (stat(p->cwd, &st) < 0 || !S_ISDIR(st.st_mode))
        return epp_fail(call, "E6006", "'%s' is no folder", p->cwd);
    if (!find_program(p))
        return epp_fail(call, "E6006", "'%s' cannot be run: there is no such program", p->argv[0]);
    return 0;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

void plan_clear(plan *p)
{
    free_list(p->argv);
    free_list(p->envp);
    free(p->program);
    free(p->cwd);
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

/* In the child, where only few functions may be called. Does not return. */
static void become(const plan *p, char **envp, const int fds[3], bool terminal, int report)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    bool good = true;
    for (int i = 0; i < 3; i++)
        good = good && dup2(fds[i], i) == i;
    if (good && terminal)
        good = ioctl(0, TIOCSCTTY, 0) == 0;
    if (good && chdir(p->cwd) == 0)
        execve(p->program, p->argv, envp);
    int why = errno;
    ssize_t told = write(report, &why, sizeof why);
    _exit(told == sizeof why ? 127 : 126);
}

pid_t spawn(const plan *p, const int fds[3], bool terminal)
{
    int report[2], why = 0;
    size_t n = count(p->envp);
    char **envp = calloc(n + 3, sizeof *envp);
    if (!envp || pipe2(report, O_CLOEXEC) < 0) {
        free(envp);
        return -1;
    }
    memcpy(envp, p->envp, n * sizeof *envp);
    envp[n] = (char *)p->mark;
    envp[n + 1] = (char *)p->sandbox_mark;
    pid_t pid = fork();
    if (pid == 0)
        become(p, envp, fds, terminal, report[1]);
    close(report[1]);
    if (pid > 0 && read(report[0], &why, sizeof why) == sizeof why) {
        waitpid(pid, NULL, 0);
        pid = -1;
        errno = why;
    }
    close(report[0]);
    free(envp);
    return pid;
}

/* --- how it ended ---------------------------------------------------------------------------------------------------- */

static const char *const signals[] = {
    "",     "HUP",  "INT",  "QUIT",   "ILL",  "TRAP", "ABRT", "BUS",  "FPE",  "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",   "PWR",  "SYS"};

int signal_number(const char *word)
{
    if (isdigit((unsigned char)word[0])) {
        int n = atoi(word);
        return n > 0 && n < 32 ? n : -1;
    }
    if (strncasecmp(word, "SIG", 3) == 0)
        word += 3;
    for (int i = 1; i < 32; i++)
        if (strcasecmp(word, signals[i]) == 0)
            return i;
    return -1;
}

void add_end(epp_text *t, int status, bool timed_out)
{
    char name[16];
    if (WIFSIGNALED(status)) {
        snprintf(name, sizeof name, "SIG%s", WTERMSIG(status) < 32 ? signals[WTERMSIG(status)] : "RT");
        epp_member(t, "signal", name);
    } else {
        epp_number(t, "exitCode", WEXITSTATUS(status));
    }
    if (timed_out)
        epp_addf(t, ",\"timedOut\":true");
}

/* --- what is known of it ------------------------------------------------------------------------------------------------ */

void job_path(char out[640], const char *folder, pid_t pid, const char *ending)
{
    snprintf(out, 640, "%s/jobs/p%d.%s", folder, (int)pid, ending);
}

int note_job(const char *folder, pid_t pid, const plan *p, bool background)
{
    char path[640], id[24], at[32];
    epp_text t = {0};
    snprintf(id, sizeof id, "p%d", (int)pid);
    format_time(now_ms(), at);
    epp_add(&t, "{", 1);
    epp_member(&t, "id", id);
    epp_number(&t, "pid", pid);
    epp_member(&t, "cwd", p->cwd);
    epp_member(&t, "startedAt", at);
    epp_addf(&t, ",\"background\":%s,\"cmd\":[", background ? "true" : "false");
    for (size_t i = 0; p->argv[i]; i++) {
        epp_add(&t, ",", i > 0);
        epp_add_json(&t, p->argv[i], strlen(p->argv[i]));
    }
    epp_add(&t, "]", 1);
    epp_member(&t, "mark", p->mark);
    epp_number(&t, "keeper", getpid());
    epp_add(&t, "}", 1);
    job_path(path, folder, pid, "json");
    int rc = write_file(path, t.data, t.len);
    free(t.data);
    return rc;
}
