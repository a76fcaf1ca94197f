/* Memory that a process which lives on has freed, but the C library keeps: given back to the kernel, for whoever serves. A busy
 * hour would else be paid for ever: one small block that lives on at the end of the heap keeps all that lies before it. */
#ifndef ABX_BASE_GIVE_BACK_H
#define ABX_BASE_GIVE_BACK_H

#include <stddef.h>
#include <stdint.h>

#define ABX_GIVE_BACK_MS 10000 /* between two looks */

/* One a process, zeroed at first. */
typedef struct abx_give_back {
    uint64_t next_ms; /* monotonic: the next look */
    size_t kept; /* bytes that nobody used after the last time: what could not be given back, */
    size_t used; /* and what was used then */
} abx_give_back;

/* Called as often as one likes, by the loop's thread, e.g. by a timer that is there anyway; now_ms: monotonic. Looks each
 * ABX_GIVE_BACK_MS, for some microseconds; gives back if much more is in memory than is used. That takes some milliseconds after
 * hundreds of MB. Returns about how many bytes went. */
size_t abx_give_back_tick(abx_give_back *g, uint64_t now_ms);

#endif
