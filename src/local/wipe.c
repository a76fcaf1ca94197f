#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
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

/* Only the loop of the creator has such memory (the rings of io_uring); here nothing uses that loop. */
int abx_drop_shared_memory(void)
{
    ABX_AUTO_BUF maps = ABX_BUF(4u << 20);
    if (abx_read_file("/proc/self/maps", maps.max, &maps, NULL) != 0)
        return -1;
    for (const char *line = abx_buf_cstr(&maps); line; line = strchr(line, '\n')) {
        uintptr_t from, to;
        char access[5];
        line += *line == '\n';
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, access) == 3 &&
            access[3] == 's' &&
            munmap((void *)from, to - from) < 0) /* NOLINT(performance-no-int-to-ptr) */
            return -1;
    }
    return 0;
}
