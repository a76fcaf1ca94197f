/* The helper process: started beside pid 1, ready before that goes on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/create.h"
#include "local/state.h"
#include "local/uplink.h"

#define WORDS_MAX 48
#define TEXT_MAX  4096 /* of what a helper says before it ends */

/* Neither maps an address of its own to the loopback of the machine. Words in capitals are filled in by make_argv. */
static const char pasta_words[] =
    "RUNAS -f -q -4 -I " ABX_UPLINK_DEVICE " -a " ABX_UPLINK_ADDRESS " -n 24 -g " ABX_UPLINK_GATEWAY
    " -M " ABX_UPLINK_MAC
    " -t none -u none -T none -U none --no-map-gw --no-dhcp --no-ndp --no-dhcpv6 --no-ra"
    " --dns-forward " ABX_UPLINK_RESOLVER " --pid /proc/self/fd/1 PID";
static const char slirp_words[] =
    "-r 3 -m 65520 --disable-host-loopback SANDBOX --enable-seccomp PID " ABX_UPLINK_DEVICE;

typedef struct helper_row {
    const char *name, *words;
    int ready_fd; /* where it writes when it serves */
    bool
        ignores_pipe; /* it must be told to outlive a reader of what it says; pasta cares for itself, and minds being told */
} helper_row;

static const helper_row rows[] = {
    {"pasta", pasta_words, 1, false},
    {"slirp4netns", slirp_words, 3, true},
};

struct abx_uplink {
    void (*cb)(void *data, const abx_uplink_helper *helper, const abx_error *err);
    void *data;
    abx_uplink_helper helper;
    int ready, errors;
    uv_poll_t poll;
};

/* --- in the new process --------------------------------------------------------------------------------- */

typedef struct launch {
    const helper_row *row;
    const char *path;
    char **argv;
    int hold, ready, errors;
    pid_t target;
} launch;

static _Noreturn void give_up(const char *step)
{
    dprintf(2, "%s: %s\n", step, strerror(errno));
    _exit(127);
}

static void place_descriptors(const launch *l)
{
    int null = l->row->ready_fd == 1 ? l->ready : open("/dev/null", O_WRONLY | O_CLOEXEC);
    int from[4] = {l->hold, null, l->errors, l->ready}, n = l->row->ready_fd == 3 ? 4 : 3;
    for (int i = 0; i < n; i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16)) < 0)
            give_up("its descriptors");
    for (int i = 0; i < n; i++)
        if (dup2(from[i], i) < 0)
            give_up("its descriptors");
    if (syscall(SYS_close_range, n, ~0u, 0u) < 0)
        give_up("its descriptors");
}

/* From now on the end of pid 1 is ours. It may have come before: then the pipe says so. */
static void die_with_sandbox(void)
{
    struct pollfd p = {.fd = 0};
    if (fcntl(0, F_SETOWN, getpid()) < 0 || fcntl(0, F_SETSIG, SIGKILL) < 0 ||
        fcntl(0, F_SETFL, O_ASYNC) < 0)
        give_up("a signal for the end of the sandbox");
    if (poll(&p, 1, 0) != 0)
        _exit(127);
}

static _Noreturn void helper_main(const launch *l)
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *envp[] = {path, NULL};
    /* 0 would still start a program that core dumps are piped to; see rlimits.c */
    const struct rlimit no_core = {1, 1};
    sigset_t none;
    setsid();
    umask(077);
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, sig == SIGPIPE && l->row->ignores_pipe ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    place_descriptors(l);
    die_with_sandbox();
    abx_uplink_make_device(l->target);
    if (chdir("/") < 0)
        give_up("its working directory");
    execve(l->path, l->argv, envp);
    give_up(l->path);
}

/* --- in ours ------------------------------------------------------------------------------------------------ */

static const helper_row *row_of(const char *name)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (abx_str_eq(rows[i].name, name))
            return &rows[i];
    abx_check_failed(__FILE__, __LINE__, name);
}

/* text is cut into words in place. PID: the process whose namespaces are joined. RUNAS: a root caller's pasta would else
 * become nobody, who may join nothing; it gives up what root may by itself. SANDBOX: slirp4netns hides the machine's files
 * from itself, for which the sandbox must have an id 0. */
static void make_argv(const abx_uplink_choice *choice, char *text, char *pid, char *argv[WORDS_MAX])
{
    static char runas[] = "--runas", root[] = "0", sandbox[] = "--enable-sandbox";
    size_t n = 0;
    argv[n++] = (char *)(uintptr_t)choice->name;
    for (char *word; (word = strsep(&text, " ")) && n + 2 < WORDS_MAX;) {
        if (strcmp(word, "RUNAS") == 0 && geteuid() == 0) {
            argv[n++] = runas;
            argv[n++] = root;
        } else if (strcmp(word, "SANDBOX") == 0 && choice->has_root) {
            argv[n++] = sandbox;
        } else if (strcmp(word, "PID") == 0) {
            argv[n++] = pid;
        } else if (word[0] < 'A' || word[0] > 'Z') {
            argv[n++] = word;
        }
    }
    argv[n] = NULL;
}

static void bury(pid_t pid)
{
    if (kill(pid, SIGKILL) == 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

static void on_closed(uv_handle_t *handle)
{
    abx_uplink *u = (abx_uplink *)handle->data;
    abx_close_fd(&u->ready);
    abx_close_fd(&u->errors);
    free(u);
}

/* A line without the time that pasta puts in front; NULL for one that tells nothing. */
static const char *line_text(const char *line)
{
    const char *rest = line + strspn(line, "0123456789.");
    if (rest != line && abx_has_prefix(rest, ": "))
        line = rest + 2;
    return *line == 0 || abx_has_prefix(line, "Failed to send") ? NULL : line;
}

/* Why it ended: its last line that tells something. */
static abx_error *failure(const abx_uplink *u)
{
    char text[TEXT_MAX + 1];
    ssize_t n = read(u->errors, text, TEXT_MAX);
    const char *last = NULL;
    text[n > 0 ? n : 0] = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *told = line_text(line);
        last = told ? told : last;
    }
    abx_error *e =
        abx_error_new(ABX_ERR_ISOLATION, "this machine has no network for sandboxes: %s: %.200s",
                      u->helper.name, last ? last : "it ended without a word");
    abx_hint(&e, "docs/network.md says what %s needs", u->helper.name);
    if (last && strstr(last, "interface not usable"))
        abx_hint(&e, "the machine itself needs an IPv4 route to the internet (ip route show "
                     "default)");
    return e;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    abx_uplink *u = (abx_uplink *)poll->data;
    char byte[32];
    (void)status;
    (void)events;
    ssize_t n = read(u->ready, byte, sizeof(byte));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    uv_poll_stop(poll);
    bool is_zombie = false;
    ABX_AUTO_ERROR err = NULL;
    if (n <= 0 || abx_process_start(u->helper.pid, &u->helper.start, &is_zombie) < 0) {
        bury(u->helper.pid); /* after it what it said is whole */
        err = failure(u);
    }
    u->cb(u->data, err ? NULL : &u->helper, err);
    uv_close((uv_handle_t *)poll, on_closed);
}

static pid_t start_process(const abx_uplink_choice *choice, pid_t pid, int hold, int ready,
                           int errors)
{
    const helper_row *row = row_of(choice->name);
    char number[16], *argv[WORDS_MAX];
    ABX_AUTO_FREE char *words = abx_strdup(row->words);
    snprintf(number, sizeof(number), "%d", (int)pid);
    make_argv(choice, words, number, argv);
    launch l = {row, choice->path, argv, hold, ready, errors, pid};
    pid_t child = fork();
    if (child == 0)
        helper_main(&l);
    return child;
}

int abx_uplink_start(uv_loop_t *loop, const abx_uplink_choice *choice, pid_t pid, int hold,
                     void (*cb)(void *data, const abx_uplink_helper *helper, const abx_error *err),
                     void *data, abx_uplink **out, abx_error **err)
{
    int ready[2], errors[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return abx_shortage_error(err, errno, choice->name);
    if (pipe2(errors, O_CLOEXEC) < 0) {
        int e = errno;
        close(ready[0]);
        close(ready[1]);
        return abx_shortage_error(err, e, choice->name);
    }
    pid_t child = start_process(choice, pid, hold, ready[1], errors[1]);
    int e = errno;
    close(ready[1]);
    close(errors[1]);
    abx_uplink *u = ABX_NEW(abx_uplink);
    *u = (abx_uplink){.cb = cb,
                      .data = data,
                      .helper = {.name = choice->name, .pid = child},
                      .ready = ready[0],
                      .errors = errors[0]};
    if (child > 0 && fcntl(u->ready, F_SETFL, O_NONBLOCK) == 0 &&
        fcntl(u->errors, F_SETFL, O_NONBLOCK) == 0 && uv_poll_init(loop, &u->poll, u->ready) == 0) {
        u->poll.data = u;
        uv_poll_start(&u->poll, UV_READABLE, on_ready);
        *out = u;
        return 0;
    }
    if (child > 0)
        bury(child);
    close(ready[0]);
    close(errors[0]);
    free(u);
    return abx_shortage_error(err, child < 0 ? e : EMFILE, choice->name);
}

void abx_uplink_stop(abx_uplink *u)
{
    if (!u)
        return;
    bury(u->helper.pid);
    uv_poll_stop(&u->poll);
    uv_close((uv_handle_t *)&u->poll, on_closed);
}

/* --- later ------------------------------------------------------------------------------------------------------ */

/* A pidfd of that very process, or -1. */
static int open_helper(const abx_uplink_helper *h, const char *boot_id)
{
    char now[40];
    uint64_t start = 0;
    bool is_zombie = false;
    if (h->pid <= 0)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, h->pid, 0);
    if (fd < 0)
        return -1;
    abx_boot_id(now);
    if (!abx_str_eq(now, boot_id) || abx_process_start(h->pid, &start, &is_zombie) < 0 ||
        start != h->start)
        abx_close_fd(&fd);
    return fd;
}

bool abx_uplink_alive(const abx_uplink_helper *h, const char *boot_id)
{
    ABX_AUTO_FD fd = open_helper(h, boot_id);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&p, 1, 0) == 0; /* a zombie's is readable */
}

bool abx_uplink_end(const abx_uplink_helper *h, const char *boot_id)
{
    ABX_AUTO_FD fd = open_helper(h, boot_id);
    siginfo_t info;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd < 0)
        return false;
    bool lived = poll(&p, 1, 0) == 0;
    if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0)
        while (waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED) < 0 && errno == EINTR)
            ;
    return lived;
}
