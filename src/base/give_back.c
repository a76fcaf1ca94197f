#include "base/give_back.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"

#define WORTH_IT ((size_t)4 * 1024 * 1024) /* less than this is not looked for */

/* Bytes of this process that are in memory and no file's; 0 when that is not known. */
static size_t in_memory(void)
{
    char text[128];
    unsigned long resident, of_files;
    ABX_AUTO_FD fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_read_full(fd, text, sizeof text - 1);
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (sscanf(text, "%*u %lu %lu", &resident, &of_files) != 2 || of_files > resident)
        return 0;
    return (resident - of_files) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes in memory that nobody uses; used: what is used. */
static size_t not_used(size_t *used)
{
    struct mallinfo2 heap = mallinfo2();
    size_t all = in_memory();
    *used = heap.uordblks + heap.hblkhd;
    return all > *used ? all - *used : 0;
}

size_t abx_give_back_tick(abx_give_back *g, uint64_t now_ms)
{
    if (now_ms < g->next_ms)
        return 0;
    g->next_ms = now_ms + ABX_GIVE_BACK_MS;
    size_t used, before = not_used(&used);
    /* Holes between blocks in use stay when all that can go went: for the same ones it is not tried again, but when their
     * neighbours have gone. */
    if (before < g->kept)
        g->kept = before;
    if (used < g->used - g->used / 4)
        g->kept = 0;
    if (before - g->kept < WORTH_IT + used / 4)
        return 0;
    (void)malloc_trim(0);
    g->kept = not_used(&g->used);
    return before > g->kept ? before - g->kept : 0;
}
