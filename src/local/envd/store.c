/* Output that is kept: in memory at first, in a file without a name once it is long. Offsets count the bytes of the
 * stream from its start; what is too much falls off at the old end. */
#include "local/envd/inner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct abx__store {
    abx__proc *proc;
    uint8_t *ring; /* NULL: empty, or in the file */
    size_t cap;    /* of the ring; a byte lies at offset % cap */
    int fd;        /* the file, byte by byte at its offset with holes for what fell off; -1: none */
    uint64_t first, end;
    abx__times *times;
};

#define MIB ((uint64_t)1024 * 1024)
static const uint64_t RING_OF_PROCESS = 8 * MIB, RING_OF_ALL = 32 * MIB;
static const uint64_t FILE_OF_PROCESS = 256 * MIB, FILE_OF_ALL = 1024 * MIB;
static const uint64_t DROP_STEP = MIB; /* the file is punched in steps of this */

abx__store *abx__store_new(abx__proc *p, uint64_t at)
{
    abx__store *s = ABX_NEW(abx__store);
    s->first = s->end = at;
    s->proc = p;
    s->fd = -1;
    s->times = abx__times_new();
    return s;
}

uint64_t abx__store_first(const abx__store *s)
{
    return s->first;
}

uint64_t abx__store_end(const abx__store *s)
{
    return s->end;
}

static void ring_release(abx__store *s)
{
    s->proc->envd->ring_bytes -= s->cap;
    free(s->ring);
    s->ring = NULL;
    s->cap = 0;
}

/* Forget all that is kept so far. */
static void drop_all(abx__store *s)
{
    if (s->fd >= 0) {
        s->proc->envd->file_bytes -= s->end - s->first;
        abx_close_fd(&s->fd);
    }
    if (s->ring)
        ring_release(s);
    s->first = s->end;
}

void abx__store_free(abx__store *s)
{
    if (!s)
        return;
    drop_all(s);
    abx__times_free(s->times);
    free(s);
}

/* Bytes of both streams of the process, in memory or in files. */
static uint64_t of_process(const abx__proc *p, bool files)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ABX_COUNT(p->chans); i++) {
        const abx__store *s = p->chans[i].store;
        if (s && files && s->fd >= 0)
            sum += s->end - s->first;
        else if (s && !files)
            sum += s->cap;
    }
    return sum;
}

static int open_file(void)
{
    static const char *const FOLDERS[] = {"/var/tmp", "/tmp", "/home/user"};
    for (size_t i = 0; i < ABX_COUNT(FOLDERS); i++) {
        int fd = open(FOLDERS[i], O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
        if (fd >= 0)
            return fd;
        char name[64];
        (void)snprintf(name, sizeof(name), "%s/.abxXXXXXX", FOLDERS[i]);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd < 0)
            continue;
        (void)unlink(name);
        return fd;
    }
    return -1;
}

/* From memory into a file. 0, -1: there is no room for one. */
static int spill(abx__store *s)
{
    s->fd = open_file();
    if (s->fd < 0)
        return -1;
    for (uint64_t at = s->first; at < s->end && s->ring;) {
        size_t from = (size_t)(at % s->cap);
        size_t n = s->cap - from;
        if (n > s->end - at)
            n = (size_t)(s->end - at);
        if (abx_pwrite_full(s->fd, s->ring + from, n, (off_t)at) < 0) {
            abx_close_fd(&s->fd);
            return -1;
        }
        at += n;
    }
    s->proc->envd->file_bytes += s->end - s->first;
    if (s->ring)
        ring_release(s);
    return 0;
}

/* Make the ring hold n more bytes. 0, -1: over its limits. */
static int ring_room(abx__store *s, size_t n)
{
    uint64_t want = s->end - s->first + n;
    if (want <= s->cap)
        return 0;
    uint64_t cap = s->cap ? s->cap : 4096;
    while (cap < want)
        cap *= 2;
    uint64_t more = cap - s->cap;
    if (of_process(s->proc, false) + more > RING_OF_PROCESS ||
        s->proc->envd->ring_bytes + more > RING_OF_ALL)
        return -1;
    uint8_t *ring = abx_alloc((size_t)cap);
    for (uint64_t at = s->first; at < s->end && s->cap > 0; at++)
        ring[at % cap] = s->ring[at % s->cap];
    free(s->ring);
    s->ring = ring;
    s->cap = (size_t)cap;
    s->proc->envd->ring_bytes += more;
    return 0;
}

/* Let n bytes fall off at the old end of a file. */
static void file_drop(abx__store *s, uint64_t n)
{
    n = (n + DROP_STEP - 1) / DROP_STEP * DROP_STEP;
    if (n > s->end - s->first)
        n = s->end - s->first;
    if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->first, (off_t)n) <
        0) {
        drop_all(s);
        return;
    }
    s->first += n;
    s->proc->envd->file_bytes -= n;
}

/* The files of processes that ended, the oldest first. True if one was dropped. */
static bool drop_oldest_ended(abx_envd *e)
{
    abx__proc *oldest = NULL;
    for (abx_link *n = e->procs.next; n != &e->procs; n = n->next) {
        abx__proc *p = ABX_OF(n, abx__proc, node);
        if (p->ended && of_process(p, true) > 0 &&
            (!oldest || p->ended_boot_ms < oldest->ended_boot_ms))
            oldest = p;
    }
    if (!oldest)
        return false;
    for (size_t i = 0; i < ABX_COUNT(oldest->chans); i++)
        if (oldest->chans[i].store)
            drop_all(oldest->chans[i].store);
    return true;
}

static void file_room(abx__store *s, size_t n)
{
    uint64_t own = of_process(s->proc, true) + n;
    if (own > FILE_OF_PROCESS) {
        abx__store *longest = s;
        for (size_t i = 0; i < ABX_COUNT(s->proc->chans); i++) {
            abx__store *o = s->proc->chans[i].store;
            if (o && o->fd >= 0 && o->end - o->first > longest->end - longest->first)
                longest = o;
        }
        file_drop(longest, own - FILE_OF_PROCESS);
    }
    while (s->proc->envd->file_bytes + n > FILE_OF_ALL)
        if (!drop_oldest_ended(s->proc->envd)) {
            if (s->fd >= 0 && s->end > s->first)
                file_drop(s, n);
            return;
        }
}

int64_t abx__store_time(const abx__store *s, uint64_t at, uint64_t *until)
{
    return abx__times_of(s->times, at, until);
}

void abx__store_add(abx__store *s, const uint8_t *bytes, size_t n)
{
    abx__times_note(s->times, s->end, abx_now_wall_ms());
    if (s->fd < 0 && ring_room(s, n) == 0) {
        size_t from = (size_t)(s->end % s->cap);
        size_t head = s->cap - from < n ? s->cap - from : n;
        memcpy(s->ring + from, bytes, head);
        memcpy(s->ring, bytes + head, n - head);
        s->end += n;
        return;
    }
    bool kept = s->fd >= 0 || spill(s) == 0;
    if (kept) {
        file_room(s, n);
        kept = s->fd >= 0 && abx_pwrite_full(s->fd, bytes, n, (off_t)s->end) == 0;
    }
    if (!kept)
        drop_all(s); /* the disk is full: what is missing will be told as a gap */
    s->end += n;
    if (kept)
        s->proc->envd->file_bytes += n;
    else
        s->first = s->end;
}

ssize_t abx__store_read(abx__store *s, uint64_t at, uint8_t *out, size_t n)
{
    if (n > s->end - at)
        n = (size_t)(s->end - at);
    if (s->fd >= 0) {
        ssize_t got = pread(s->fd, out, n, (off_t)at);
        return got > 0 ? got : -1;
    }
    if (!s->ring)
        return -1;
    size_t from = (size_t)(at % s->cap);
    if (n > s->cap - from)
        n = s->cap - from;
    memcpy(out, s->ring + from, n);
    return (ssize_t)n;
}
