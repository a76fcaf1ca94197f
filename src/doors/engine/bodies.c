/* JSON bodies that are on their way, all connections together. Each has its room before its first byte is read, so that one that
 * has begun never waits for another; who has no room yet is not read, and waits in its socket. Those whose length is small and
 * known have a room of their own, so that they do not wait for large ones. */
#include "base/clock.h"
#include "base/mem.h"
#include "doors/engine/engine.h"

#define MIB ((size_t)1024 * 1024)

static const struct {
    size_t room;       /* bytes of all together */
    uint64_t whole_ms; /* from its first byte on, it must be whole in so long */
} KINDS[ENGINE_BODY_KINDS] = {
    [ENGINE_BODY_SMALL] = {32 * MIB, 20000},
    [ENGINE_BODY_LARGE] = {128 * MIB, 60000},
};
#define SMALL   MIB
#define WAIT_MS 15000

void engine_bodies_init(engine_bodies *b)
{
    for (int i = 0; i < ENGINE_BODY_KINDS; i++) {
        abx_link_init(&b->waiting[i]);
        abx_link_init(&b->coming[i]);
        b->taken[i] = 0;
    }
}

static void admit(engine_bodies *b, engine_request *r)
{
    b->taken[r->body.kind] += r->body.room;
    r->body.admitted = true;
    r->body.due_ms = abx_now_mono_ms() + KINDS[r->body.kind].whole_ms;
    abx_link_append(&b->coming[r->body.kind], &r->body.node);
}

static bool has_room(const engine_bodies *b, const engine_request *r)
{
    return r->body.room <= KINDS[r->body.kind].room - b->taken[r->body.kind];
}

void engine_body_begin(engine_request *r)
{
    engine_bodies *b = &r->engine->bodies;
    int64_t length = abx_exchange_content_length(r->x);
    if (length == 0 || length > (int64_t)ENGINE_BODY_MAX) /* the latter is refused by its head */
        return;
    r->body.kind = length > 0 && (size_t)length <= SMALL ? ENGINE_BODY_SMALL : ENGINE_BODY_LARGE;
    r->body.room = length > 0 ? (size_t)length : ENGINE_BODY_MAX;
    if (abx_link_alone(&b->waiting[r->body.kind]) && has_room(b, r)) {
        admit(b, r);
        return;
    }
    abx_exchange_pause(r->x);
    r->body.due_ms = abx_now_mono_ms() + WAIT_MS;
    abx_link_append(&b->waiting[r->body.kind], &r->body.node);
}

void engine_body_came(engine_request *r)
{
    abx_link_remove(&r->body.node);
}

/* In their order: a large one is not overtaken for ever. */
static void let_in(engine_bodies *b, engine_body_kind kind)
{
    abx_link *list = &b->waiting[kind];
    while (!abx_link_alone(list)) {
        engine_request *r = ABX_OF(list->next, engine_request, body.node);
        if (!has_room(b, r))
            return;
        abx_link_remove(&r->body.node);
        admit(b, r);
        abx_exchange_resume(r->x);
    }
}

void engine_body_end(engine_request *r)
{
    engine_bodies *b = &r->engine->bodies;
    abx_link_remove(&r->body.node);
    if (!r->body.admitted)
        return;
    r->body.admitted = false;
    b->taken[r->body.kind] -= r->body.room;
    let_in(b, r->body.kind);
}

/* It is answered without its body, which nobody reads any more. */
static void give_up(engine_request *r, int status, abx_error *why)
{
    abx_exchange_last(r->x);
    r->status = status;
    engine_refuse_as(r->x, status, NULL, why);
    abx_error_free(why);
    engine_body_end(r);
}

static engine_request *late(const abx_link *list, uint64_t now_ms)
{
    engine_request *r = abx_link_alone(list) ? NULL : ABX_OF(list->next, engine_request, body.node);
    return r && now_ms >= r->body.due_ms ? r : NULL;
}

void engine_bodies_tick(engine_bodies *b, uint64_t now_ms)
{
    engine_request *r;
    for (int i = 0; i < ENGINE_BODY_KINDS; i++) {
        while ((r = late(&b->coming[i], now_ms)))
            give_up(r, 408,
                    abx_error_new(ABX_ERR_TIMEOUT, "the body was not whole within %d seconds",
                                  (int)(KINDS[i].whole_ms / 1000)));
        while ((r = late(&b->waiting[i], now_ms)))
            give_up(r, 429,
                    abx_error_new(ABX_ERR_RATE_LIMIT,
                                  "the engine has no room for this body: %zu MiB are on their way",
                                  b->taken[i] / MIB));
    }
}
