/* A set of keys, open addressing. The keys are digests, so their own bytes spread them. */
#include <string.h>

#include "base/mem.h"
#include "doors/engine/engine.h"

#define FIRST_ROOM 64 /* a power of two */

typedef struct made_key {
    uint8_t bytes[16];
} made_key;

static const made_key none; /* a digest of zeros only does not happen */

struct engine_made {
    made_key *keys;
    size_t room, count;
};

engine_made *engine_made_new(void)
{
    engine_made *m = ABX_NEW(engine_made);
    m->room = FIRST_ROOM;
    m->keys = abx_alloc_array(m->room, sizeof *m->keys);
    return m;
}

void engine_made_free(engine_made *m)
{
    if (!m)
        return;
    free(m->keys);
    free(m);
}

static bool same(const made_key *a, const void *b)
{
    return memcmp(a->bytes, b, sizeof a->bytes) == 0;
}

static size_t home_of(const engine_made *m, const void *key)
{
    size_t h;
    memcpy(&h, key, sizeof h);
    return h & (m->room - 1);
}

/* Where the key is, else the free place where it would be put. */
static size_t place_of(const engine_made *m, const void *key)
{
    size_t at = home_of(m, key);
    while (!same(&m->keys[at], none.bytes) && !same(&m->keys[at], key))
        at = (at + 1) & (m->room - 1);
    return at;
}

bool engine_made_has(const engine_made *m, const uint8_t key[16])
{
    return same(&m->keys[place_of(m, key)], key);
}

static void grow(engine_made *m)
{
    engine_made bigger = {.room = m->room * 2};
    bigger.keys = abx_alloc_array(bigger.room, sizeof *bigger.keys);
    for (size_t i = 0; i < m->room; i++)
        if (!same(&m->keys[i], none.bytes))
            bigger.keys[place_of(&bigger, m->keys[i].bytes)] = m->keys[i];
    free(m->keys);
    m->keys = bigger.keys;
    m->room = bigger.room;
}

void engine_made_add(engine_made *m, const uint8_t key[16])
{
    size_t at = place_of(m, key);
    if (same(&m->keys[at], key))
        return;
    if ((m->count + 1) * 2 > m->room) {
        grow(m);
        at = place_of(m, key);
    }
    memcpy(m->keys[at].bytes, key, sizeof m->keys[at].bytes);
    m->count++;
}

/* Those behind it that would not be found any more move up. */
void engine_made_remove(engine_made *m, const uint8_t key[16])
{
    size_t hole = place_of(m, key), mask = m->room - 1;
    if (!same(&m->keys[hole], key))
        return;
    m->count--;
    for (size_t at = (hole + 1) & mask; !same(&m->keys[at], none.bytes); at = (at + 1) & mask) {
        size_t home = home_of(m, m->keys[at].bytes);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        m->keys[hole] = m->keys[at];
        hole = at;
    }
    m->keys[hole] = none;
}
