/* Health, info and kill. */
#include "doors/e2b/control.h"
#include "doors/e2b/data.h"

void e2b_do_health(e2b_request *r)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "status", "ok");
    e2b_reply(r, 200, root);
}

static void tell(e2b_request *r)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    e2b_reply(r, 200, e2b_view_detail(d, r->box));
}

static void on_sampled(void *data, const abx_error *err)
{
    (void)err;
    tell(data);
    e2b_request_unref(data);
}

/* Its sizes may be known by a sample only. */
static void info(e2b_request *r)
{
    e2b_request_ref(r);
    if (e2b_samples_first(r->box, on_sampled, r))
        return;
    tell(r);
    e2b_request_unref(r);
}

void e2b_do_info(e2b_request *r)
{
    e2b_with_box(r, true, info);
}

static void on_killed(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    (void)result;
    r->box->ending = false;
    if (!err || err->id == ABX_ERR_SANDBOX_NOT_FOUND)
        e2b_box_forget(r->box);
    if (err)
        e2b_reply_error(r, err);
    else
        e2b_reply(r, 204, NULL);
}

/* Its streams are broken off first: an end of a process that the kill causes is not to be taken for its own. */
static void break_and_kill(e2b_request *r)
{
    if (r->box->data)
        e2b_data_break(r->box);
    yyjson_mut_val *root;
    e2b_request_ask(r, ABX_OP_SANDBOX_KILL, e2b_box_params(r->box, &root), on_killed);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)box;
    (void)err;
    break_and_kill(data);
    e2b_request_unref(data);
}

static void kill_box(e2b_request *r)
{
    r->box->ending = true;
    if (!r->box->lookers) {
        break_and_kill(r);
        return;
    }
    e2b_request_ref(r); /* who asks just now whether it lives gets an answer, no reset */
    e2b_box_look(r->box, on_looked, r);
}

void e2b_do_kill(e2b_request *r)
{
    e2b_with_box(r, false, kill_box);
}
