/* Only what lies below the sandbox's root may be executed. pid 1 is the host's own program: a script inside that names
 * /proc/self/exe as its interpreter would run it, as a process that others inside may look into, and so hand them a
 * descriptor of a host's file that belongs to the caller. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "local/setup.h"

int abx_bound_exec(abx_setup *s)
{
    const struct landlock_ruleset_attr rights = {.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE |
                                                                      LANDLOCK_ACCESS_FS_REFER};
    struct landlock_path_beneath_attr below = {.allowed_access = rights.handled_access_fs};
    ABX_AUTO_FD set = (int)syscall(SYS_landlock_create_ruleset, &rights, sizeof(rights), 0);
    if (set < 0)
        return 0; /* an older kernel, or one without it: the program's file is still busy while pid 1 lives */
    ABX_AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    below.parent_fd = root;
    if (root < 0 ||
        syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, set, 0) < 0)
        return abx_refused(s, ABX_LAYER_MASKS, "landlock");
    return 0;
}
