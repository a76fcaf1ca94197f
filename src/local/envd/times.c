/* When output was read: for a store, the time of each piece by its offset. Pieces less than a step apart are one and have the
 * time of the first; the step is a millisecond, and is doubled while there are too many. */
#include "local/envd/inner.h"

#include <string.h>

enum { TIMES_MAX = 4096 };

typedef struct piece {
    uint64_t at; /* offset of its first byte */
    int64_t ms;
} piece;

struct abx__times {
    size_t count, cap;
    piece *pieces;
    int64_t step_ms;
};

abx__times *abx__times_new(void)
{
    abx__times *t = ABX_NEW(abx__times);
    t->step_ms = 1;
    return t;
}

void abx__times_free(abx__times *t)
{
    if (t)
        free(t->pieces);
    free(t);
}

static void thin_out(abx__times *t)
{
    while (t->count > TIMES_MAX / 2) {
        size_t kept = 1;
        t->step_ms *= 2;
        for (size_t i = 1; i < t->count; i++)
            if (t->pieces[i].ms >= t->pieces[kept - 1].ms + t->step_ms)
                t->pieces[kept++] = t->pieces[i];
        t->count = kept;
    }
}

void abx__times_note(abx__times *t, uint64_t at, int64_t ms)
{
    /* The clock may have been set back. */
    if (t->count > 0 && ms < t->pieces[t->count - 1].ms + t->step_ms)
        return;
    if (t->count == TIMES_MAX)
        thin_out(t);
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 8;
        t->pieces = abx_realloc(t->pieces, t->cap * sizeof(*t->pieces));
    }
    t->pieces[t->count++] = (piece){at, ms};
}

int64_t abx__times_of(const abx__times *t, uint64_t at, uint64_t *until)
{
    size_t low = 0, high = t->count; /* the last piece that begins at or before `at` */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->pieces[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    *until = low + 1 < t->count ? t->pieces[low + 1].at : UINT64_MAX;
    return t->count > 0 ? t->pieces[low].ms : 0;
}
