/* process.* and pty.* in the foreground: a process that hangs on a pipe, or a terminal, of this program and ends with it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keep.h"
#include "spawn.h"

#define CHUNK (128 * 1024)

typedef struct running {
    epp_call *call;
    const box *box;
    const plan *plan;
    pid_t pid;
    const char *kind; /* "process", "pty" */
    int out[2];       /* stdout and stderr, or the terminal and -1 */
    int input;        /* -1: closed */
    uint8_t *given;   /* the whole input, or NULL */
    size_t given_len;
    pthread_mutex_t input_lock;
    bool ended;
    struct running *next;
} running;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static running *all;

static void kill_it(void *data)
{
    running *r = data;
    kill_marked(r->plan->mark, r->ended ? 0 : r->pid);
}

/* For who gives up: the thread that reads must not wait for the end of a search. */
static void kill_now(void *data)
{
    running *r = data;
    if (!r->ended)
        kill(-r->pid, SIGKILL);
}

void end_processes(void)
{
    pthread_mutex_lock(&lock);
    for (running *r = all; r; r = r->next)
        kill_it(r);
    pthread_mutex_unlock(&lock);
}

/* --- following ---------------------------------------------------------------------------------------------------------- */

/* 1 more may come, 0 it has ended, -1 the call was cancelled. */
static int pass_on(running *r, int which, uint8_t *part)
{
    char method[32];
    bool terminal = strcmp(r->kind, "pty") == 0;
    ssize_t n = read(r->out[which], part, CHUNK);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    snprintf(method, sizeof method, "%s.output", r->kind);
    return epp_send(r->call, method, terminal ? NULL : which ? "stderr" : "stdout", part, (size_t)n) < 0 ? -1 : 1;
}

static int left_ms(long long deadline, bool timed_out)
{
    struct timespec t;
    if (deadline == 0 || timed_out)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long left = deadline - ((long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
    return left > 0 ? (int)(left < 1000000 ? left : 1000000) : 0;
}

/* Passes on what comes until the process ends: what others still hold open does not delay it. 0, or -1: the call was cancelled. */
static int copy_output(running *r, long long timeout_ms, bool *timed_out)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long deadline = timeout_ms ? (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000 + timeout_ms : 0;
    int ended = (int)syscall(SYS_pidfd_open, r->pid, 0), rc = 0;
    uint8_t *part = malloc(CHUNK);
    struct pollfd fds[3] = {{r->out[0], POLLIN, 0}, {r->out[1], POLLIN, 0}, {ended, POLLIN, 0}};
    while (rc >= 0 && (fds[0].fd >= 0 || fds[1].fd >= 0 || fds[2].fd >= 0)) {
        int ready = poll(fds, 3, fds[2].fd < 0 ? 0 : left_ms(deadline, *timed_out));
        if (ready == 0 && fds[2].fd < 0)
            break; /* it has ended, and nothing waits */
        if (ready == 0 && left_ms(deadline, *timed_out) == 0) {
            *timed_out = true;
            kill_it(r);
        }
        for (int i = 0; i < 2 && rc >= 0; i++)
            if (fds[i].revents && (rc = pass_on(r, i, part)) == 0)
                fds[i].fd = -1;
        if (fds[2].revents)
            fds[2].fd = -1;
        for (int i = 0; i < 3; i++)
            fds[i].revents = 0;
    }
    free(part);
    close(ended);
    return rc < 0 ? -1 : 0;
}

static void tell_start(running *r)
{
    char method[32], id[24];
    epp_text t = {0};
    snprintf(method, sizeof method, "%s.started", r->kind);
    snprintf(id, sizeof id, "p%d", (int)r->pid);
    epp_member(&t, "id", id);
    epp_number(&t, "pid", r->pid);
    epp_notify(r->call, method, t.data);
    epp_add(&r->call->result, t.data, t.len);
    free(t.data);
}

static int tell_end(running *r, int status, bool timed_out)
{
    char method[32];
    epp_text t = {0};
    if (access(r->box->folder, F_OK) < 0)
        return epp_fail(r->call, "E6004", "sandbox '%s' was ended", r->box->id);
    snprintf(method, sizeof method, "%s.exit", r->kind);
    add_end(&t, status, timed_out);
    epp_notify(r->call, method, t.data);
    epp_addf(&r->call->result, ",%s", t.data);
    free(t.data);
    return 0;
}

static void enter(running *r)
{
    pthread_mutex_init(&r->input_lock, NULL);
    pthread_mutex_lock(&lock);
    r->next = all;
    all = r;
    pthread_mutex_unlock(&lock);
    note_job(r->box->folder, r->pid, r->plan, false);
    epp_on_cancel(r->call, kill_now, r);
}

static void leave(running *r)
{
    char path[640];
    epp_on_cancel(r->call, NULL, NULL);
    pthread_mutex_lock(&lock);
    running **at = &all;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&r->input_lock); /* nobody writes any more */
    if (r->input >= 0)
        close(r->input);
    pthread_mutex_unlock(&r->input_lock);
    job_path(path, r->box->folder, r->pid, "json");
    unlink(path);
}

/* The whole life of a process that runs. */
static int follow(running *r)
{
    int status = 0;
    bool timed_out = false;
    enter(r);
    tell_start(r);
    int rc = copy_output(r, epp_int(r->call->params, "timeoutMs", 0), &timed_out);
    if (rc < 0 || epp_is_cancelled(r->call))
        kill_it(r);
    pthread_mutex_lock(&lock);
    waitpid(r->pid, &status, 0);
    r->ended = true;
    pthread_mutex_unlock(&lock);
    if (rc == 0)
        rc = tell_end(r, status, timed_out);
    leave(r);
    return rc;
}

/* --- input ------------------------------------------------------------------------------------------------------------- */

/* 0, or -1 when nobody reads it any more. Waits for a slow reader, not for one that has gone. */
static int feed(running *r, const uint8_t *bytes, size_t n)
{
    int rc = 0;
    pthread_mutex_lock(&r->input_lock);
    while (n > 0 && rc == 0) {
        struct pollfd p = {r->input, POLLOUT, 0};
        if (r->input < 0 || r->ended)
            rc = -1;
        else if (poll(&p, 1, 50) > 0) {
            ssize_t part = write(r->input, bytes, n);
            rc = part < 0 && errno != EAGAIN && errno != EINTR ? -1 : 0;
            if (part > 0) {
                bytes += part;
                n -= (size_t)part;
            }
        }
    }
    pthread_mutex_unlock(&r->input_lock);
    return rc;
}

static void close_input(running *r)
{
    pthread_mutex_lock(&r->input_lock);
    if (r->input >= 0)
        close(r->input);
    r->input = -1;
    pthread_mutex_unlock(&r->input_lock);
}

static void *give(void *data)
{
    running *r = data;
    feed(r, r->given, r->given_len); /* that it is not read to the end is its own matter */
    close_input(r);
    return NULL;
}

/* The process in the foreground that a parameter names, or NULL: failed. It stays while the list is locked: unlock then. */
static running *find(epp_call *call, const char *name)
{
    box b;
    const char *id = epp_str(call->params, name, "");
    if (box_of(call, &b) < 0)
        return NULL;
    box_clear(&b);
    pthread_mutex_lock(&lock);
    running *r = all;
    while (r && (atoi(id + (id[0] == 'p')) != r->pid || strcmp(r->box->id, b.id) != 0))
        r = r->next;
    if (r)
        return r;
    pthread_mutex_unlock(&lock);
    epp_fail(call, "E3003", "no '%s' runs here with an open input", id);
    return NULL;
}

int process_stdin(epp_call *call)
{
    bool terminal = strncmp(call->method, "pty", 3) == 0;
    uint8_t *bytes;
    size_t n;
    int rc;
    running *r = find(call, terminal ? "ptyId" : "processId");
    if (!r)
        return -1;
    int input = r->input < 0 ? -1 : fcntl(r->input, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&lock);
    /* A descriptor of our own: the process may end meanwhile, and its record with it. */
    running own = {.input = input, .input_lock = PTHREAD_MUTEX_INITIALIZER};
    while ((rc = epp_body(call, &bytes, &n)) > 0) {
        bool read = feed(&own, bytes, n) == 0;
        free(bytes);
        if (!read || epp_is_cancelled(call)) {
            close_input(&own);
            return epp_fail(call, "E3003", "the process does not read its input any more");
        }
    }
    close_input(&own);
    return rc < 0 || !epp_is(call->params, "close") ? rc : process_close_stdin(call);
}

int process_close_stdin(epp_call *call)
{
    running *r = find(call, "processId");
    if (!r)
        return -1;
    close_input(r);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* --- starting -------------------------------------------------------------------------------------------------------------- */

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int start_foreground(epp_call *call, const box *b, const plan *p)
{
    bool streams = strcmp(epp_str(call->params, "stdin", ""), "stream") == 0 || epp_get(call->params, "input");
    int pipes[6] = {-1, -1, -1, -1, -1, -1}; /* input, output, errors: each reading end, writing end */
    bool good = (streams ? pipe2(pipes, O_CLOEXEC) : (pipes[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 ? -1 : 0) == 0 &&
                pipe2(pipes + 2, O_CLOEXEC) == 0 && pipe2(pipes + 4, O_CLOEXEC) == 0;
    pid_t pid = good ? spawn(p, (int[3]){pipes[0], pipes[3], pipes[5]}, false) : -1;
    if (pid < 0) {
        epp_fail(call, "E6006", "'%s' cannot be run: %s", p->argv[0], strerror(errno));
        close_all(pipes, 6);
        return -1;
    }
    close_all((int[]){pipes[0], pipes[3], pipes[5]}, 3);
    if (pipes[1] >= 0)
        fcntl(pipes[1], F_SETFL, O_NONBLOCK);
    running r = {.call = call, .box = b, .plan = p, .pid = pid, .kind = "process", .out = {pipes[2], pipes[4]}, .input = pipes[1]};
    pthread_t giver;
    bool gives = epp_get(call->params, "input") != NULL;
    pthread_mutex_init(&r.input_lock, NULL);
    if (gives) {
        r.given = epp_bytes(epp_get(call->params, "input"), &r.given_len);
        gives = pthread_create(&giver, NULL, give, &r) == 0;
    }
    int rc = follow(&r);
    if (gives)
        pthread_join(giver, NULL);
    free(r.given);
    close_all(r.out, 2);
    return rc;
}

int process_start(epp_call *call)
{
    box b;
    plan p;
    if (epp_accept(call, "sandboxId cmd shell cwd env stdin input background timeoutMs") < 0 || box_of(call, &b) < 0)
        return -1;
    int rc = plan_make(call, &b, false, &p);
    if (rc == 0)
        rc = epp_is(call->params, "background") ? start_background(call, &b, &p) : start_foreground(call, &b, &p);
    plan_clear(&p);
    box_clear(&b);
    return rc;
}

/* --- terminals --------------------------------------------------------------------------------------------------------------- */

static int set_size(int fd, const epp_json *params)
{
    struct winsize size = {.ws_row = (unsigned short)epp_int(params, "rows", 24), .ws_col = (unsigned short)epp_int(params, "cols", 80)};
    return ioctl(fd, TIOCSWINSZ, &size);
}

/* The two ends of a new terminal. 0 or -1. */
static int open_terminal(int *master, int *slave)
{
    char name[64];
    *slave = -1;
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0 || grantpt(*master) < 0 || unlockpt(*master) < 0 || ptsname_r(*master, name, sizeof name) != 0)
        return -1;
    *slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return *slave < 0 ? -1 : 0;
}

int pty_open(epp_call *call)
{
    box b;
    plan p;
    int master = -1, slave = -1;
    if (epp_accept(call, "sandboxId cmd cols rows term cwd env timeoutMs") < 0 || box_of(call, &b) < 0)
        return -1;
    int rc = plan_make(call, &b, true, &p);
    if (rc == 0) {
        bool good = open_terminal(&master, &slave) == 0 && set_size(master, call->params) == 0;
        pid_t pid = good ? spawn(&p, (int[3]){slave, slave, slave}, true) : -1;
        close_all(&slave, 1);
        running r = {.call = call, .box = &b, .plan = &p, .pid = pid, .kind = "pty", .out = {master, -1},
                     .input = fcntl(master, F_DUPFD_CLOEXEC, 3)};
        rc = pid > 0 ? follow(&r) : epp_fail(call, "E6006", "no terminal could be opened: %s", strerror(errno));
        close_all(&master, 1);
    }
    plan_clear(&p);
    box_clear(&b);
    return rc;
}

int pty_resize(epp_call *call)
{
    running *r = find(call, "ptyId");
    if (!r)
        return -1;
    set_size(r->input, call->params);
    pthread_mutex_unlock(&lock);
    return 0;
}

int pty_close(epp_call *call)
{
    running *r = find(call, "ptyId");
    if (!r)
        return -1;
    kill_now(r);
    pthread_mutex_unlock(&lock);
    return 0;
}
