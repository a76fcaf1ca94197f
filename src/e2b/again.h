/* Is a question to a service of others asked once more, and when? One rule for the control plane and for sandboxes:
 *
 *   it broke           if nothing of it left, or a repeat does no harm
 *   429                if the answer says when (Retry-After): nothing was done
 *   502, 503, 504      if a repeat does no harm: who stands before the service had nobody to ask
 *
 * each within the caller's time, after 100 ms, 200 ms, … and up to as much again, so that many clients do not come back together. */
#ifndef ABX_E2B_AGAIN_H
#define ABX_E2B_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct abx__again_rule {
    unsigned sent, most;  /* how often it was sent (1: once), and is at most */
    bool safe;            /* a repeat does no harm */
    uint64_t left_ms;     /* of the caller's time; ABX_FOREVER: all */
    uint64_t patience_ms; /* the longest wait of who has all the time */
} abx__again_rule;

/* Milliseconds until the next time, or -1: not again. after_ms: Retry-After; ABX_FOREVER: none. */
int64_t abx__again_after_status(const abx__again_rule *r, int status, uint64_t after_ms);
/* The same when it broke. left: something of it was sent. */
int64_t abx__again_after_break(const abx__again_rule *r, const abx_error *err, bool left);

#endif
