/* More power by a program's file; what is counted for a user's id; the program that pid 1 is. */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe.h"

static long effective_id(pid_t pid)
{
    char path[64], line[256];
    long value = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "Uid: %*d %ld", &value) == 1)
            break;
    if (f)
        (void)fclose(f);
    return value;
}

/* "set-id PROGRAM": whether a set-user-id program of another one's gets that one's id. It must wait for input. */
static long try_set_id(char **args)
{
    int in[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(in[0], 0);
        (void)dup2(null, 1);
        (void)dup2(null, 2);
        (void)execv(args[0], args);
        _exit(127);
    }
    long got = -1;
    for (int i = 0; i < 300 && got != 0 && waitpid(pid, NULL, WNOHANG) == 0; i++) {
        (void)usleep(1000);
        got = effective_id(pid);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    errno = EPERM;
    return got == 0 ? 0 : -1;
}

/* "file-caps PROBE": more power by the capabilities of a file. */
static long try_file_caps(char **args)
{
    /* revision 2, effective; CAP_NET_RAW */
    const uint32_t caps[] = {0x02000001, 1U << CAP_NET_RAW, 0, 0, 0};
    const char *copy = "/tmp/probe-caps";
    char command[300];
    (void)snprintf(command, sizeof(command), "cp %s %s && chmod 755 %s", args[0], copy, copy);
    if (system(command) != 0 || setxattr(copy, "security.capability", caps, sizeof(caps), 0) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct none[2] = {{0}};
        (void)prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0);
        (void)syscall(SYS_capset, &head, none);
        (void)execl(copy, copy, "caps-tell", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    (void)unlink(copy);
    errno = EPERM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The other half: whether this process has a capability. */
static long try_caps_tell(char **args)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct now[2];
    if (syscall(SYS_capget, &head, now) < 0)
        return -1;
    errno = EPERM;
    return now[0].effective & (1U << CAP_NET_RAW) ? 0 : -1;
}

/* "immutable PATH": a file that nobody can remove. */
static long try_immutable(char **args)
{
    int flags = 0, fd = open(args[0], O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return -1;
    flags |= FS_IMMUTABLE_FL;
    if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
        return -1;
    flags &= ~FS_IMMUTABLE_FL;
    return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/* Take every inotify instance that one gets, say how many, and keep them until the input ends. */
static long try_inotify(char **args)
{
    int n = 0;
    char byte;
    while (n < 100000 && inotify_init1(IN_CLOEXEC) >= 0)
        n++;
    (void)printf("%d\n", n);
    (void)fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

/* Be there, as a process whose program's file may be looked for. */
static long try_wait(char **args)
{
    char byte;
    (void)printf("%d\n", getpid());
    (void)fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

const probe probes_trick[] = {
    {"set-id", try_set_id},
    {"file-caps", try_file_caps},
    {"caps-tell", try_caps_tell},
    {"immutable", try_immutable},
    {"inotify", try_inotify},
    {"wait", try_wait},
    {NULL, NULL},
};
