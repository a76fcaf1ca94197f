/* Landlock: no file but those that looking up a name needs. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/lock.h"
#include "net/ca.h"

/* Rights on files of Landlock's versions 1 to 5, by their bits: headers may be older than the kernel. */
#define RIGHTS_1 ((1ULL << 13) - 1)
static const unsigned long long rights_of[] = {RIGHTS_1, RIGHTS_1 | 1ULL << 13,
                                               RIGHTS_1 | 3ULL << 13, RIGHTS_1 | 3ULL << 13,
                                               RIGHTS_1 | 7ULL << 13};
#define SCOPES 3ULL /* version 6: abstract sockets, signals */

/* struct landlock_ruleset_attr of the newest version that is used. */
typedef struct ruleset {
    unsigned long long files, net, scoped;
} ruleset;

static void allow_reading(int set, const char *path)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
    ABX_AUTO_FD fd = open(path, O_PATH | O_CLOEXEC); /* by links: what they lead to now */
    rule.parent_fd = fd;
    if (fd >= 0)
        (void)!syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* The certificate authorities, which the environment names. Folders hold links: what they usually lead to is allowed too. */
static void allow_authorities(int set)
{
    static const char *const behind[] = {"/usr/share/ca-certificates",
                                         "/usr/local/share/ca-certificates", "/etc/ca-certificates",
                                         "/etc/pki/ca-trust/extracted"};
    abx_ca_places places;
    abx_ca_places_find(&places);
    if (places.file)
        allow_reading(set, places.file);
    if (places.dir) {
        char *rest = places.dir;
        for (char *dir; (dir = strsep(&rest, ":"));)
            allow_reading(set, dir);
        for (size_t i = 0; i < ABX_COUNT(behind); i++)
            allow_reading(set, behind[i]);
    }
    abx_ca_places_clear(&places);
}

/* Without it no file can be opened later: the bundle is open from now on, under the name that SSL_CERT_FILE has for this. */
static void hold_authorities(void)
{
    const char *path = getenv(ABX_JS_AUTHORITIES);
    ABX_AUTO_FD fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        (void)dup3(fd, ABX_JS_AUTHORITIES_FD, O_CLOEXEC);
}

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool abx_js_lock_opens_files(void)
{
    return landlock_version() >= 1;
}

int abx__js_lock_files(abx_error **err)
{
    static const char *const names[] = {"/etc/resolv.conf", "/etc/hosts",     "/etc/nsswitch.conf",
                                        "/etc/gai.conf",    "/etc/host.conf", "/etc/services"};
    long version = landlock_version();
    if (version < 1) { /* a kernel without it: the filter of system calls refuses to open files */
        hold_authorities();
        return 0;
    }
    ruleset rights = {.files = rights_of[version < 5 ? version - 1 : 4],
                      .scoped = version >= 6 ? SCOPES : 0};
    size_t size = version >= 6 ? sizeof(rights) : sizeof(rights.files);
    ABX_AUTO_FD set = (int)syscall(SYS_landlock_create_ruleset, &rights, size, 0);
    if (set < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot lock the module");
    for (size_t i = 0; i < ABX_COUNT(names); i++)
        allow_reading(set, names[i]);
    allow_authorities(set);
    if (syscall(SYS_landlock_restrict_self, set, 0) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot lock the module");
    return 0;
}
