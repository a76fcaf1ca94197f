#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "local/setup.h"

#include <errno.h> /* program_invocation_name */

/* The kernel lays the strings of argv, the environment and the program's path out one behind the other; this
 * process never executes again, so nothing reads them but /proc/1/cmdline and whoever would see its memory. */
void abx_wipe_origin(void)
{
    static char *no_environment[] = {NULL};
    char *end = (char *)getauxval(AT_EXECFN); /* the last of them */
    char *start = program_invocation_name;
    environ = no_environment;
    static char name[] = "abx";
    program_invocation_name = program_invocation_short_name = name;
    if (!end || !start || start >= end || end - start > (8 << 20))
        return;
    memset(start, 0, (size_t)(end - start) + strlen(end));
    memcpy(start, name, sizeof(name));
}
