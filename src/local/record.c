#include "local/record.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define MAGIC     0x6162784cu
#define VERSION   1u
#define MAX_TRIES 5 /* a read may meet a write */

/* FNV-1a: tells a half-written record, nothing more. */
static uint64_t sum(const abx_record *record)
{
    const unsigned char *bytes = (const unsigned char *)record;
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < offsetof(abx_record, check); i++)
        h = (h ^ bytes[i]) * 0x100000001b3ULL;
    return h;
}

int abx_record_write(int lock_fd, abx_record *record)
{
    record->magic = MAGIC;
    record->version = VERSION;
    record->check = sum(record);
    ssize_t n = pwrite(lock_fd, record, sizeof(*record), 0);
    return n == (ssize_t)sizeof(*record) ? 0 : -1;
}

int abx_record_read(int folder_fd, abx_record *out)
{
    ABX_AUTO_FD fd = openat(folder_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    for (int i = 0; fd >= 0 && i < MAX_TRIES; i++) {
        ssize_t n = pread(fd, out, sizeof(*out), 0);
        if (n == 0)
            break;
        if (n == (ssize_t)sizeof(*out) && out->magic == MAGIC && out->version == VERSION &&
            out->check == sum(out) && out->paused <= 1 && out->way < ABX_PAUSE_WAY_COUNT)
            return 1;
    }
    memset(out, 0, sizeof(*out));
    return 0;
}
