#include "wire/ws_guard.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PONG = 10 };

void abx_ws_guard_init(abx_ws_guard *g, bool masked, size_t max)
{
    *g = (abx_ws_guard){.masked = masked, .max = max, .need = 2};
}

static uint8_t opcode(const abx_ws_guard *g)
{
    return g->held[0] & 0x0f;
}

static bool is_control(const abx_ws_guard *g)
{
    return opcode(g) >= CLOSE;
}

/* Bytes that the length takes behind the second byte. */
static size_t length_bytes(const abx_ws_guard *g)
{
    uint8_t n = g->held[1] & 0x7f;

    return n == 126 ? 2 : n == 127 ? 8 : 0;
}

static uint64_t payload_length(const abx_ws_guard *g)
{
    size_t bytes = length_bytes(g);
    uint64_t n = 0;

    if (bytes == 0)
        return g->held[1] & 0x7f;
    for (size_t i = 0; i < bytes; i++)
        n = n << 8 | g->held[2 + i];
    return n;
}

/* The first byte: which frames may come now? */
static int judge_kind(const abx_ws_guard *g)
{
    uint8_t kind = opcode(g);
    bool last = g->held[0] & 0x80;

    if (g->held[0] & 0x70 || (kind > BINARY && kind < CLOSE) || kind > PONG)
        return ABX_WS_CLOSE_PROTOCOL;
    if (is_control(g))
        return last ? 0 : ABX_WS_CLOSE_PROTOCOL;
    return (kind == CONTINUATION) == g->in_message ? 0 : ABX_WS_CLOSE_PROTOCOL;
}

static int judge_second(abx_ws_guard *g)
{
    bool masked = g->held[1] & 0x80;

    if (masked != g->masked || (is_control(g) && (g->held[1] & 0x7f) > 125))
        return ABX_WS_CLOSE_PROTOCOL;
    g->need = (uint8_t)(2 + length_bytes(g) + (masked ? 4 : 0));
    if (is_control(g))
        g->need = (uint8_t)(g->need + (g->held[1] & 0x7f));
    return 0;
}

static int judge_length(const abx_ws_guard *g)
{
    size_t bytes = length_bytes(g);
    uint64_t n = payload_length(g);
    uint64_t before = g->in_message ? g->message : 0;

    if ((bytes == 2 && n < 126) || (bytes == 8 && (n <= UINT16_MAX || n >> 63)))
        return ABX_WS_CLOSE_PROTOCOL;
    return !is_control(g) && (n > g->max || before > g->max - n) ? ABX_WS_CLOSE_TOO_LARGE : 0;
}

/* RFC 6455, 7.4. */
static bool code_may_be_sent(unsigned code)
{
    return (code >= 1000 && code <= 1011 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

static int judge_close(const abx_ws_guard *g)
{
    size_t n = g->held[1] & 0x7f, head = g->masked ? 6 : 2;
    uint8_t plain[125];

    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        plain[i] = g->masked ? g->held[head + i] ^ g->held[2 + i % 4] : g->held[head + i];
    if (n == 1 || !code_may_be_sent((unsigned)plain[0] << 8 | plain[1]))
        return ABX_WS_CLOSE_PROTOCOL;
    return abx_utf8_valid(plain + 2, n - 2) ? 0 : ABX_WS_CLOSE_NOT_UTF8;
}

/* A byte of a head or of a control frame was added. */
static int judge(abx_ws_guard *g)
{
    int fault = 0;

    if (g->held_len == 1)
        return judge_kind(g);
    if (g->held_len == 2)
        fault = judge_second(g);
    if (!fault && g->held_len == 2 + length_bytes(g))
        fault = judge_length(g);
    if (!fault && g->held_len == g->need && opcode(g) == CLOSE)
        fault = judge_close(g);
    return fault;
}

/* Give out what is held, and remember what it began. */
static size_t pass_on(abx_ws_guard *g, uint8_t *out)
{
    size_t n = g->held_len;

    memcpy(out, g->held, n);
    if (!is_control(g)) {
        g->left = payload_length(g);
        g->message = (g->in_message ? g->message : 0) + g->left;
        g->in_message = !(g->held[0] & 0x80);
    }
    g->held_len = 0;
    g->need = 2;
    return n;
}

size_t abx_ws_guard_next(abx_ws_guard *g, const uint8_t **in, size_t *n, uint8_t *out, size_t room)
{
    ABX_CHECK(room >= ABX_WS_GUARD_PIECE);
    if (g->fault)
        return 0;
    if (g->left) {
        size_t take = g->left < *n ? (size_t)g->left : *n;
        if (take > room)
            take = room;
        memcpy(out, *in, take);
        *in += take;
        *n -= take;
        g->left -= take;
        return take;
    }
    while (*n) {
        g->held[g->held_len++] = *(*in)++;
        --*n;
        g->fault = judge(g);
        if (g->fault)
            return 0;
        if (g->held_len >= 2 && g->held_len == g->need)
            return pass_on(g, out);
    }
    return 0;
}
