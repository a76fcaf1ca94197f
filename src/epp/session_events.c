/* Notifications: events and bytes of calls, lines for the log. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "epp/session_inner.h"

#define GRANT_FROM   (ABX_EPP_WINDOW / 4) /* fewer bytes are not worth a message */
#define UNKNOWN_MAX  20                   /* unknown notifications that are logged */
#define LOG_LINE_MAX 4096
#define LARGE        (32 * 1024) /* bytes of a chunk: more of them may come */

/* --- flow ----------------------------------------------------------------------------------------------- */

void epp_grant(pending *p)
{
    abx_epp_session *s = p->s;
    if (!s->flow || p->taken == 0 || p->cancelled || p->answered)
        return;
    ABX_CHECK(
        abx_buf_addf(
            &s->out,
            "{\"jsonrpc\":\"2.0\",\"method\":\"stream.window\",\"params\":{\"stream\":%" PRIu64
            ",\"bytes\":%" PRIu64 "}}\n",
            p->id, p->taken) == 0);
    p->window += p->taken;
    p->taken = 0;
    epp_flush(s);
}

static void hold_reading(pending *p)
{
    if (p->paused)
        return;
    p->paused = true;
    p->s->paused++;
    epp_update_reading(p->s);
}

/* --- bytes ---------------------------------------------------------------------------------------------- */

/* A chunk of n bytes is coming. False: it may not; its call has been given up. */
static bool admit(pending *p, size_t n)
{
    abx_epp_session *s = p->s;
    if (n > ABX_EPP_CHUNK_MAX) {
        epp_give_up(p, epp_error(s, ABX_ERR_PROVIDER_PROTOCOL, "%s: a chunk of %zu bytes",
                                 p->row->method, n));
        return false;
    }
    if (!s->flow)
        return true;
    if (n > p->window) {
        epp_give_up(p, epp_error(s, ABX_ERR_PROVIDER_PROTOCOL,
                                 "%s: %zu bytes were sent where %" PRIu64 " are granted",
                                 p->row->method, n, p->window));
        return false;
    }
    p->window -= n;
    return true;
}

/* Bytes of a chunk, or a piece of a raw one. */
static void deliver(pending *p, abx_channel channel, const void *bytes, size_t n, bool last)
{
    bool more = abx_call_chunk(p->call, channel, bytes, n);
    if (!p->s->flow) {
        if (!more)
            hold_reading(p);
        return;
    }
    p->taken += n;
    if (more && last && p->taken >= GRANT_FROM)
        epp_grant(p);
}

static void on_chunk(pending *p, const abx_epp_event *e, const char *method, yyjson_val *params)
{
    abx_epp_session *s = p->s;
    yyjson_val *text = yyjson_obj_get(params, "text"), *raw = yyjson_obj_get(params, "raw");
    bool base64 = yyjson_obj_get(params, "base64") != NULL;
    if (raw && !text && !base64 && yyjson_is_uint(raw)) {
        if (admit(p, (size_t)yyjson_get_uint(raw))) {
            s->raw_id = p->id;
            p->raw_to = e->channel;
            if (yyjson_get_uint(raw) >= LARGE)
                epp_widen(s);
        }
        return;
    }
    if (text && yyjson_is_str(text) && !base64 && !raw) { /* the usual one: no copy */
        if (admit(p, yyjson_get_len(text)))
            deliver(p, e->channel, yyjson_get_str(text), yyjson_get_len(text), true);
        return;
    }
    ABX_AUTO_BUF bytes = ABX_BUF(ABX_EPP_LINE_MAX);
    abx_error *why = NULL;
    int rc = raw ? 0 : abx_bytes_json_get(params, ABX_ERR_PROVIDER_PROTOCOL, &bytes, &why);
    if (rc > 0 && admit(p, bytes.len))
        deliver(p, e->channel, bytes.data, bytes.len, true);
    if (rc <= 0)
        epp_give_up(p, epp_error(s, ABX_ERR_PROVIDER_PROTOCOL, "%s: %s", method,
                                 why ? why->message : "no bytes: 'text', 'base64' or 'raw'"));
    abx_error_free(why);
}

int epp_on_raw(const uint8_t *bytes, size_t n, size_t left, void *data, abx_error **err)
{
    (void)err;
    abx_epp_session *s = data;
    pending *p = s->raw_id ? epp_find(s, s->raw_id) : NULL;
    if (p && p->call && !p->cancelled && s->state != STATE_GONE)
        deliver(p, p->raw_to, bytes, n, left == 0);
    return 0;
}

/* --- events --------------------------------------------------------------------------------------------- */

/* Keep what the result need not repeat. */
static void remember(pending *p, yyjson_mut_doc *members)
{
    if (!p->seen)
        p->seen = abx_mut_new(NULL);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(p->seen);
    size_t i, n;
    yyjson_mut_val *key, *value;
    yyjson_mut_obj_foreach(yyjson_mut_doc_get_root(members), i, n, key, value)
    {
        yyjson_mut_val *name = yyjson_mut_strcpy(p->seen, yyjson_mut_get_str(key));
        yyjson_mut_obj_put(root, name, yyjson_mut_val_mut_copy(p->seen, value));
    }
}

static int check_event(const pending *p, const char *type, yyjson_val *params, abx_error **err)
{
    bool is_exit = strcmp(type, "exit") == 0;
    if (!is_exit && strcmp(type, "started") != 0)
        return 0;
    if (is_exit && !abx_json_get(params, "exitCode") && !abx_json_get(params, "signal"))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "neither 'exitCode' nor 'signal'");
    return abx_op_check_results(p->row, params, false, err);
}

static void on_event(pending *p, const abx_epp_event *e, const char *method, yyjson_val *params)
{
    abx_error *why = NULL;
    if (check_event(p, e->type, params, &why) < 0) {
        epp_give_up(p, epp_error(p->s, why->id, "%s: %s", method, why->message));
        abx_error_free(why);
        return;
    }
    yyjson_mut_doc *members = abx_epp_event_members(p->row, e->type, params);
    if (strcmp(e->type, "started") == 0 || strcmp(e->type, "exit") == 0)
        remember(p, members);
    if (!abx_call_event(p->call, e->type, members))
        hold_reading(p);
}

static int on_unknown(abx_epp_session *s, const char *method, abx_error **err)
{
    if (s->strict)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "an unknown notification: '%.60s'", method);
    if (s->unknown++ < UNKNOWN_MAX)
        epp_logf(s, ABX_LOG_WARN, "an unknown notification: %.60s", method);
    return 0;
}

static void on_log(abx_epp_session *s, yyjson_val *params)
{
    abx_log_level level = ABX_LOG_INFO;
    (void)abx_log_parse(abx_json_str(params, "level", "info"), &level);
    const char *message = abx_json_str(params, "message", "");
    size_t n = strlen(message);
    if (n > LOG_LINE_MAX) {
        ABX_AUTO_FREE char *blank = abx_secrets_blank(&s->secrets, message, n);
        ABX_AUTO_FREE char *begin =
            abx_strndup(blank, strlen(blank) < LOG_LINE_MAX ? strlen(blank) : LOG_LINE_MAX);
        ABX_AUTO_FREE char *shown = abx_printable(begin);
        epp_logf(s, level, "%s…", shown);
        return;
    }
    ABX_AUTO_FREE char *blank = abx_secrets_blank(&s->secrets, message, n);
    ABX_AUTO_FREE char *shown = abx_printable(blank);
    epp_logf(s, level, "%s", shown);
}

/* Its program will end soon: what runs is answered, what comes next gets another one. */
static void on_retire(abx_epp_session *s, yyjson_val *params)
{
    abx_error *why = epp_error(s, ABX_ERR_PROVIDER_CRASHED, "its program ends itself: %s",
                               abx_json_str(params, "reason", "it does not say why"));
    epp_retire(s, why);
    abx_error_free(why);
}

int epp_on_notification(abx_epp_session *s, const char *method, yyjson_val *params, abx_error **err)
{
    if (strcmp(method, "log") == 0) {
        on_log(s, params);
        return 0;
    }
    if (strcmp(method, "retire") == 0) {
        on_retire(s, params);
        return 0;
    }
    yyjson_val *stream = yyjson_obj_get(params, "stream");
    if (!stream)
        return on_unknown(s, method, err);
    if (!yyjson_is_uint(stream))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'stream' of '%.60s' is no whole number",
                        method);
    uint64_t id = yyjson_get_uint(stream);
    pending *p = epp_find(s, id);
    if (s->state == STATE_ENDING)
        return 0;
    if (!p || p->kind != PENDING_CALL)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "'%.60s' for stream %" PRIu64 ", which %s",
                        method, id,
                        id > 0 && id < s->next_id ? "has ended or is none" : "never was");
    abx_epp_event e;
    abx_error *why = NULL;
    int rc = abx_epp_event_read(p->row, method, params, &e, &why);
    if (rc == 0)
        return on_unknown(s, method, err);
    if (!p->heard) {
        p->heard = true;
        if (!p->cancelled && p->row->style != ABX_STYLE_UNARY)
            p->due_ms = p->limit_ms;
        if (p->due_ms != ABX_FOREVER)
            epp_arm(s, p->due_ms);
    }
    if (!p->call || p->cancelled) {
        abx_error_free(why); /* nobody wants it any more */
    } else if (rc < 0) {
        epp_give_up(p, epp_error(s, why->id, "%s", why->message));
        abx_error_free(why);
    } else if (e.is_chunk) {
        on_chunk(p, &e, method, params);
    } else {
        on_event(p, &e, method, params);
    }
    return 0;
}
