/* System calls that reach the machine itself, or kernel code that few programs need. */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

/* A call that needs no preparation: its number and arguments. */
typedef struct plain {
    const char *name;
    long nr;
    long args[6];
} plain;

#define TEXT(s) ((long)(uintptr_t)(s))

static const plain plains[] = {
    {"kexec-load", SYS_kexec_load, {0}},
    {"kexec-file-load", SYS_kexec_file_load, {-1, -1}},
    {"init-module", SYS_init_module, {0}},
    {"finit-module", SYS_finit_module, {-1}},
    {"swapon", SYS_swapon, {0}},
    {"swapoff", SYS_swapoff, {0}},
    {"acct", SYS_acct, {0}},
    {"quotactl", SYS_quotactl, {0x80000100 /* sync, of all */}},
    {"reboot", SYS_reboot, {(int)0xfee1dead, 672274793, 0x89abcdef /* what cad does */}},
    {"vhangup", SYS_vhangup, {0}},
    {"move-pages", SYS_move_pages, {1}},
#ifdef __x86_64__
    {"iopl", SYS_iopl, {3}},
    {"modify-ldt", SYS_modify_ldt, {0, 0, 0}},
    {"ioperm", SYS_ioperm, {0x80, 1, 1}},
#endif
};

static long try_plain(char **args)
{
    for (size_t i = 0; i < sizeof plains / sizeof *plains; i++) {
        const plain *p = &plains[i];
        if (strcmp(p->name, args[-1]) == 0)
            return syscall(p->nr, p->args[0], p->args[1], p->args[2], p->args[3], p->args[4],
                           p->args[5]);
    }
    errno = EINVAL;
    return -1;
}

static long try_migrate_pages(char **args)
{
    unsigned long nodes = 1;
    return syscall(SYS_migrate_pages, 1, 64, &nodes, &nodes);
}

static long try_delete_module(char **args)
{
    return syscall(SYS_delete_module, "probe", O_NONBLOCK);
}

static long try_sethostname(char **args)
{
    return sethostname(args[0], strlen(args[0]));
}

static long try_setdomainname(char **args)
{
    return setdomainname(args[0], strlen(args[0]));
}

static long try_settimeofday(char **args)
{
    struct timezone zone = {0, 0};
    return syscall(SYS_settimeofday, NULL, &zone);
}

static long try_clock_settime(char **args)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return syscall(SYS_clock_settime, CLOCK_REALTIME, &now);
}

static long try_adjtimex(char **args)
{
    struct timex t = {0};
    (void)syscall(SYS_adjtimex, &t); /* reads */
    t.modes = ADJ_TICK;
    return syscall(SYS_adjtimex, &t);
}

static long try_syslog(char **args)
{
    char text[256];
    return syscall(SYS_syslog, 3 /* read all */, text, sizeof(text));
}

static long try_bpf(char **args)
{
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY};
    attr.key_size = attr.value_size = 4;
    attr.max_entries = 1;
    return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static long try_perf(char **args)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static long try_io_uring(char **args)
{
    unsigned params[30] = {0};
    return syscall(SYS_io_uring_setup, 1, params);
}

static long try_userfaultfd(char **args)
{
    return syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);
}

static long try_fanotify(char **args)
{
    return syscall(SYS_fanotify_init, 0x200 /* only names */, O_RDONLY);
}

/* A file by its number: the classic way out of containers that share a file system with the host. */
static long try_handle(char **args)
{
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {.head = {.handle_bytes = 128}};
    int id;
    int root = open(args[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || name_to_handle_at(root, "", &handle.head, &id, AT_EMPTY_PATH) < 0)
        return -1;
    return open_by_handle_at(root, &handle.head, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static long try_personality(char **args)
{
    return personality(READ_IMPLIES_EXEC) < 0 ? -1 : 0;
}

static long try_add_key(char **args)
{
    return syscall(SYS_add_key, "user", "probe", "x", 1, -3 /* session */);
}

/* What the caller of the program has in its session keyring. */
static long try_session_key(char **args)
{
    char text[64];
    if (args[1] && syscall(SYS_add_key, "user", args[0], "secret", 6, -3) < 0)
        return -1;
    long key = syscall(SYS_keyctl, 10 /* search */, -3, "user", args[0], 0);
    return key < 0 ? -1 : syscall(SYS_keyctl, 11 /* read */, key, text, sizeof(text));
}

static long try_request_key(char **args)
{
    if (args[1] && syscall(SYS_add_key, "user", args[0], "secret", 6, -3) < 0)
        return -1;
    return syscall(SYS_request_key, "user", args[0], NULL, 0);
}

static long try_user_keyring(char **args)
{
    return syscall(SYS_keyctl, 0 /* its number */, -4 /* of the user */, 1);
}

#ifdef __x86_64__
static void call_32_bit(void)
{
    long result = 20; /* getpid of the 32-bit table */
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
}

static void call_x32(void)
{
    (void)syscall(0x40000000 + SYS_getpid);
}

/* A table of calls that the filter does not know. */
static long try_foreign(char **args)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (strcmp(args[-1], "x32-call") == 0 ? call_x32 : call_32_bit)();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    errno = EPERM;
    return WIFSIGNALED(status) ? -1 : 0;
}
#endif

/* "crash LIMIT": a core file, or a program outside that core_pattern starts for it as root. */
static long try_crash(char **args)
{
    int status = 0;
    rlim_t most = args[0] ? (rlim_t)strtoul(args[0], NULL, 10) : 0;
    struct rlimit limit = {most, most};
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setrlimit(RLIMIT_CORE, &limit);
        (void)raise(SIGSEGV);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    errno = ENODATA;
    return WIFSIGNALED(status) && WCOREDUMP(status) ? 0 : -1;
}

const probe probes_kernel[] = {
    {"kexec-load", try_plain},
    {"kexec-file-load", try_plain},
    {"init-module", try_plain},
    {"finit-module", try_plain},
    {"delete-module", try_delete_module},
    {"swapon", try_plain},
    {"swapoff", try_plain},
    {"acct", try_plain},
    {"quotactl", try_plain},
    {"reboot", try_plain},
    {"vhangup", try_plain},
    {"migrate-pages", try_migrate_pages},
    {"move-pages", try_plain},
    {"sethostname", try_sethostname},
    {"setdomainname", try_setdomainname},
    {"settimeofday", try_settimeofday},
    {"clock-settime", try_clock_settime},
    {"adjtimex", try_adjtimex},
    {"syslog", try_syslog},
    {"bpf", try_bpf},
    {"perf", try_perf},
    {"io-uring", try_io_uring},
    {"userfaultfd", try_userfaultfd},
    {"fanotify", try_fanotify},
    {"open-by-handle", try_handle},
    {"personality", try_personality},
    {"add-key", try_add_key},
    {"session-key", try_session_key},
    {"request-key", try_request_key},
    {"user-keyring", try_user_keyring},
    {"crash", try_crash},
#ifdef __x86_64__
    {"iopl", try_plain},
    {"ioperm", try_plain},
    {"modify-ldt", try_plain},
    {"int80-call", try_foreign},
    {"x32-call", try_foreign},
#endif
    {NULL, NULL},
};
