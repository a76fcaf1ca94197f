#include "doors/e2b/data_inner.h"

#include <errno.h>
#include <string.h>

/* --- calls of the host --------------------------------------------------------------------------------------- */
typedef struct run {
    abx_link node;
    e2b_data *data;
    abx_call *call;
    e2b_run_cb cb;
    void *arg;
} run;

static void run_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    run *r = data;
    e2b_data *d = r->data;
    abx_link_remove(&r->node);
    r->cb(r->arg, result, err);
    free(r);
    e2b_plane_release(d);
}

int e2b_launch(e2b_data *d, abx_op_id op, yyjson_mut_doc *params, const abx_call_handlers *on,
               void *data, abx_call **out, abx_error **err)
{
    yyjson_doc *frozen = abx_json_freeze(params);
    yyjson_mut_doc_free(params);
    abx_call *call = abx_call_new(d->door->loop, op, frozen, on, data);
    *out = call;
    if (e2b_start(d->door, call, err) == 0)
        return 0;
    *out = NULL;
    abx_call_discard(call);
    return -1;
}

void e2b_run(e2b_data *d, abx_op_id op, yyjson_mut_doc *params, e2b_run_cb cb, void *arg)
{
    static const abx_call_handlers on = {.on_end = run_end};
    run *r = ABX_NEW(run);
    r->data = d;
    r->cb = cb;
    r->arg = arg;
    ABX_AUTO_ERROR err = NULL;
    if (e2b_launch(d, op, params, &on, r, &r->call, &err) < 0) {
        free(r);
        cb(arg, NULL, err);
        return;
    }
    abx_link_append(&d->runs, &r->node);
    e2b_plane_hold(d);
}

void e2b_runs_cancel(e2b_data *d)
{
    for (abx_link *n = d->runs.next; n != &d->runs; n = n->next)
        abx_call_cancel(ABX_OF(n, run, node)->call);
}

yyjson_mut_doc *e2b_params(const e2b_data *d, const abx_e2b_call *c, yyjson_mut_val **root)
{
    yyjson_mut_doc *params = e2b_box_params(d->box, root);
    if (c)
        abx_mut_str(params, *root, "user", abx_e2b_call_user(c));
    return params;
}

/* --- their errors --------------------------------------------------------------------------------------------- */
bool e2b_is_gone(const abx_error *err)
{
    return err && (err->id == ABX_ERR_SANDBOX_NOT_FOUND || err->id == ABX_ERR_SANDBOX_ENDED ||
                   err->id == ABX_ERR_NETWORK ||
                   (err->id == ABX_ERR_CONFLICT && err->sys_errno == 0)); /* it may be paused */
}

static abx_e2b_code code_of_file(const abx_error *err)
{
    if (err->sys_errno == ELOOP)
        return ABX_E2B_CODE_FAILED_PRECONDITION;
    return err->sys_errno == EINVAL ? ABX_E2B_CODE_INVALID_ARGUMENT : ABX_E2B_CODE_INTERNAL;
}

abx_e2b_code e2b_code_of(e2b_about about, const abx_error *err)
{
    switch (err->id) {
    case ABX_ERR_FILE_NOT_FOUND:
    case ABX_ERR_PROCESS_NOT_FOUND:
    case ABX_ERR_CONTEXT_NOT_FOUND: return ABX_E2B_CODE_NOT_FOUND;
    case ABX_ERR_USAGE:
    case ABX_ERR_START_FAILED: return ABX_E2B_CODE_INVALID_ARGUMENT;
    case ABX_ERR_FILE: return code_of_file(err);
    case ABX_ERR_CONFLICT:
        return about == E2B_ABOUT_INPUT   ? ABX_E2B_CODE_INTERNAL
               : err->sys_errno == EEXIST ? ABX_E2B_CODE_ALREADY_EXISTS
                                          : ABX_E2B_CODE_FAILED_PRECONDITION;
    case ABX_ERR_RATE_LIMIT:
    case ABX_ERR_QUOTA:
    case ABX_ERR_NO_SPACE:
    case ABX_ERR_TOO_LARGE: return ABX_E2B_CODE_RESOURCE_EXHAUSTED;
    case ABX_ERR_TIMEOUT: return ABX_E2B_CODE_DEADLINE_EXCEEDED;
    case ABX_ERR_CANCELLED: return ABX_E2B_CODE_CANCELED;
    case ABX_ERR_FORBIDDEN: return ABX_E2B_CODE_PERMISSION_DENIED;
    case ABX_ERR_FEATURE_MISSING: return ABX_E2B_CODE_UNIMPLEMENTED;
    case ABX_ERR_SANDBOX_NOT_FOUND:
    case ABX_ERR_SANDBOX_ENDED:
    case ABX_ERR_NETWORK: return ABX_E2B_CODE_UNAVAILABLE;
    default: return ABX_E2B_CODE_INTERNAL;
    }
}

/* Failures that E2B has too, in its words. */
static bool is_known_there(const abx_error *err)
{
    switch (err->id) {
    case ABX_ERR_FILE_NOT_FOUND:
    case ABX_ERR_PROCESS_NOT_FOUND:
    case ABX_ERR_CONTEXT_NOT_FOUND:
    case ABX_ERR_USAGE:
    case ABX_ERR_START_FAILED:
    case ABX_ERR_FILE:
    case ABX_ERR_NO_SPACE:
    case ABX_ERR_CONFLICT: return true;
    default: return false;
    }
}

char *e2b_text_of(const abx_error *err)
{
    if (err->id == ABX_ERR_SANDBOX_NOT_FOUND || err->id == ABX_ERR_SANDBOX_ENDED)
        return abx_strdup("The sandbox was not found");
    return is_known_there(err) ? abx_strdup(err->message)
                               : abx_format("%s: %s", abx_error_code(err), err->message);
}

int e2b_file_status(const abx_error *err)
{
    switch (err->id) {
    case ABX_ERR_FILE_NOT_FOUND: return 404;
    case ABX_ERR_USAGE: return abx_str_eq(err->about, "user") ? 401 : 400;
    case ABX_ERR_FILE: return err->sys_errno == EISDIR ? 400 : 500;
    case ABX_ERR_NO_SPACE: return 507;
    case ABX_ERR_RATE_LIMIT:
    case ABX_ERR_QUOTA: return 429;
    case ABX_ERR_SANDBOX_NOT_FOUND:
    case ABX_ERR_SANDBOX_ENDED: return 502;
    case ABX_ERR_NETWORK: return 503;
    default:
        return abx_err_row_of(err->id)->http_status == 502 ? 500
                                                           : abx_err_row_of(err->id)->http_status;
    }
}

/* A call that ends badly once it is known whether the sandbox is there. */
typedef struct farewell {
    e2b_data *data;
    abx_e2b_call *call; /* NULL: its client is gone */
    bool plain;
    e2b_about about;
    abx_error *err;
} farewell;

static void say(abx_e2b_call *c, bool plain, e2b_about about, const abx_error *err)
{
    ABX_AUTO_FREE char *text = e2b_text_of(err);
    if (plain)
        abx_e2b_refuse(c, e2b_file_status(err), "%s", text);
    else
        abx_e2b_fail(c, e2b_code_of(about, err), "%s", text);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    farewell *f = data;
    e2b_data *d = f->data;
    if (f->call && box->state != E2B_RUNNING) {
        abx_e2b_call_handle(f->call, NULL, NULL);
        abx_e2b_break(f->call);
    } else if (f->call) {
        abx_e2b_call_handle(f->call, NULL, NULL);
        say(f->call, f->plain, f->about, f->err);
    }
    abx_error_free(f->err);
    free(f);
    e2b_plane_release(d);
}

static void farewell_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    ((farewell *)data)->call = NULL;
}

static void end_badly(e2b_data *d, abx_e2b_call *c, bool plain, e2b_about about,
                      const abx_error *err)
{
    static const abx_e2b_call_handlers on = {.on_close = farewell_gone};
    if (!e2b_is_gone(err)) {
        say(c, plain, about, err);
        return;
    }
    if (d->closing) {
        abx_e2b_break(c);
        return;
    }
    farewell *f = ABX_NEW(farewell);
    *f = (farewell){d, c, plain, about, abx_error_copy(err)};
    abx_e2b_call_handle(c, &on, f);
    e2b_plane_hold(d);
    e2b_box_look(d->box, on_looked, f);
}

void e2b_fail(e2b_data *d, abx_e2b_call *c, e2b_about about, const abx_error *err)
{
    end_badly(d, c, false, about, err);
}

void e2b_refuse_call(e2b_data *d, abx_e2b_call *c, const abx_error *err)
{
    end_badly(d, c, true, E2B_ABOUT_FILE, err);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */
static void task_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    e2b_task *t = data;
    t->call = NULL;
    t->request = NULL;
}

e2b_task *e2b_task_new(e2b_data *d, abx_e2b_call *c, yyjson_val *request)
{
    static const abx_e2b_call_handlers on = {.on_close = task_gone};
    e2b_task *t = ABX_NEW(e2b_task);
    t->data = d;
    t->call = c;
    t->request = request;
    abx_e2b_call_handle(c, &on, t);
    e2b_plane_hold(d);
    return t;
}

void e2b_task_free(e2b_task *t)
{
    e2b_data *d = t->data;
    if (t->call)
        abx_e2b_call_handle(t->call, NULL, NULL);
    free(t->path);
    free(t->other);
    free(t->more);
    free(t);
    e2b_plane_release(d);
}

void e2b_task_answer(e2b_task *t, yyjson_mut_val *tree)
{
    if (t->call)
        abx_e2b_answer(ABX_TAKE(t->call), tree);
    e2b_task_free(t);
}

void e2b_task_fail(e2b_task *t, e2b_about about, const abx_error *err)
{
    if (t->call) {
        abx_e2b_call_handle(t->call, NULL, NULL);
        e2b_fail(t->data, ABX_TAKE(t->call), about, err);
    }
    e2b_task_free(t);
}

void e2b_task_say(e2b_task *t, abx_e2b_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    if (t->call)
        abx_e2b_fail(ABX_TAKE(t->call), code, "%s", text);
    e2b_task_free(t);
}
