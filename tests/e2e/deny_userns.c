/* Runs a program in a world without user namespaces, as a container's default filter makes it, or without Landlock, as an old kernel:
 * deny_userns MODE PROGRAM [ARG...]
 *   landlock Landlock's first system call is absent
 *   filter   clone3 is absent, unshare and clone with CLONE_NEWUSER are refused
 *   limit    a user namespace whose own limit of further ones is 0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "deny_userns: %s: %s\n", what, strerror(errno));
    return 99;
}

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n < 0 ? -1 : 0;
}

static int use(struct sock_filter *code, size_t n)
{
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int set_no_landlock(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return use(code, sizeof code / sizeof *code);
}

static int set_filter(void)
{
#define NR   offsetof(struct seccomp_data, nr)
#define ARG0 offsetof(struct seccomp_data, args)
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG0),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return use(code, sizeof code / sizeof *code);
}

/* From outside of the new namespace, so that root may map every id as it is; others map their own. */
static void write_maps(pid_t of)
{
    char path[64], map[64];
    const char *all = "0 0 4294967295";
    snprintf(path, sizeof path, "/proc/%d/setgroups", (int)of);
    if (geteuid() != 0)
        write_file(path, "deny");
    snprintf(map, sizeof map, "%u %u 1", geteuid(), geteuid());
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)of);
    if (write_file(path, geteuid() == 0 ? all : map) < 0)
        _exit(1);
    snprintf(map, sizeof map, "%u %u 1", getegid(), getegid());
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)of);
    _exit(write_file(path, geteuid() == 0 ? all : map) < 0);
}

static int set_limit(void)
{
    int ready[2], status = -1;
    pid_t me = getpid(), child;
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0 || (child = fork()) < 0)
        return -1;
    if (child == 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) == 1)
            write_maps(me);
        _exit(1);
    }
    if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "x", 1) != 1 ||
        waitpid(child, &status, 0) < 0 || status != 0)
        return -1;
    return write_file("/proc/sys/user/max_user_namespaces", "0");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: deny_userns landlock|filter|limit PROGRAM [ARG...]\n");
        return 99;
    }
    int rc = strcmp(argv[1], "landlock") == 0 ? set_no_landlock()
             : strcmp(argv[1], "filter") == 0 ? set_filter()
                                              : set_limit();
    if (rc < 0)
        return fail(argv[1]);
    execv(argv[2], argv + 2);
    return fail(argv[2]);
}
