/* A process in the background outlives this program: a keeper (this program again, --keep) starts it, waits for it and writes
 * down its end; its output goes to files. Here is also what is known of processes: jobs/pPID.json, pPID.exit. */
#include "keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

extern char **environ;

/* --- the keeper -------------------------------------------------------------------------------------------------------- */

int start_background(epp_call *call, const box *b, const plan *p)
{
    int answer[2], why = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char timeout[24], id[24];
    size_t n = 0;
    pid_t pids[2] = {0, 0}; /* of the process; an errno when it could not be started */
    while (p->argv[n])
        n++;
    snprintf(timeout, sizeof timeout, "%lld", epp_int(call->params, "timeoutMs", 0));
    const char *head[] = {"keeper", "--keep", b->folder, b->id, timeout, p->mark, p->cwd, p->program};
    size_t heads = sizeof head / sizeof *head;
    char **argv = calloc(heads + n + 1, sizeof *argv);
    memcpy(argv, head, sizeof head);
    memcpy(argv + heads, p->argv, n * sizeof *argv);
    if (pipe2(answer, O_CLOEXEC) < 0)
        return epp_fail_errno(call, "pipe");
    pid_t keeper = fork();
    if (keeper == 0) {
        setsid();
        if (fork() != 0) /* nobody waits for it */
            _exit(0);
        dup2(null, 0);
        dup2(answer[1], 1);
        dup2(null, 2);
        execve("/proc/self/exe", argv, p->envp);
        _exit(127);
    }
    close(answer[1]);
    if (keeper < 0 || waitpid(keeper, NULL, 0) < 0 || read(answer[0], pids, sizeof pids) != sizeof pids)
        why = ECHILD;
    else if (pids[0] < 0)
        why = pids[1];
    close(answer[0]);
    close(null);
    free(argv);
    if (why)
        return epp_fail(call, "E6006", "'%s' cannot be run: %s", p->argv[0], strerror(why));
    snprintf(id, sizeof id, "p%d", (int)pids[0]);
    epp_member(&call->result, "id", id);
    epp_number(&call->result, "pid", pids[0]);
    return 0;
}

static void write_end(const char *folder, pid_t pid, int status, bool timed_out)
{
    char path[640];
    epp_text t = {0};
    epp_add(&t, "{", 1);
    add_end(&t, status, timed_out);
    epp_add(&t, "}", 1);
    job_path(path, folder, pid, "exit");
    write_file(path, t.data, t.len); /* fails when the sandbox has been ended */
    free(t.data);
}

/* Waits until it ends; its time limit and the life of its sandbox end it. */
static int wait_for(pid_t pid, long long timeout_ms, const char *mark, const char *id, bool *timed_out)
{
    int status = 0;
    struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    long long limit = timeout_ms ? now_ms() + timeout_ms : 0;
    for (;;) {
        long long left = limit && !*timed_out ? limit - now_ms() : 5000;
        if (poll(&p, 1, left < 0 ? 0 : left > 5000 ? 5000 : (int)left) > 0)
            break;
        if (limit && !*timed_out && now_ms() >= limit) {
            *timed_out = true;
            kill_marked(mark, pid);
        }
        box_lives(id); /* its life may be over, and nobody else may look */
    }
    waitpid(pid, &status, 0);
    return status;
}

int keep(int argc, char **argv)
{
    char path[640];
    if (argc < 9)
        return 2;
    const char *folder = argv[2], *id = argv[3];
    plan p = {.argv = argv + 8, .envp = environ, .program = argv[7], .cwd = argv[6]};
    snprintf(p.mark, sizeof p.mark, "%s", argv[5]);
    snprintf(p.sandbox_mark, sizeof p.sandbox_mark, "ABX_SANDBOX=%s", id);
    box_root(folder);
    int fds[3] = {0};
    for (int i = 1; i < 3; i++) {
        job_path(path, folder, getpid(), i == 1 ? "out" : "err");
        fds[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    }
    pid_t told[2] = {spawn(&p, fds, false), errno};
    for (int i = 1; i < 3 && told[0] > 0; i++) {
        char to[640];
        job_path(path, folder, getpid(), i == 1 ? "out" : "err");
        job_path(to, folder, told[0], i == 1 ? "out" : "err");
        rename(path, to);
        close(fds[i]);
    }
    if (told[0] > 0)
        note_job(folder, told[0], &p, true);
    if (write(1, told, sizeof told) != sizeof told || told[0] < 0)
        return 1;
    close(1);
    bool timed_out = false;
    int status = wait_for(told[0], atoll(argv[4]), p.mark, id, &timed_out);
    write_end(folder, told[0], status, timed_out);
    return 0;
}

/* --- what is known ----------------------------------------------------------------------------------------------------------- */

static bool lives(long long pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/stat", pid);
    char *text = read_file(path, NULL), *after = text ? strrchr(text, ')') : NULL;
    bool is = after && after[1] && after[2] != 'Z';
    free(text);
    return is;
}

static epp_json *read_json(const box *b, const char *id, const char *ending)
{
    char path[700];
    size_t n;
    snprintf(path, sizeof path, "%s/jobs/%.32s.%s", b->folder, id, ending);
    char *text = read_file(path, &n);
    epp_json *v = text ? epp_parse(text, n) : NULL;
    free(text);
    return v;
}

/* What is known of a process: *job, and *end (an empty object when nobody has seen it; NULL: it runs). 0, or -1: failed with E3003. */
static int read_job(epp_call *call, const box *b, const char *id, epp_json **job, epp_json **end)
{
    *job = *end = NULL;
    if (id[0] == 'p' && strspn(id + 1, "0123456789") == strlen(id) - 1)
        *job = read_json(b, id, "json");
    if (!*job)
        return call ? epp_fail(call, "E3003", "there is no process '%s'", id) : -1;
    bool alive = lives(epp_int(*job, "pid", 0)) || lives(epp_int(*job, "keeper", 0)); /* asked before its end is looked for */
    *end = read_json(b, id, "exit");
    if (!*end && !alive)
        *end = epp_parse("{}", 2);
    return 0;
}

static void add_json_end(epp_text *t, const epp_json *end)
{
    const char *signal = epp_str(end, "signal", NULL);
    epp_member(t, "signal", signal);
    if (!signal && epp_get(end, "exitCode"))
        epp_number(t, "exitCode", epp_int(end, "exitCode", 0));
    if (epp_is(end, "timedOut"))
        epp_addf(t, ",\"timedOut\":true");
}

static void add_job(epp_text *t, const epp_json *job, const epp_json *end)
{
    const epp_json *cmd = epp_get(job, "cmd");
    epp_addf(t, "%s{", t->data[t->len - 1] == '[' ? "" : ",");
    epp_member(t, "id", epp_str(job, "id", ""));
    epp_number(t, "pid", epp_int(job, "pid", 0));
    epp_addf(t, ",\"cmd\":[");
    for (const epp_json *a = cmd->first; a; a = a->next) {
        epp_add(t, ",", a != cmd->first);
        epp_add_json(t, a->text, a->len);
    }
    epp_addf(t, "],\"background\":%s", epp_is(job, "background") ? "true" : "false");
    epp_member(t, "cwd", epp_str(job, "cwd", NULL));
    epp_member(t, "startedAt", epp_str(job, "startedAt", NULL));
    epp_member(t, "state", end ? "exited" : "running");
    if (end)
        add_json_end(t, end);
    epp_add(t, "}", 1);
}

int process_list(epp_call *call)
{
    box b;
    char folder[640];
    struct dirent *e;
    if (box_of(call, &b) < 0)
        return -1;
    snprintf(folder, sizeof folder, "%s/jobs", b.folder);
    DIR *d = opendir(folder);
    epp_addf(&call->result, "\"processes\":[");
    while (d && (e = readdir(d))) {
        epp_json *job, *end;
        char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0)
            continue;
        *dot = 0;
        if (read_job(NULL, &b, e->d_name, &job, &end) == 0)
            add_job(&call->result, job, end);
        epp_free(job);
        epp_free(end);
    }
    if (d)
        closedir(d);
    epp_add(&call->result, "]", 1);
    box_clear(&b);
    return 0;
}

int process_signal(epp_call *call)
{
    box b;
    epp_json *job, *end;
    const char *word = epp_str(call->params, "signal", "");
    int number = signal_number(word);
    if (number < 0)
        return epp_fail(call, "E1001", "'%s' is no signal", word);
    if (box_of(call, &b) < 0)
        return -1;
    int rc = read_job(call, &b, epp_str(call->params, "processId", ""), &job, &end);
    if (rc == 0 && (end || kill((pid_t)-epp_int(job, "pid", 0), number) < 0))
        rc = epp_fail(call, "E3003", "process '%s' has ended", epp_str(job, "id", ""));
    if (rc == 0 && number == SIGKILL)
        kill_marked(epp_str(job, "mark", ""), 0);
    epp_free(job);
    epp_free(end);
    box_clear(&b);
    return rc;
}

/* --- attaching ------------------------------------------------------------------------------------------------------------------ */

static const char *const channels[2] = {"stdout", "stderr"};

static int open_outputs(epp_call *call, const box *b, const char *id, int fds[2])
{
    const epp_json *from = epp_get(call->params, "fromOffset");
    for (int i = 0; i < 2; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/jobs/%s.%s", b->folder, id, channels[i] + 3);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0)
            return epp_fail(call, "E4001", "process '%s' runs in the foreground: its output is its caller's", id);
        lseek(fds[i], from ? epp_int(from, channels[i], 0) : 0, from ? SEEK_SET : SEEK_END);
    }
    return 0;
}

/* What is there now. 0, or -1: the call was cancelled. */
static int send_outputs(epp_call *call, const int fds[2])
{
    char part[CHUNK];
    ssize_t n;
    for (int i = 0; i < 2; i++)
        while ((n = read(fds[i], part, sizeof part)) > 0)
            if (epp_send(call, "process.output", channels[i], part, (size_t)n) < 0)
                return -1;
    return epp_is_cancelled(call) ? -1 : 0;
}

static int follow_outputs(epp_call *call, const box *b, const char *id, const int fds[2])
{
    const epp_json *follow = epp_get(call->params, "follow");
    for (;;) {
        epp_json *job, *end;
        if (read_job(call, b, id, &job, &end) < 0)
            return -1;
        epp_free(job);
        int rc = send_outputs(call, fds); /* after its end was looked for: all that it wrote is there */
        if (rc == 0 && end) {
            epp_text t = {0};
            add_json_end(&t, end);
            epp_notify(call, "process.exit", t.data);
            if (t.data)
                epp_addf(&call->result, ",%s", t.data);
            free(t.data);
        }
        bool over = rc < 0 || end || (follow && follow->type == 'f');
        epp_free(end);
        if (over)
            return rc;
        usleep(20000);
    }
}

int process_attach(epp_call *call)
{
    box b;
    epp_json *job, *end;
    int fds[2] = {-1, -1};
    const char *id = epp_str(call->params, "processId", "");
    if (epp_accept(call, "sandboxId processId fromOffset follow") < 0 || box_of(call, &b) < 0)
        return -1;
    int rc = read_job(call, &b, id, &job, &end);
    if (rc == 0)
        rc = open_outputs(call, &b, id, fds);
    if (rc == 0) {
        epp_member(&call->result, "id", id);
        epp_number(&call->result, "pid", epp_int(job, "pid", 0));
        epp_notify(call, "process.started", call->result.data);
        rc = follow_outputs(call, &b, id, fds);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    epp_free(job);
    epp_free(end);
    box_clear(&b);
    return rc;
}
