#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/engine/stream.h"

#define SCRATCH_MAX ((size_t)256 * 1024) /* of memory that is kept */

struct engine_streams {
    abx_link beats;
    abx_buf scratch;
};

engine_streams *engine_streams_new(void)
{
    engine_streams *s = ABX_NEW(engine_streams);
    abx_link_init(&s->beats);
    abx_buf_init(&s->scratch, SIZE_MAX);
    return s;
}

void engine_streams_free(engine_streams *s)
{
    if (!s)
        return;
    ABX_CHECK(abx_link_alone(&s->beats));
    abx_buf_clear(&s->scratch);
    free(s);
}

abx_buf *engine_streams_scratch(engine_streams *s)
{
    if (s->scratch.cap > SCRATCH_MAX)
        abx_buf_clear(&s->scratch);
    abx_buf_reset(&s->scratch);
    return &s->scratch;
}

void engine_streams_tick(engine_streams *s, uint64_t now_ms)
{
    abx_link *next;
    for (abx_link *n = s->beats.next; n != &s->beats; n = next) {
        next = n->next;
        engine_beat *beat = ABX_OF(n, engine_beat, node);
        if (now_ms >= beat->sent_ms + ENGINE_BEAT_MS)
            beat->on_silence(beat);
    }
}

void engine_beat_start(engine_streams *s, engine_beat *beat, void (*on_silence)(engine_beat *beat))
{
    beat->on_silence = on_silence;
    engine_beat_sent(beat);
    abx_link_init(&beat->node);
    abx_link_append(&s->beats, &beat->node);
}

void engine_beat_sent(engine_beat *beat)
{
    beat->sent_ms = abx_now_mono_ms();
}

void engine_beat_stop(engine_beat *beat)
{
    if (beat->on_silence)
        abx_link_remove(&beat->node);
    beat->on_silence = NULL;
}
