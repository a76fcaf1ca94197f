/* What an attacker would do with native code in the process of a module. Two programs are made of this: js_probe tries by name from outside,
 * "js_probe NAME [ARGUMENT]", and abx_with_probe is the whole program with a global function probe(NAME, ARGUMENT) for modules.
 * Each answers "done …", or "refused: ERRNO". */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char detail[512];

static long as_pid(const char *text)
{
    return strtol(text, NULL, 10);
}

static long reading(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, detail, sizeof(detail) - 1);
    detail[n > 0 ? n : 0] = 0;
    close(fd);
    return n < 0 ? -1 : 0;
}

static long writing(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n = fd < 0 ? -1 : write(fd, "x", 1);
    if (fd >= 0)
        close(fd);
    return n;
}

static long executing(const char *path)
{
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    return execve(path, argv, argv + 1);
}

static long forking(const char *unused)
{
    (void)unused;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -1 : waitpid(pid, NULL, 0);
}

static long tracing(const char *pid)
{
    long rc = ptrace(PTRACE_SEIZE, (pid_t)as_pid(pid), NULL, NULL);
    if (rc == 0)
        ptrace(PTRACE_DETACH, (pid_t)as_pid(pid), NULL, NULL);
    return rc;
}

static long signalling(const char *pid)
{
    return kill((pid_t)as_pid(pid), SIGURG);
}

static long queueing(const char *pid)
{
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, as_pid(pid), SIGURG, &info);
}

/* Memory of another process, at the address of its argument list. */
static long reading_memory(const char *pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/maps", as_pid(pid));
    FILE *maps = fopen(path, "re");
    unsigned long start = 0;
    if (!maps)
        return -1;
    while (fgets(text, sizeof text, maps) && start == 0)
        if (strstr(text, "[stack]"))
            start = strtoul(text, NULL, 16);
    fclose(maps);
    struct iovec here = {detail, 16}, there = {(void *)start, 16};
    return process_vm_readv((pid_t)as_pid(pid), &here, 1, &there, 1, 0);
}

static long reading_blindly(const char *pid)
{
    struct iovec here = {detail, 16}, there = {(void *)0x400000, 16};
    long rc = process_vm_readv((pid_t)as_pid(pid), &here, 1, &there, 1, 0);
    return rc < 0 && errno == EFAULT ? 0 : rc; /* it was allowed: only nothing lies there */
}

static long taking_descriptor(const char *pid)
{
    int process = (int)syscall(SYS_pidfd_open, as_pid(pid), 0);
    return process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, 0, 0);
}

/* Descriptors beside those of its own loop: an open file, or the one that its caller left open. */
static long descriptors(const char *unused)
{
    struct stat st;
    (void)unused;
    for (int fd = 3; fd < 256; fd++)
        if (fstat(fd, &st) == 0 &&
            (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)))
            return snprintf(detail, sizeof detail, "%d is open", fd);
    errno = EBADF;
    return -1;
}

static long environment(const char *name)
{
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, name, strlen(name)) == 0)
            return snprintf(detail, sizeof detail, "%s", *at);
    errno = ENOENT;
    return -1;
}

static long unix_socket(const char *unused)
{
    (void)unused;
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long raw_socket(const char *family)
{
    return socket((int)as_pid(family), SOCK_RAW | SOCK_CLOEXEC, 0);
}

static long executable_memory(const char *unused)
{
    (void)unused;
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static long memory_file(const char *unused)
{
    (void)unused;
    return memfd_create("x", MFD_CLOEXEC);
}

static long name_space(const char *unused)
{
    (void)unused;
    return unshare(CLONE_NEWUSER);
}

static long dumpable(const char *unused)
{
    (void)unused;
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static long watching(const char *path)
{
    int fd = inotify_init1(IN_CLOEXEC);
    return fd < 0 ? -1 : inotify_add_watch(fd, path, IN_ACCESS);
}

static const struct probe {
    const char *name;
    long (*run)(const char *argument);
} probes[] = {
    {"read", reading},
    {"write", writing},
    {"unlink", (long (*)(const char *))NULL},
    {"exec", executing},
    {"fork", forking},
    {"ptrace", tracing},
    {"signal", signalling},
    {"sigqueue", queueing},
    {"memory", reading_memory},
    {"vm-read", reading_blindly},
    {"pidfd", taking_descriptor},
    {"descriptors", descriptors},
    {"environment", environment},
    {"unix", unix_socket},
    {"raw", raw_socket},
    {"exec-memory", executable_memory},
    {"memfd", memory_file},
    {"namespace", name_space},
    {"dumpable", dumpable},
    {"inotify", watching},
};

static void try(const char *name, const char *argument, char *out, size_t size)
{
    detail[0] = 0;
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        if (strcmp(probes[i].name, name) != 0)
            continue;
        errno = 0;
        long rc = probes[i].run ? probes[i].run(argument) : unlink(argument);
        if (rc < 0)
            snprintf(out, size, "refused: %s", strerrorname_np(errno));
        else
            snprintf(out, size, "done %s", detail);
        return;
    }
    snprintf(out, size, "no probe '%s'", name);
}

#ifdef ABX_PROBE_INSIDE
#include "jshost/session.h"

static JSValue native_probe(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    char out[1024];
    (void)self;
    (void)argc;
    const char *name = JS_ToCString(ctx, argv[0]), *argument = JS_ToCString(ctx, argv[1]);
    try(name, argument, out, sizeof out);
    JS_FreeCString(ctx, name);
    JS_FreeCString(ctx, argument);
    return JS_NewString(ctx, out);
}

void abx_js_probe(JSContext *ctx)
{
    JSValue global = JS_GetGlobalObject(ctx);
    JS_SetPropertyStr(ctx, global, "probe", JS_NewCFunction(ctx, native_probe, "probe", 2));
    JS_FreeValue(ctx, global);
}
#else
int main(int argc, char **argv)
{
    char out[1024];
    if (argc < 2)
        return 2;
    try(argv[1], argc > 2 ? argv[2] : "", out, sizeof out);
    puts(out);
    return 0;
}
#endif
