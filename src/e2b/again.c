#include "e2b/again.h"

#include "base/clock.h"
#include "base/id.h"

#define FIRST_MS ((uint64_t)100)

static uint64_t pause_before(unsigned sent)
{
    uint8_t chance;
    abx_random_bytes(&chance, sizeof chance);
    uint64_t base = FIRST_MS << (sent < 6 ? sent - 1 : 5);
    return base + base * chance / 255;
}

static int64_t if_there_is_time(const abx__again_rule *r, uint64_t wait_ms)
{
    if (r->sent >= r->most)
        return -1;
    bool fits = r->left_ms == ABX_FOREVER ? wait_ms <= r->patience_ms : wait_ms < r->left_ms;
    return fits ? (int64_t)wait_ms : -1;
}

int64_t abx__again_after_status(const abx__again_rule *r, int status, uint64_t after_ms)
{
    bool told = after_ms != ABX_FOREVER;
    bool passing = status == 502 || status == 503 || status == 504;
    if ((status == 429 && told) || (passing && r->safe))
        return if_there_is_time(r, told ? after_ms : pause_before(r->sent));
    return -1;
}

int64_t abx__again_after_break(const abx__again_rule *r, const abx_error *err, bool left)
{
    if (err->retryable == ABX_RETRY_NO || (left && !r->safe) ||
        (err->id != ABX_ERR_NETWORK && err->id != ABX_ERR_BACKEND_ANSWER))
        return -1;
    return if_there_is_time(r, pause_before(r->sent));
}
