/* How a session ends: by its closing, or by a fault of the child; and how the child is made to end, with all that it started. */
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "epp/message.h"
#include "epp/session_inner.h"
#include "net/kin.h"

#define FAULT_MS  500 /* between TERM and KILL of a child that broke the protocol */
#define SETTLE_MS 500 /* between the end of a stream and that of the child */
#define WALKS_MAX 400
#define WALK_MS   5
#define KILL_EACH 100

/* --- errors --------------------------------------------------------------------------------------------- */

abx_error *epp_error(abx_epp_session *s, abx_err_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    ABX_AUTO_FREE char *last = abx_epp_words_last(&s->words);
    ABX_AUTO_FREE char *blank = abx_secrets_blank(&s->secrets, text, strlen(text));
    abx_error *e = abx_error_new(id, "provider '%s': %s%s%s", s->name, blank,
                                 last[0] ? "; it said: " : "", last);
    e->hint = abx_format("'abx provider log %s' shows all that its program said", s->name);
    e->provider = abx_strdup(s->name);
    return e;
}

abx_error *epp_read_error(abx_epp_session *s, yyjson_val *error, const char *method)
{
    abx_error *e = abx_epp_error_read(error, method);
    char *blank = abx_secrets_blank(&s->secrets, e->message, strlen(e->message));
    free(e->message);
    e->message = blank;
    if (e->hint) {
        blank = abx_secrets_blank(&s->secrets, e->hint, strlen(e->hint));
        free(e->hint);
        e->hint = blank;
    }
    return e;
}

/* --- faults --------------------------------------------------------------------------------------------- */

/* All calls end with copies of this; requests are forgotten. */
static void fail_all(abx_epp_session *s, const abx_error *why)
{
    for (size_t i = 0; i < SLOTS; i++) {
        while (s->slots[i]) {
            pending *p = s->slots[i];
            abx_call *call = p->call;
            p->call = NULL;
            if (p->kind == PENDING_CALL && call) {
                abx_error *e = abx_error_copy(why);
                abx_call_fail(call, e);
            }
            epp_pending_done(p);
        }
    }
}

void epp_fault(abx_epp_session *s, abx_error *why)
{
    if (s->state == STATE_GONE || s->state == STATE_ENDING) {
        if (s->state == STATE_ENDING)
            epp_end_child(s, true);
        s->state = STATE_GONE;
        abx_error_free(why);
        return;
    }
    s->state = STATE_GONE;
    epp_logf(s, ABX_LOG_ERROR, "%s", why->message);
    fail_all(s, why);
    epp_end_child(s, true);
    bool greeted = s->greeted, told = s->faulted;
    s->greeted = s->faulted = true;
    if (!greeted)
        s->on_ready(s, NULL, why, s->data);
    else if (!told)
        s->on_fault(s, why, s->data);
    abx_error_free(why);
}

void epp_check_retired(abx_epp_session *s)
{
    if (s->state != STATE_RETIRED)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        for (const pending *p = s->slots[i]; p; p = p->next)
            if (p->call)
                return;
    s->state = STATE_GONE;
    epp_end_child(s, true);
}

void epp_retire(abx_epp_session *s, const abx_error *why)
{
    if (s->state != STATE_READY)
        return;
    s->state = STATE_RETIRED;
    if (!s->faulted) {
        s->faulted = true;
        s->on_fault(s, why, s->data);
    }
    epp_check_retired(s);
}

static void how_it_ended(int status, char out[80])
{
    if (WIFSIGNALED(status))
        (void)snprintf(out, 80, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        (void)snprintf(out, 80, "exit code %d", WEXITSTATUS(status));
}

static void crashed(abx_epp_session *s)
{
    char how[80];
    how_it_ended(s->status, how);
    epp_fault(
        s, epp_error(s, ABX_ERR_PROVIDER_CRASHED, "its program ended %s (%s)%s",
                     s->greeted ? "by itself" : "before it answered 'initialize'", how,
                     abx_epp_reader_is_inside(&s->reader) ? ", in the middle of a message" : ""));
}

void epp_settle(abx_epp_session *s)
{
    if (s->state >= STATE_ENDING) {
        if (s->exited && !s->ended) { /* nothing to wait for */
            s->force_ms = 0;
            epp_arm(s, 0);
        }
        return;
    }
    if (s->exited) {
        epp_drain(s);
        if (s->paused == 0 && s->state < STATE_ENDING)
            crashed(s);
        return;
    }
    if (s->settle_ms != ABX_FOREVER)
        return;
    s->settle_ms = abx_now_mono_ms() + SETTLE_MS;
    epp_arm(s, s->settle_ms);
}

void epp_settled(abx_epp_session *s)
{
    s->settle_ms = ABX_FOREVER;
    if (s->state >= STATE_ENDING || s->exited)
        return;
    epp_fault(s, epp_error(s, ABX_ERR_PROVIDER_PROTOCOL,
                           "its program closed its standard %s, and lives",
                           s->from_open ? "input" : "output"));
}

/* --- the child's end ------------------------------------------------------------------------------------ */

void epp_on_exit(abx_child *c, int status, void *data)
{
    (void)c;
    abx_epp_session *s = data;
    s->child = NULL;
    s->exited = true;
    s->status = status;
    if (s->state >= STATE_ENDING) {
        epp_drain(s);
        s->force_ms = 0;
        epp_arm(s, 0);
    } else {
        epp_settle(s);
    }
}

void epp_end_child(abx_epp_session *s, bool by_force)
{
    uint64_t now = abx_now_mono_ms();
    s->by_force = s->by_force || by_force;
    epp_close_stream(s, &s->to, &s->to_open);
    epp_close_stream(s, &s->from, &s->from_open);
    if (s->child && by_force && s->force == 0) {
        abx_child_signal(s->child, SIGTERM);
        s->force = 1;
        s->force_ms = now + FAULT_MS;
    } else if (s->force_ms == ABX_FOREVER) {
        s->force_ms = now + ABX_EPP_END_MS;
    }
    if (!s->child && s->force_ms > now)
        s->force_ms = now;
    epp_arm(s, s->force_ms);
}

/* The child is gone: what it left, walk by walk. */
static uint64_t sweep(abx_epp_session *s, uint64_t now)
{
    size_t found = s->has_child && !s->alone ? abx_kin_kill(s->mark, s->pid, s->by_force) : 0;
    if (found > 0 && ++s->walks < WALKS_MAX)
        return now + WALK_MS;
    s->ended = true;
    return ABX_FOREVER;
}

uint64_t epp_end_step(abx_epp_session *s, uint64_t now)
{
    if (s->force_ms > now || s->ended || s->state < STATE_ENDING)
        return s->force_ms;
    if (s->exited || !s->child) {
        s->force_ms = sweep(s, now);
    } else if (s->force == 0) {
        s->by_force = true; /* it did not end when it was asked to */
        abx_child_signal(s->child, SIGTERM);
        s->force = 1;
        s->force_ms = now + ABX_EPP_END_MS;
    } else {
        abx_child_signal(s->child, SIGKILL);
        s->force = 2;
        s->force_ms = now + KILL_EACH;
    }
    return s->force_ms;
}

/* --- the end of all ------------------------------------------------------------------------------------- */

static void free_session(abx_epp_session *s)
{
    for (size_t i = 0; i < SLOTS; i++)
        while (s->slots[i]) /* the goodbye that was not answered */
            epp_pending_done(s->slots[i]);
    abx_epp_words_clear(&s->words);
    abx_secrets_clear(&s->secrets);
    abx_epp_reader_clear(&s->reader);
    abx_buf_clear(&s->out);
    abx_error_free(s->start_error);
    free(s->read_buffer);
    free(s->error_buffer);
    free(s->name);
    free(s);
}

static void on_timer_closed(uv_handle_t *h)
{
    abx_epp_session *s = h->data;
    s->handles--;
    epp_maybe_done(s);
}

void epp_maybe_done(abx_epp_session *s)
{
    if (!s->ended || !s->closing)
        return;
    if (!s->handles_closed) {
        s->handles_closed = true;
        epp_close_stream(s, &s->to, &s->to_open);
        epp_close_stream(s, &s->from, &s->from_open);
        epp_close_stream(s, &s->said, &s->said_open);
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
        return;
    }
    if (s->handles > 0)
        return;
    void (*cb)(void *) = s->close_cb;
    void *data = s->close_data;
    free_session(s);
    if (cb)
        cb(data);
}

static void say_goodbye(abx_epp_session *s)
{
    pending *p = epp_pending_new(s, PENDING_BYE);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(p->id, "shutdown", &root);
    abx_mut_obj(d, root, "params");
    ABX_CHECK(abx_epp_put(d, &s->out) == 0);
    epp_flush(s);
}

void abx_epp_session_close(abx_epp_session *s, void (*cb)(void *data), void *data)
{
    ABX_CHECK(!s->closing);
    s->closing = true;
    s->close_cb = cb;
    s->close_data = data;
    s->greeted = s->faulted = true;
    session_state state = s->state;
    if (state ==
        STATE_RETIRED) { /* its calls end first, by themselves; the last one ends the child */
        epp_check_retired(s);
        return;
    }
    if (state < STATE_RETIRED) {
        abx_error *why = abx_error_new(ABX_ERR_CANCELLED, "provider '%s' was closed", s->name);
        s->state = STATE_ENDING;
        fail_all(s, why);
        abx_error_free(why);
    }
    if (state == STATE_READY) {
        say_goodbye(s);
        s->force_ms = abx_now_mono_ms() + ABX_EPP_END_MS;
        epp_arm(s, s->force_ms);
        if (s->exited && s->has_child)
            s->force_ms = 0;
    } else if (state < STATE_ENDING) {
        epp_end_child(s, true);
    }
    if (s->force_ms == ABX_FOREVER && !s->ended)
        s->force_ms = 0;
    epp_arm(s, s->force_ms == ABX_FOREVER ? 0 : s->force_ms);
}
