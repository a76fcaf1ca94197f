/* What changes the life of a sandbox: timeout, refreshes, pause, connect and resume. */
#include "base/clock.h"
#include "base/mem.h"
#include "doors/e2b/control.h"

#define TIMEOUT_V2    300
#define REFRESH_LEAST 15
#define REFRESH_MOST  3600

/* --- timeout ------------------------------------------------------------------------------------------------------- */
static void take_end(e2b_request *r, yyjson_val *result)
{
    int64_t ends;
    const char *text = abx_json_str(result, "expiresAt", NULL);
    r->box->ends_ms = text && abx_parse_rfc3339(text, &ends) == 0 ? ends : INT64_MAX;
    e2b_expiry_arm(r->door);
}

static void on_set(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    take_end(r, result);
    e2b_reply(r, 204, NULL);
}

static void set_timeout(e2b_request *r, int64_t seconds)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = e2b_box_params(r->box, &root);
    /* 0 would be no limit there; here it is the end at once */
    abx_mut_int(params, root, "timeoutMs", seconds > 0 ? seconds * 1000 : 1);
    e2b_request_ask(r, ABX_OP_SANDBOX_SET_TIMEOUT, params, on_set);
}

static void change_timeout(e2b_request *r)
{
    int64_t seconds;
    int has = e2b_body_int(r, "timeout", INT32_MIN, INT32_MAX, &seconds);
    if (has < 0)
        return;
    if (has == 0)
        e2b_reply_refuse(r, 400, "validation error: 'timeout' is missing");
    else if (r->box->state == E2B_PAUSED)
        e2b_reply_no_box(r);
    else
        set_timeout(r, seconds);
}

void e2b_do_timeout(e2b_request *r)
{
    e2b_with_box(r, true, change_timeout);
}

static void refresh(e2b_request *r)
{
    int64_t seconds = REFRESH_LEAST;
    if (e2b_body_int(r, "duration", INT32_MIN, REFRESH_MOST, &seconds) < 0)
        return;
    seconds = seconds < REFRESH_LEAST ? REFRESH_LEAST : seconds;
    if (r->box->state == E2B_PAUSED)
        e2b_reply_no_box(r);
    else if (abx_now_wall_ms() + seconds * 1000 > r->box->ends_ms)
        set_timeout(r, seconds);
    else
        e2b_reply(r, 204, NULL);
}

void e2b_do_refresh(e2b_request *r)
{
    e2b_with_box(r, true, refresh);
}

/* --- pause ----------------------------------------------------------------------------------------------------------- */
static void on_pause_seen(void *data, e2b_box *box, const abx_error *err)
{
    e2b_request *r = data;
    (void)box;
    (void)err;
    e2b_reply(r, 204, NULL);
    e2b_request_unref(r);
}

static void on_paused(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    if (!abx_json_bool(result, "paused", true)) {
        e2b_reply_refuse(r, 409, "Sandbox is already paused");
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *notes = e2b_notes_copy(r->box, &root);
    yyjson_mut_obj_remove_key(root, "cold");
    abx_mut_bool(notes, root, "cold", !abx_json_bool(r->body, "memory", true));
    (void)e2b_box_note(r->box, notes, NULL);
    e2b_box_paused(r->box);
    r->box->ends_ms = abx_now_wall_ms();
    e2b_request_ref(r);
    e2b_box_look(r->box, on_pause_seen, r);
}

static void pause_box(e2b_request *r)
{
    bool memory;
    yyjson_mut_val *root;
    if (e2b_body_bool(r, "memory", &memory) < 0)
        return;
    if (r->box->state == E2B_PAUSED)
        e2b_reply_refuse(r, 409, "Sandbox is already paused");
    else if (r->box->ending)
        e2b_reply_refuse(r, 409, "Sandbox is being killed");
    else
        e2b_request_ask(r, ABX_OP_SANDBOX_PAUSE, e2b_box_params(r->box, &root), on_paused);
}

void e2b_do_pause(e2b_request *r)
{
    e2b_with_box(r, true, pause_box);
}

/* --- connect and resume ------------------------------------------------------------------------------------------------ */
static void on_resumed(void *data, e2b_box *box, const abx_error *err)
{
    e2b_request *r = data;
    if (err)
        e2b_reply_error(r, err);
    else if (box->state == E2B_GONE)
        e2b_reply_no_box(r);
    else
        e2b_reply_sandbox(r, 201, box);
    e2b_request_unref(r);
}

static void go_on(e2b_request *r, int64_t seconds)
{
    e2b_request_ref(r);
    e2b_resume(r->box, seconds, !abx_json_bool(r->body, "memory", true), on_resumed, r);
}

static void on_set_instead(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    take_end(r, result);
    e2b_reply_sandbox(r, 200, r->box);
}

static void on_extended(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    if (err && err->id == ABX_ERR_FEATURE_MISSING) { /* its life may be set all the same */
        yyjson_mut_val *root;
        yyjson_mut_doc *params = e2b_box_params(r->box, &root);
        abx_mut_int(params, root, "timeoutMs", abx_json_int(r->body, "timeout", TIMEOUT_V2) * 1000);
        e2b_request_ask(r, ABX_OP_SANDBOX_SET_TIMEOUT, params, on_set_instead);
        return;
    }
    if (err) {
        e2b_reply_error(r, err);
        return;
    }
    e2b_box_see(r->box, result);
    e2b_reply_sandbox(r, 200, r->box);
}

static bool read_timeout(e2b_request *r, int64_t otherwise, int64_t *seconds)
{
    bool memory;
    *seconds = otherwise;
    int has = e2b_body_int(r, "timeout", 0, INT32_MAX, seconds);
    if (has < 0 || e2b_body_bool(r, "memory", &memory) < 0)
        return false;
    if (*seconds >= 0)
        return true;
    e2b_reply_refuse(r, 400, "validation error: 'timeout' is missing");
    return false;
}

static void connect_box(e2b_request *r)
{
    int64_t seconds;
    if (!read_timeout(r, r->v2 ? TIMEOUT_V2 : -1, &seconds))
        return;
    if (r->box->ending) {
        e2b_reply_refuse(r, 409, "Sandbox is being killed");
    } else if (r->box->state == E2B_PAUSED) {
        go_on(r, seconds > 0 ? seconds : 1);
    } else if (abx_now_wall_ms() + seconds * 1000 <= r->box->ends_ms) {
        e2b_reply_sandbox(r, 200, r->box); /* it lives longer as it is */
    } else {
        yyjson_mut_val *root;
        yyjson_mut_doc *params = e2b_box_params(r->box, &root);
        abx_mut_int(params, root, "timeoutMs", seconds * 1000);
        e2b_request_ask(r, ABX_OP_SANDBOX_CONNECT, params, on_extended);
    }
}

void e2b_do_connect(e2b_request *r)
{
    e2b_with_box(r, true, connect_box);
}

static void resume_box(e2b_request *r)
{
    int64_t seconds;
    if (!read_timeout(r, REFRESH_LEAST, &seconds))
        return;
    if (r->box->state == E2B_PAUSED)
        go_on(r, seconds > 0 ? seconds : 1);
    else
        e2b_reply_refuse(r, 409, "Sandbox is already running");
}

void e2b_do_resume(e2b_request *r)
{
    e2b_with_box(r, true, resume_box);
}
