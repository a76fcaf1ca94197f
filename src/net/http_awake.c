#include "net/http_awake.h"

#include <stddef.h>

#define US UINT64_C(1000)

#define RHYTHM (200 * US) /* a request that comes so soon after the last one belongs to a rhythm */
#define WAIT   (100 * US) /* the longest wait: about what being woken costs, twice */
#define TAKEN  (50 * US)  /* a round takes one or two: somebody else had the processor */
#define DELAY  (100000 * US) /* the most that one request counts for */

enum {
    SHORT = 32,        /* requests of a trial */
    LONGER = 8,        /* times as many after each that has paid */
    WATCH_MOST = 2048, /* then sleep is measured again, for the machine may have other work now */
    NAP_MOST = 65536,
    SLOW_MOST = 4, /* slow requests in a row: the rhythm has ended */
    VAIN_LEAST = 3,
    VAIN_EVERY = 16 /* one wait in vain more for so many requests */
};

static uint64_t at_most(uint64_t a, uint64_t most)
{
    return a < most ? a : most;
}

static void begin(abx__awake *a, bool awake, uint32_t length)
{
    a->awake = awake;
    a->length = length;
    a->done = a->vain = 0;
    a->sum = 0;
}

void abx__awake_init(abx__awake *a)
{
    *a = (abx__awake){.nap = SHORT, .watch = SHORT};
    begin(a, false, SHORT);
}

static void lose(abx__awake *a)
{
    a->watch = SHORT;
    a->nap = a->nap < NAP_MOST ? 2 * a->nap : NAP_MOST;
    begin(a, false, a->nap);
}

static void win(abx__awake *a)
{
    if (a->watch < WATCH_MOST)
        a->watch *= LONGER;
    else
        a->nap = a->nap > SHORT ? a->nap / 2 : SHORT;
    begin(a, false, a->nap);
}

/* A stretch is over. */
static void judge(abx__awake *a)
{
    uint64_t mean = a->sum / a->done;

    if (!a->awake) {
        a->slept = mean;
        begin(a, true, a->watch);
    } else if (mean > a->slept - a->slept / 5) {
        lose(a); /* a fifth is the least that it must bring: it costs processor time */
    } else {
        win(a);
    }
}

/* Nobody asks at a rhythm now. What is left of a nap still counts: a client that is a new connection each time
 * must not make the server try again each time. */
static void calm(abx__awake *a)
{
    uint32_t left = a->awake ? 0 : a->length - a->done;

    begin(a, false, left > SHORT ? left : SHORT);
}

void abx__awake_asked(abx__awake *a, const void *who, uint64_t now)
{
    uint64_t since = now - a->asked;
    bool known = abx__awake_knows(a, who), first = !a->asked;

    a->asked = known ? now : 0;
    a->who = NULL;
    a->waits = false;
    if (known && first)
        return;
    a->slow = known && since > RHYTHM ? a->slow + 1 : 0;
    if (!known || a->slow > SLOW_MOST) {
        if (known && a->awake)
            lose(a);
        else
            calm(a);
        return;
    }
    /* Delays count in full only against being awake: where others want the processor, who does not sleep gets it later. */
    a->sum += at_most(since, a->awake ? DELAY : RHYTHM);
    if (++a->done == a->length)
        judge(a);
}

void abx__awake_answered(abx__awake *a, const void *who)
{
    a->who = who;
    a->waits = a->awake;
    a->began = 0;
}

bool abx__awake_stays(abx__awake *a, uint64_t now)
{
    if (!a->waits)
        return false;
    if (!a->began)
        a->began = a->looked = now;
    bool taken = now - a->looked > TAKEN;
    a->looked = now;
    if (!taken && now - a->began < at_most(2 * a->slept, WAIT))
        return true;
    a->waits = false;
    if (++a->vain > VAIN_LEAST + a->done / VAIN_EVERY)
        lose(a);
    return false;
}
