#include "ops/call.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "ops/call_host.h"

/* Input that waits for the adapter; the door is asked to hold from the first byte that waits. */
#define INPUT_MAX ((size_t)64 * 1024 * 1024)

typedef struct item {
    struct item *next;
    const char *event; /* NULL: a chunk */
    yyjson_doc *doc;
    abx_channel channel;
    size_t size;
    uint8_t bytes[];
} item;

struct abx_call {
    uv_loop_t *loop;
    const abx_op_row *row;
    yyjson_doc *params;
    abx_call_handlers door;
    void *door_data;
    const abx_call_backend *backend;
    void *state;
    abx_call_intercept_cb intercept;
    void *intercept_data;
    void (*held)(abx_call *c, void *data); /* while no adapter has it */
    void *held_data;

    item *head, *tail; /* what waits for the door */
    size_t waiting;
    bool ended; /* the adapter gave the end: result or error is set */
    yyjson_doc *result;
    abx_error *error;

    bool started; /* an adapter or the host has it; before that nothing is delivered */
    bool in_start, paused, draining, door_done, released;
    bool adapter_holds; /* the adapter was told to stop and waits for on_resume */
    bool cancel_wanted, cancelled;
    bool unwanted; /* cancelled after the adapter's end: what still waits is dropped */
    abx_err_id cancel_id;

    abx_buf input;
    bool input_ended, input_end_given, input_busy, adapter_full, door_holds;

    uint64_t deadline; /* abx_now_mono_ms, ABX_FOREVER: none */
    uv_timer_t timer;  /* deadline, then grace */
    uv_timer_t kick;   /* work that must come from the loop */
    int open_handles;
};

const char *abx_channel_name(abx_channel c)
{
    static const char *const names[] = {"stdout", "stderr", "pty", "body"};
    return names[c];
}

static void work(abx_call *c);
static void on_kick(uv_timer_t *t)
{
    work(t->data);
}

static void kick(abx_call *c)
{
    if (!c->door_done && !uv_is_active((uv_handle_t *)&c->kick))
        uv_timer_start(&c->kick, on_kick, 0, 0);
}

abx_call *abx_call_new(uv_loop_t *loop, abx_op_id op, yyjson_doc *params,
                       const abx_call_handlers *handlers, void *data)
{
    abx_call *c = ABX_NEW(abx_call);
    c->loop = loop;
    c->row = abx_op_row_of(op);
    c->params = params;
    c->door = *handlers;
    c->door_data = data;
    c->deadline = ABX_FOREVER;
    abx_buf_init(&c->input, INPUT_MAX);
    uv_timer_init(loop, &c->timer);
    uv_timer_init(loop, &c->kick);
    c->timer.data = c->kick.data = c;
    c->open_handles = 2;
    return c;
}

static void on_closed(uv_handle_t *h)
{
    abx_call *c = h->data;
    if (--c->open_handles > 0)
        return;
    yyjson_doc_free(c->params);
    yyjson_doc_free(c->result);
    abx_error_free(c->error);
    abx_buf_clear(&c->input);
    free(c);
}

static void drop_waiting(abx_call *c)
{
    while (c->head) {
        item *it = c->head;
        c->head = it->next;
        yyjson_doc_free(it->doc);
        free(it);
    }
    c->tail = NULL;
    c->waiting = 0;
}

static void close_call(abx_call *c)
{
    drop_waiting(c);
    uv_close((uv_handle_t *)&c->timer, on_closed);
    uv_close((uv_handle_t *)&c->kick, on_closed);
}

void abx_call_discard(abx_call *c)
{
    ABX_CHECK(!c->door_done && !c->backend);
    c->door_done = true;
    close_call(c);
}

/* The door has had its end. The call itself lives until the adapter is released too. */
static void release(abx_call *c)
{
    if (c->released)
        return;
    c->released = true;
    if (c->backend && c->backend->on_release)
        c->backend->on_release(c, c->state);
    close_call(c);
}

static void run_intercept(abx_call *c, yyjson_mut_doc **result, abx_error **error)
{
    abx_call_intercept_cb cb = c->intercept;
    c->intercept = NULL;
    if (cb)
        cb(c, result, error, c->intercept_data);
}

static abx_error *cancel_error(const abx_call *c)
{
    if (c->cancel_id == ABX_ERR_TIMEOUT)
        return abx_error_new(ABX_ERR_TIMEOUT, "%s: the time limit of the call passed",
                             c->row->method);
    return abx_error_new(ABX_ERR_CANCELLED, "%s: cancelled", c->row->method);
}

static void deliver_end(abx_call *c)
{
    c->door_done = true;
    uv_timer_stop(&c->timer);
    if (c->cancelled && (!c->error || c->error->id != c->cancel_id)) {
        abx_error_free(c->error);
        c->error = cancel_error(c);
    }
    if (!c->ended) {
        yyjson_mut_doc *none = NULL;
        run_intercept(c, &none, &c->error);
        yyjson_mut_doc_free(none);
    }
    if (!c->error && !c->result) {
        yyjson_mut_doc *empty = abx_mut_new(NULL);
        c->result = abx_json_freeze(empty);
        yyjson_mut_doc_free(empty);
    }
    c->door.on_end(c, c->error ? NULL : yyjson_doc_get_root(c->result), c->error, c->door_data);
    /* An adapter that neither ended nor lets go keeps the memory until it ends. */
    if (c->ended || !c->backend || c->backend->on_release)
        release(c);
}

static void on_grace(uv_timer_t *t)
{
    abx_call *c = t->data;
    if (c->door_done)
        return;
    deliver_end(c);
}

/* Carry out a cancel or a deadline: ask the adapter, and bound the wait. */
static void do_cancel(abx_call *c)
{
    c->cancel_wanted = false;
    if (c->cancelled || c->ended)
        return;
    c->cancelled = true;
    if (!c->backend || !c->backend->on_cancel) {
        if (c->held)
            c->held(c, c->held_data);
        deliver_end(c);
        return;
    }
    uv_timer_start(&c->timer, on_grace, ABX_CALL_GRACE_MS, 0);
    c->backend->on_cancel(c, c->state);
}

static void deliver(abx_call *c, const char *event, yyjson_val *doc, abx_channel channel,
                    const uint8_t *bytes, size_t n)
{
    if (event && c->door.on_event)
        c->door.on_event(c, event, doc, c->door_data);
    else if (!event && c->door.on_chunk)
        c->door.on_chunk(c, channel, bytes, n, c->door_data);
}

/* Hand over what waits, as far as the door takes it. */
static void drain(abx_call *c)
{
    if (c->draining)
        return;
    c->draining = true;
    while (c->head && !c->paused && !c->unwanted) {
        item *it = c->head;
        c->head = it->next;
        if (!c->head)
            c->tail = NULL;
        c->waiting -= it->size;
        deliver(c, it->event, it->doc ? yyjson_doc_get_root(it->doc) : NULL, it->channel, it->bytes,
                it->size);
        yyjson_doc_free(it->doc);
        free(it);
    }
    c->draining = false;
    if (!c->head && !c->paused && c->adapter_holds && !c->ended) {
        c->adapter_holds = false;
        if (c->backend && c->backend->on_resume)
            c->backend->on_resume(c, c->state);
    }
}

static void give_input(abx_call *c)
{
    if (!c->backend || c->input_busy || c->ended || c->cancelled)
        return;
    c->input_busy = true;
    while (c->input.len > 0 && !c->adapter_full && !c->ended) {
        abx_buf taken = c->input;
        abx_buf_init(&c->input, INPUT_MAX);
        int more = 1;
        if (c->backend->on_input)
            more = c->backend->on_input(c, taken.data, taken.len, c->state);
        abx_buf_clear(&taken);
        if (!more)
            c->adapter_full = true;
    }
    if (c->input.len == 0 && !c->adapter_full && c->input_ended && !c->input_end_given &&
        !c->ended) {
        c->input_end_given = true;
        if (c->backend->on_input_end)
            c->backend->on_input_end(c, c->state);
    }
    c->input_busy = false;
    if (c->door_holds && c->input.len == 0 && !c->adapter_full) {
        c->door_holds = false;
        if (c->door.on_writable)
            c->door.on_writable(c, c->door_data);
    }
}

static void work(abx_call *c)
{
    if (!c->started)
        return;
    if (c->cancel_wanted)
        do_cancel(c);
    if (c->door_done)
        return;
    give_input(c);
    if (!c->unwanted)
        drain(c);
    if (c->ended && (c->cancelled || c->unwanted || (!c->head && !c->paused)))
        deliver_end(c);
}

static void on_deadline(uv_timer_t *t)
{
    abx_call *c = t->data;
    if (c->cancelled || c->ended || c->door_done)
        return;
    c->cancel_id = ABX_ERR_TIMEOUT;
    c->cancel_wanted = true;
    work(c);
}

void abx_call_set_deadline(abx_call *c, uint64_t timeout_ms)
{
    if (c->cancelled || c->door_done)
        return;
    if (timeout_ms == ABX_FOREVER) {
        c->deadline = ABX_FOREVER;
        uv_timer_stop(&c->timer);
        return;
    }
    if (__builtin_add_overflow(abx_now_mono_ms(), timeout_ms, &c->deadline))
        c->deadline = ABX_FOREVER - 1;
    uv_update_time(c->loop);
    uv_timer_start(&c->timer, on_deadline, timeout_ms, 0);
}

uint64_t abx_call_time_left(const abx_call *c)
{
    if (c->deadline == ABX_FOREVER)
        return ABX_FOREVER;
    uint64_t now = abx_now_mono_ms();
    return now >= c->deadline ? 0 : c->deadline - now;
}

void abx_call_cancel(abx_call *c)
{
    if (c->cancelled || c->cancel_wanted || c->door_done)
        return;
    if (c->ended) {
        c->unwanted = true;
    } else {
        c->cancel_id = ABX_ERR_CANCELLED;
        c->cancel_wanted = true;
    }
    kick(c);
}

void abx_call_pause(abx_call *c)
{
    c->paused = true;
}

void abx_call_resume(abx_call *c)
{
    if (!c->paused)
        return;
    c->paused = false;
    kick(c);
}

int abx_call_write(abx_call *c, const void *bytes, size_t n)
{
    if (c->ended || c->cancelled || c->door_done || c->input_ended || n == 0)
        return 1;
    bool direct = c->backend && c->backend->on_input && !c->in_start && !c->input_busy &&
                  !c->adapter_full && c->input.len == 0;
    if (direct) {
        c->input_busy = true;
        int more = c->backend->on_input(c, bytes, n, c->state);
        c->input_busy = false;
        if (!more)
            c->adapter_full = true;
    } else {
        ABX_CHECK(abx_buf_add(&c->input, bytes, n) == 0);
        if (!c->adapter_full)
            kick(c);
    }
    if (!c->adapter_full && c->input.len < ABX_CALL_WINDOW / 4)
        return 1;
    c->door_holds = true;
    return 0;
}

void abx_call_write_end(abx_call *c)
{
    c->input_ended = true;
    kick(c);
}

void abx_call_want_input(abx_call *c)
{
    if (!c->adapter_full)
        return;
    c->adapter_full = false;
    kick(c);
}

void *abx_call_data(const abx_call *c)
{
    return c->door_data;
}
const abx_op_row *abx_call_op(const abx_call *c)
{
    return c->row;
}
yyjson_val *abx_call_params(const abx_call *c)
{
    return yyjson_doc_get_root(c->params);
}
uv_loop_t *abx_call_loop(const abx_call *c)
{
    return c->loop;
}
bool abx_call_is_cancelled(const abx_call *c)
{
    return c->cancelled || c->cancel_wanted;
}

void abx_call_accept(abx_call *c, const abx_call_backend *backend, void *state)
{
    c->backend = backend;
    c->state = state;
    c->started = true;
    kick(c);
}

static int hold(abx_call *c)
{
    c->adapter_holds = true;
    return 0;
}

static void enqueue(abx_call *c, item *it)
{
    if (c->tail)
        c->tail->next = it;
    else
        c->head = it;
    c->tail = it;
    c->waiting += it->size;
}

/* May something go to the door at once? */
static bool is_clear(const abx_call *c)
{
    return !c->in_start && !c->paused && !c->draining && !c->head;
}

int abx_call_event(abx_call *c, const char *type, yyjson_mut_doc *doc)
{
    if (c->ended || c->cancelled || c->door_done) {
        yyjson_mut_doc_free(doc);
        return 1;
    }
    if (!doc)
        doc = abx_mut_new(NULL);
    yyjson_doc *frozen = abx_json_freeze(doc);
    yyjson_mut_doc_free(doc);
    if (is_clear(c)) {
        c->draining = true;
        deliver(c, type, yyjson_doc_get_root(frozen), ABX_CH_BODY, NULL, 0);
        c->draining = false;
        yyjson_doc_free(frozen);
        return c->paused ? hold(c) : 1;
    }
    size_t n = strlen(type) + 1;
    item *it = abx_alloc(sizeof(item) + n);
    memcpy(it->bytes, type, n);
    it->event = (const char *)it->bytes;
    it->doc = frozen;
    it->size = 64 + 16 * yyjson_doc_get_val_count(frozen);
    enqueue(c, it);
    kick(c);
    return c->waiting >= ABX_CALL_WINDOW / 4 ? hold(c) : 1;
}

int abx_call_chunk(abx_call *c, abx_channel channel, const void *bytes, size_t n)
{
    if (c->ended || c->cancelled || c->door_done || n == 0)
        return 1;
    if (is_clear(c)) {
        c->draining = true;
        deliver(c, NULL, NULL, channel, bytes, n);
        c->draining = false;
        return c->paused ? hold(c) : 1;
    }
    item *it = abx_alloc(sizeof(item) + n);
    it->channel = channel;
    it->size = n;
    memcpy(it->bytes, bytes, n);
    enqueue(c, it);
    kick(c);
    return c->paused || c->waiting >= ABX_CALL_WINDOW / 4 ? hold(c) : 1;
}

static void end_with(abx_call *c, yyjson_mut_doc *result, abx_error *error)
{
    ABX_CHECK(!c->ended);
    run_intercept(c, &result, &error);
    c->ended = true;
    if (c->door_done) { /* the grace time gave another end */
        abx_error_free(error);
        yyjson_mut_doc_free(result);
        release(c);
        return;
    }
    c->error = error;
    if (!error && result)
        c->result = abx_json_freeze(result);
    yyjson_mut_doc_free(result);
    kick(c);
}

void abx_call_end(abx_call *c, yyjson_mut_doc *result)
{
    end_with(c, result, NULL);
}
void abx_call_fail(abx_call *c, abx_error *err)
{
    ABX_CHECK(err != NULL);
    end_with(c, NULL, err);
}

/* --- the host's side ------------------------------------------------------------------------------- */
void abx_call_enter_start(abx_call *c)
{
    c->in_start = true;
}
void abx_call_leave_start(abx_call *c)
{
    c->in_start = false;
    c->started = true;
    if (c->head || c->ended || c->cancel_wanted || c->input.len > 0 || c->input_ended)
        kick(c);
}

void abx_call_set_params(abx_call *c, yyjson_doc *params)
{
    yyjson_doc_free(c->params);
    c->params = params;
}

void abx_call_set_op(abx_call *c, abx_op_id op)
{
    c->row = abx_op_row_of(op);
}

void abx_call_intercept(abx_call *c, abx_call_intercept_cb cb, void *data)
{
    c->intercept = cb;
    c->intercept_data = data;
}

void abx_call_refused(abx_call *c, abx_error **err)
{
    yyjson_mut_doc *none = NULL;
    run_intercept(c, &none, err);
    yyjson_mut_doc_free(none);
    c->backend = NULL; /* the call may be discarded, or failed by the host */
    c->state = NULL;
}

void abx_call_hold(abx_call *c, void (*gone)(abx_call *c, void *data), void *data)
{
    c->held = gone;
    c->held_data = data;
    c->started = true;
    kick(c);
}

void abx_call_unhold(abx_call *c)
{
    c->held = NULL;
}
