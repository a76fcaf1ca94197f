/* A door and an adapter around one call, with no host between them. What the door sees goes into a log; what the adapter
 * does is set by the test. */
#ifndef TESTS_CALL_RIG_H
#define TESTS_CALL_RIG_H

#include "kit.h"

#include "base/clock.h"
#include "ops/call.h"
#include "ops/call_host.h"

typedef struct rig {
    uv_loop_t loop;
    abx_call *call;
    /* the door's side */
    char log[8192]; /* "started chunk:stdout:3 end:ok " … */
    int ends, writables, chunks, events;
    abx_err_id end_id; /* of the error, ABX_ERR_COUNT for a result */
    bool inside_start, came_inside_start;
    bool pause_on_chunk, cancel_on_chunk, cancel_on_event;
    void (*on_chunk)(struct rig *r, abx_channel channel, const uint8_t *bytes, size_t n);
    void (*on_end)(struct rig *r, yyjson_val *result, const abx_error *err);
    /* the adapter's side */
    int cancels, resumes, releases, input_ends, inputs;
    abx_buf input;
    int input_answer;   /* of on_input */
    bool end_on_cancel; /* … with what the adapter thinks of it: a result */
    bool end_on_input_end;
    void (*on_resume)(struct rig *r);
    /* the host's side */
    int intercepts;
    bool intercepted_error, intercepted_result;
} rig;

static inline void rig_note(rig *r, const char *fmt, ...) ABX_PRINTF(2, 3);
static inline void rig_note(rig *r, const char *fmt, ...)
{
    size_t n = strlen(r->log);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->log + n, sizeof r->log - n, fmt, ap);
    va_end(ap);
}

static inline void rig_came(rig *r)
{
    assert_int_equal(r->ends, 0); /* nothing after the end */
    r->came_inside_start = r->came_inside_start || r->inside_start;
}

static inline void rig_on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    rig *r = data;
    rig_came(r);
    assert_true(yyjson_is_obj(event));
    assert_ptr_equal(abx_call_data(c), r);
    r->events++;
    rig_note(r, "%s ", type);
    if (r->cancel_on_event)
        abx_call_cancel(c);
}

static inline void rig_on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n,
                                void *data)
{
    rig *r = data;
    rig_came(r);
    r->chunks++;
    if (r->on_chunk)
        r->on_chunk(r, channel, bytes, n);
    else
        rig_note(r, "%s:%.*s ", abx_channel_name(channel), (int)n, (const char *)bytes);
    if (r->pause_on_chunk)
        abx_call_pause(c);
    if (r->cancel_on_chunk)
        abx_call_cancel(c);
}

static inline void rig_on_writable(abx_call *c, void *data)
{
    rig *r = data;
    rig_came(r);
    r->writables++;
}

static inline void rig_on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    rig *r = data;
    rig_came(r);
    r->ends++;
    assert_int_equal((result != NULL) + (err != NULL), 1);
    if (result)
        assert_true(yyjson_is_obj(result));
    r->end_id = err ? err->id : ABX_ERR_COUNT;
    rig_note(r, "end:%s", err ? abx_err_row_of(err->id)->name : "ok");
    if (r->on_end)
        r->on_end(r, result, err);
}

static const abx_call_handlers rig_door = {
    .on_event = rig_on_event,
    .on_chunk = rig_on_chunk,
    .on_writable = rig_on_writable,
    .on_end = rig_on_end,
};

static inline void rig_cancelled(abx_call *c, void *state)
{
    rig *r = state;
    r->cancels++;
    assert_true(abx_call_is_cancelled(c));
    if (r->end_on_cancel)
        abx_call_end(c, NULL);
}

static inline int rig_input(abx_call *c, const uint8_t *bytes, size_t n, void *state)
{
    rig *r = state;
    r->inputs++;
    assert_int_equal(r->input_ends, 0);
    assert_int_equal(abx_buf_add(&r->input, bytes, n), 0);
    return r->input_answer;
}

static inline void rig_input_end(abx_call *c, void *state)
{
    rig *r = state;
    r->input_ends++;
    if (r->end_on_input_end)
        abx_call_end(c, NULL);
}

static inline void rig_resumed(abx_call *c, void *state)
{
    rig *r = state;
    r->resumes++;
    if (r->on_resume)
        r->on_resume(r);
}

static inline void rig_released(abx_call *c, void *state)
{
    ((rig *)state)->releases++;
}

static const abx_call_backend rig_full = {.on_cancel = rig_cancelled,
                                          .on_input = rig_input,
                                          .on_input_end = rig_input_end,
                                          .on_resume = rig_resumed,
                                          .on_release = rig_released};

static inline void rig_open_with(rig *r, const abx_call_handlers *door)
{
    memset(r, 0, sizeof *r);
    r->input_answer = 1;
    abx_buf_init(&r->input, (size_t)1 << 28);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    r->call = abx_call_new(&r->loop, ABX_OP_PROCESS_START, abx_json_copy(NULL), door, r);
}

static inline void rig_open(rig *r)
{
    rig_open_with(r, &rig_door);
}

/* What the host does around an adapter's start; the adapter does nothing but accept, and what `more` does. */
static inline void rig_start(rig *r, const abx_call_backend *backend, void (*more)(rig *r))
{
    r->inside_start = true;
    abx_call_enter_start(r->call);
    if (backend)
        abx_call_accept(r->call, backend, r);
    if (more)
        more(r);
    abx_call_leave_start(r->call);
    r->inside_start = false;
}

static inline void rig_run(rig *r)
{
    uv_run(&r->loop, UV_RUN_DEFAULT);
}

/* Some turns of the loop that do not wait. */
static inline void rig_turn(rig *r)
{
    for (int i = 0; i < 5; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

/* The loop has nothing left and closes. */
static inline void rig_close(rig *r)
{
    rig_run(r);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    assert_false(r->came_inside_start);
    abx_buf_clear(&r->input);
}

static inline void rig_intercept(abx_call *c, yyjson_mut_doc **result, abx_error **err, void *data)
{
    rig *r = data;
    r->intercepts++;
    r->intercepted_error = *err != NULL;
    r->intercepted_result = *result != NULL;
}

#endif
