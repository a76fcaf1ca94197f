/* When a server stays awake. A client that asks for the next thing as soon as it has its answer waits each time until the
 * server's process is woken, and on a machine with little to do that takes longer than the answer. So a server may look for
 * the next request without sleeping, for at most a tenth of a millisecond, while one client alone asks at that rhythm, and
 * only as long as this pays: stretches with and without sleep take turns, and when requests come no sooner without, it
 * sleeps, for twice as long each time before it tries again. An idle server always sleeps, and so does one whose client
 * takes its time, whose clients are several, or whose processor others want.
 *
 * This file decides, and does nothing else: times come in, in nanoseconds of a clock that never goes back. */
#ifndef ABX_NET_HTTP_AWAKE_H
#define ABX_NET_HTTP_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct abx__awake {
    const void *who; /* whom the last answer went to, while nobody has asked since; or NULL */
    uint64_t asked;  /* when the last request came; 0: not known */
    uint64_t began;  /* the first round without sleep behind its answer; 0: there was none yet */
    uint64_t looked; /* the last one */
    uint64_t sum;    /* from request to request, over this stretch */
    uint64_t slept;  /* the mean of that over the last stretch with sleep */
    uint32_t done;   /* requests of this stretch */
    uint32_t length; /* of so many */
    uint32_t nap;    /* length of the next stretch with sleep */
    uint32_t watch;  /* of the next one without */
    uint32_t vain;   /* waits of this stretch that ended before the request came */
    uint32_t slow;   /* requests in a row that took their time */
    bool awake;      /* which of the two this stretch is */
    bool waits;      /* without sleep, for a request that is expected now */
} abx__awake;

void abx__awake_init(abx__awake *a);
/* Had this client, which is only compared, the last answer, and nobody has asked since? Only then its next request needs a
 * look at the clock. */
static inline bool abx__awake_knows(const abx__awake *a, const void *who)
{
    return a->who == who;
}
/* It has asked. now: 0 if it was not known. */
void abx__awake_asked(abx__awake *a, const void *who, uint64_t now);
/* It has its answer and may ask again. */
void abx__awake_answered(abx__awake *a, const void *who);
/* Is a request expected, so that abx__awake_stays is worth a look at the clock? */
static inline bool abx__awake_expects(const abx__awake *a)
{
    return a->waits;
}
/* Shall the loop go round once more without sleep? To be asked again each round. */
bool abx__awake_stays(abx__awake *a, uint64_t now);

#endif
