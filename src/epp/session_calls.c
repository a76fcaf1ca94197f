/* Requests and their answers. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "epp/message.h"
#include "epp/session_inner.h"

static const abx_call_backend backend;

pending *epp_pending_new(abx_epp_session *s, pending_kind kind)
{
    pending *p = ABX_NEW(pending);
    p->s = s;
    p->kind = kind;
    p->id = s->next_id++;
    p->due_ms = ABX_FOREVER;
    p->next = s->slots[p->id % SLOTS];
    s->slots[p->id % SLOTS] = p;
    return p;
}

pending *epp_find(abx_epp_session *s, uint64_t id)
{
    for (pending *p = s->slots[id % SLOTS]; p; p = p->next)
        if (p->id == id)
            return p;
    return NULL;
}

static void free_pending(pending *p)
{
    yyjson_mut_doc_free(p->seen);
    abx_buf_clear(&p->input);
    free(p);
}

void epp_pending_done(pending *p)
{
    abx_epp_session *s = p->s;
    epp_unpause(p);
    for (pending **at = &s->slots[p->id % SLOTS]; *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    p->answered = true;
    if (p->kind != PENDING_CALL || p->released)
        free_pending(p);
}

void epp_unpause(pending *p)
{
    if (!p->paused)
        return;
    p->paused = false;
    p->s->paused--;
    epp_update_reading(p->s);
    if (p->s->exited)
        epp_settle(p->s);
}

/* --- giving up ------------------------------------------------------------------------------------------ */

void epp_send_cancel(pending *p)
{
    abx_epp_session *s = p->s;
    p->cancelled = true;
    p->due_ms = abx_now_mono_ms() + ABX_EPP_CANCEL_MS;
    epp_arm(s, p->due_ms);
    epp_unpause(p);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(0, "cancel", &root);
    abx_mut_int(d, abx_mut_obj(d, root, "params"), "stream", (int64_t)p->id);
    ABX_CHECK(abx_epp_put(d, &s->out) == 0);
    epp_flush(s);
}

void epp_give_up(pending *p, abx_error *why)
{
    abx_call *call = p->call;
    p->call = NULL;
    if (call)
        abx_call_fail(call, why);
    else
        abx_error_free(why);
    if (!p->cancelled)
        epp_send_cancel(p);
    epp_check_retired(p->s); /* it may have been the last that somebody waited for */
}

void epp_overdue(pending *p)
{
    abx_epp_session *s = p->s;
    char time[32];
    bool limit = p->kind == PENDING_CALL && p->heard && !p->cancelled;
    if (p->kind == PENDING_HELLO) {
        epp_fault(s, epp_error(s, ABX_ERR_TIMEOUT, "its program does not answer 'initialize'%s",
                               abx_epp_reader_is_inside(&s->reader)
                                   ? ": it sent the beginning of a line and then nothing"
                                   : ""));
        return;
    }
    if (p->kind != PENDING_CALL)
        return;
    abx_format_duration(p->cancelled ? ABX_EPP_CANCEL_MS : s->call_ms, time);
    const char *inside = abx_epp_reader_is_inside(&s->reader)
                             ? " (it sent the beginning of a message and then nothing)"
                             : "";
    abx_error *why = epp_error(s, ABX_ERR_TIMEOUT, "its program does not answer %s within %s%s%s",
                               p->row->method, time,
                               p->cancelled ? " of its cancel"
                               : limit      ? " of the time limit"
                                            : "",
                               inside);
    if (!p->cancelled) {
        epp_give_up(p, why);
        return;
    }
    abx_error *told = abx_error_copy(why);
    epp_give_up(p, told); /* its answer may still come; nobody waits for it */
    epp_retire(s, why);
    abx_error_free(why);
}

/* --- a call --------------------------------------------------------------------------------------------- */

static bool is_hosts_own(const char *name)
{
    return strcmp(name, "reuse") == 0 || strcmp(name, "tied") == 0;
}

/* A process with a time limit of its own ends then, and a moment later at the latest its call. */
static uint64_t own_limit(const abx_epp_session *s, const abx_call *call)
{
    int64_t timeout = abx_json_int(abx_call_params(call), "timeoutMs", 0);
    if (timeout <= 0 || abx_call_op(call)->style != ABX_STYLE_STREAM)
        return ABX_FOREVER;
    return abx_now_mono_ms() + (uint64_t)timeout + s->call_ms;
}

int abx_epp_session_start(abx_epp_session *s, abx_call *call, abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    if (s->state != STATE_READY)
        return abx_fail(err, ABX_ERR_PROVIDER_CRASHED, "provider '%s': its program is not there",
                        s->name);
    pending *p = epp_pending_new(s, PENDING_CALL);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(p->id, row->method, &root);
    yyjson_mut_val *params = abx_mut_obj(d, root, "params");
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(abx_call_params(call), i, n, key, value)
    {
        if (!is_hosts_own(yyjson_get_str(key)))
            abx_mut_val(d, params, yyjson_get_str(key), value);
    }
    if (abx_epp_put(d, &s->out) < 0) {
        p->released = true;
        epp_pending_done(p);
        return abx_fail(err, ABX_ERR_TOO_LARGE,
                        "the parameters of %s are larger than a message to a provider's program",
                        row->method);
    }
    p->call = call;
    p->row = row;
    p->window = ABX_EPP_WINDOW;
    p->limit_ms = own_limit(s, call);
    abx_buf_init(&p->input, SIZE_MAX / 2);
    if (row->style != ABX_STYLE_BODY_IN) {
        p->due_ms = abx_now_mono_ms() + s->call_ms;
        epp_arm(s, p->due_ms);
    }
    abx_call_accept(call, &backend, p);
    epp_flush(s);
    return 0;
}

static void on_cancel(abx_call *c, void *state)
{
    (void)c;
    epp_send_cancel(state);
}

static void on_resume(abx_call *c, void *state)
{
    (void)c;
    pending *p = state;
    epp_unpause(p);
    epp_grant(p);
}

static void on_release(abx_call *c, void *state)
{
    (void)c;
    pending *p = state;
    p->call = NULL;
    p->released = true;
    if (p->answered)
        free_pending(p);
    else
        epp_check_retired(p->s);
}

static const abx_call_backend backend = {.on_cancel = on_cancel,
                                         .on_input = epp_on_input,
                                         .on_input_end = epp_on_input_end,
                                         .on_resume = on_resume,
                                         .on_release = on_release};

/* --- answers -------------------------------------------------------------------------------------------- */

static void end_call(pending *p, yyjson_val *result, yyjson_val *error)
{
    abx_call *call = p->call;
    if (!call)
        return;
    abx_error *why = NULL;
    yyjson_mut_doc *d = NULL;
    if (error)
        why = epp_read_error(p->s, error, p->row->method);
    else
        d = epp_result(p, result, &why);
    p->call = NULL;
    if (d)
        abx_call_end(call, d);
    else
        abx_call_fail(call, why);
}

/* What initialize says. 0, or -1 and *err. */
static int check_hello(abx_epp_session *s, yyjson_val *result, abx_error **err)
{
    const char *protocol = abx_json_str(result, "protocol", NULL);
    if (!protocol)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "the answer to 'initialize' names no 'protocol'");
    if (strcmp(protocol, ABX_EPP_PROTOCOL) != 0)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "its program speaks '%.60s', this version of abx only '%s'", protocol,
                        ABX_EPP_PROTOCOL);
    yyjson_val *features = yyjson_obj_get(result, "features");
    if (!yyjson_is_arr(features) && !yyjson_is_obj(features))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "'features' in the answer to 'initialize' must be a list or an object");
    s->raw = s->reader.raw_agreed = abx_json_bool(result, "raw", false);
    s->flow = abx_json_bool(result, "flow", false);
    return 0;
}

static int on_hello(abx_epp_session *s, yyjson_val *result, yyjson_val *error)
{
    abx_error *why = NULL;
    if (!error && check_hello(s, result, &why) < 0) {
        abx_error *told = epp_error(s, why->id, "%s", why->message);
        abx_error_free(why);
        epp_fault(s, told);
        return 0;
    }
    s->greeted = true;
    if (!error) {
        s->state = STATE_READY;
        s->on_ready(s, result, NULL, s->data);
        return 0;
    }
    abx_error *told = epp_read_error(s, error, "initialize");
    s->state = STATE_GONE;
    s->faulted = true;
    epp_end_child(s, false);
    s->on_ready(s, NULL, told, s->data);
    abx_error_free(told);
    return 0;
}

static int on_answer(abx_epp_session *s, yyjson_val *message, abx_error **err)
{
    yyjson_val *number = yyjson_obj_get(message, "id");
    yyjson_val *result = yyjson_obj_get(message, "result");
    yyjson_val *error = yyjson_obj_get(message, "error");
    if (!yyjson_is_uint(number))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "a message with neither 'method' nor an 'id' that is a whole number");
    uint64_t id = yyjson_get_uint(number);
    pending *p = epp_find(s, id);
    if (!p && s->state == STATE_ENDING) /* of a call that ended with the session */
        return 0;
    if (!p && id > 0 && id < s->next_id)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "a second answer to request %llu",
                        (unsigned long long)id);
    if (!p)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "an answer to request %llu, which was never made", (unsigned long long)id);
    if (!result == !error)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "the answer to request %llu must have either 'result' or 'error'",
                        (unsigned long long)id);
    pending_kind kind = p->kind;
    if (kind == PENDING_CALL)
        end_call(p, result, error);
    if (kind == PENDING_WRITE)
        epp_write_answered(s, p, error);
    epp_pending_done(p);
    if (kind == PENDING_HELLO)
        return on_hello(s, result, error);
    if (kind == PENDING_BYE)
        epp_end_child(s, false);
    epp_check_retired(s);
    return 0;
}

int epp_on_message(yyjson_val *message, void *data, abx_error **err)
{
    abx_epp_session *s = data;
    yyjson_val *method = yyjson_obj_get(message, "method");
    if (s->state == STATE_GONE)
        return 0;
    s->raw_id = 0;
    if (!method)
        return on_answer(s, message, err);
    if (!yyjson_is_str(method))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'method' of a message must be text");
    if (yyjson_obj_get(message, "id"))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                        "a request ('%.60s'): only abx makes requests", yyjson_get_str(method));
    yyjson_val *params = yyjson_obj_get(message, "params");
    if (!yyjson_is_obj(params))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'params' of '%.60s' must be an object",
                        yyjson_get_str(method));
    return epp_on_notification(s, yyjson_get_str(method), params, err);
}
