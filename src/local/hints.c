/* What stands in the way of a layer, and the command that removes it. Files explain here; they never decide. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/create.h"

/* The first number in a small file; -1 when it cannot be read. */
static long number_in(const char *path)
{
    ABX_AUTO_BUF b = ABX_BUF(256);
    if (abx_read_file(path, b.max, &b, NULL) != 0 || b.len == 0)
        return -1;
    return strtol(abx_buf_cstr(&b), NULL, 10);
}

static char *text_of(const char *path)
{
    ABX_AUTO_BUF b = ABX_BUF(1u << 20);
    return abx_read_file(path, b.max, &b, NULL) == 0 ? abx_buf_take(&b) : abx_strdup("");
}

static bool kernel_is_older(int major, int minor)
{
    struct utsname u;
    int a = 0, b = 0;
    if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &a, &b) != 2)
        return false;
    return a < major || (a == major && b < minor);
}

/* A line of mountinfo whose fifth field begins with `at`; exact: is it. */
static bool has_mount(const char *info, const char *at, bool exact)
{
    size_t n = strlen(at);
    for (const char *p = info; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        const char *q = p;
        for (int field = 0; field < 4 && q; field++) {
            q = strchr(q, ' ');
            q = q ? q + 1 : NULL;
        }
        if (q && strncmp(q, at, n) == 0 && (exact ? q[n] == ' ' : true))
            return true;
    }
    return false;
}

static char *profile_hint(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    return abx_format(
        "put these lines into /etc/apparmor.d/abx, then: sudo apparmor_parser -r "
        "/etc/apparmor.d/abx\n"
        "    abi <abi/4.0>,\n"
        "    include <tunables/global>\n"
        "    profile abx %s flags=(unconfined) { userns, include if exists <local/abx> }\n"
        "or, wider: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        path);
}

/* Restrictions of user namespaces in general; NULL when none is known to hold. */
static char *userns_fix(int e)
{
    if (number_in("/proc/sys/kernel/unprivileged_userns_clone") == 0 && geteuid() != 0)
        return abx_strdup("sudo sysctl -w kernel.unprivileged_userns_clone=1");
    if (number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1 &&
        geteuid() != 0 && (e == EACCES || e == EPERM))
        return profile_hint();
    if (number_in("/sys/fs/selinux/enforce") == 1 && e == EACCES)
        return abx_strdup("sudo ausearch -m avc -ts recent shows the rule, and the boolean or "
                          "module that lifts it");
    return NULL;
}

static char *container_fix(void)
{
    ABX_AUTO_FREE char *status = text_of("/proc/self/status");
    if (strstr(status, "Seccomp:\t2"))
        return abx_strdup("a filter around this process refuses it; with Docker: docker run "
                          "--security-opt seccomp=unconfined --security-opt "
                          "systempaths=unconfined");
    return NULL;
}

static char *count_fix(const char *name)
{
    ABX_AUTO_FREE char *path = abx_format("/proc/sys/user/max_%s_namespaces", name);
    long n = number_in(path);
    if (n == 0)
        return abx_format("sudo sysctl -w user.max_%s_namespaces=15000 (and that line in "
                          "/etc/sysctl.d/ to keep it)",
                          name);
    if (n > 0)
        return abx_format("end other sandboxes, or do not nest them: at most %ld %s namespaces, 32 "
                          "levels deep",
                          n, name);
    return NULL;
}

static char *clone_fix(abx_layer layer, int e)
{
    static const struct {
        abx_layer layer;
        const char *name;
    } names[] = {
        {ABX_LAYER_USER, "user"},     {ABX_LAYER_MOUNT, "mnt"}, {ABX_LAYER_PID, "pid"},
        {ABX_LAYER_IPC, "ipc"},       {ABX_LAYER_UTS, "uts"},   {ABX_LAYER_NET, "net"},
        {ABX_LAYER_CGROUP, "cgroup"},
    };
    char *fix = NULL;
    for (size_t i = 0; e == ENOSPC && !fix && i < ABX_COUNT(names); i++)
        if (names[i].layer == layer)
            fix = count_fix(names[i].name);
    if (fix || (fix = container_fix()) || (fix = userns_fix(e)))
        return fix;
    ABX_AUTO_FREE char *version = text_of("/proc/version");
    if (strstr(version, "Microsoft") && !strstr(version, "microsoft-standard"))
        return abx_strdup("wsl --set-version NAME 2");
    if (strstr(version, "gVisor"))
        return abx_strdup("gVisor isolates this machine already; use another provider");
    if (e == EINVAL || e == ENOSYS)
        return abx_strdup("a kernel of 5.12 or newer with namespaces (CONFIG_USER_NS) is needed");
    ABX_AUTO_FREE char *mounts = text_of("/proc/self/mountinfo");
    if (e == EPERM && *mounts && !has_mount(mounts, "/", true))
        return abx_strdup("run outside of the chroot, or enter it by pivot_root");
    ABX_AUTO_FREE char *map = text_of("/proc/self/uid_map");
    if (e == EPERM && !*map)
        return abx_strdup("this process's own user has no id here: the outer tool must map it");
    return NULL;
}

static char *proc_fix(int e)
{
    ABX_AUTO_FREE char *mounts = text_of("/proc/self/mountinfo");
    if (!*mounts)
        return abx_strdup("mount -t proc proc /proc");
    if (e == EPERM && has_mount(mounts, "/proc/", false))
        return abx_strdup("parts of /proc are masked here; with Docker: docker run --security-opt "
                          "systempaths=unconfined; with Kubernetes: procMount: Unmasked and "
                          "hostUsers: false; or go on with the outer /proc: --allow-weaker proc");
    return NULL;
}

char *abx_layer_fix(abx_layer layer, int e)
{
    char *fix = NULL;
    switch (layer) {
    case ABX_LAYER_USER:
    case ABX_LAYER_MOUNT:
    case ABX_LAYER_PID:
    case ABX_LAYER_IPC:
    case ABX_LAYER_UTS:
    case ABX_LAYER_CGROUP:
    case ABX_LAYER_NET:
    case ABX_LAYER_IDS: fix = clone_fix(layer, e); break;
    case ABX_LAYER_PROC: fix = proc_fix(e); break;
    case ABX_LAYER_OVERLAY:
    case ABX_LAYER_USR:
        if (e == ENOSYS || kernel_is_older(5, 12))
            fix = abx_strdup("a kernel of 5.12 or newer is needed");
        else if (e == ENOSPC)
            fix = abx_strdup("free some space, or set ABX_HOME to a folder on another disk");
        else
            fix = userns_fix(e);
        break;
    default: fix = container_fix(); break;
    }
    if (!fix)
        fix = userns_fix(e);
    return fix;
}

bool abx_is_shortage(int e)
{
    return e == EAGAIN || e == ENOMEM || e == EMFILE || e == ENFILE;
}

int abx_shortage_error(abx_error **err, int e, const char *step)
{
    ABX_AUTO_ERROR made =
        abx_error_new(ABX_ERR_QUOTA, "cannot start a local sandbox: %s: %s", step, strerror(e));
    made->sys_errno = e;
    abx_hint(&made,
             e == EMFILE || e == ENFILE ? "too many open files: raise 'ulimit -n', or close some"
             : e == EAGAIN
                 ? "too many processes: end some, raise 'ulimit -u', or the limit of this "
                   "cgroup or container (pids.max)"
                 : "too little memory: end some processes, or raise the limit of this cgroup");
    return abx_error_take(err, ABX_TAKE(made));
}

int abx_layer_error(abx_error **err, abx_layer layer, int e, const char *step)
{
    const abx_layer_row *row = abx_layer_row_of(layer);
    if (abx_is_shortage(e))
        return abx_shortage_error(err, e, step);
    /* A full disk is no matter of isolation; a full count of namespaces is. */
    bool is_disk =
        (e == ENOSPC || e == EDQUOT) && (layer == ABX_LAYER_OVERLAY || layer == ABX_LAYER_USR);
    ABX_AUTO_ERROR made = abx_error_new(is_disk ? ABX_ERR_NO_SPACE : ABX_ERR_ISOLATION,
                                        "this machine refuses layer '%s' of the isolation: %s: %s",
                                        row->name, step, strerror(e));
    made->sys_errno = e;
    ABX_AUTO_FREE char *fix = abx_layer_fix(layer, e);
    if (fix)
        abx_hint(&made, "%s", fix);
    return abx_error_take(err, ABX_TAKE(made));
}
