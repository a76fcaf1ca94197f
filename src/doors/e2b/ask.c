#include "base/mem.h"
#include "doors/e2b/life.h"

#define ASK_MS 600000 /* for one answer of the provider: a snapshot may take long */

typedef struct e2b_question {
    struct e2b_question *next, **at;
    e2b_door *door;
    abx_call *call;
    e2b_answer_cb cb;
    void *data;
} e2b_question;

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    e2b_question *q = data;
    q->cb(q->data, result, err);
    *q->at = q->next;
    if (q->next)
        q->next->at = q->at;
    e2b_door *door = q->door;
    free(q);
    e2b_life_part_gone(door);
}

void e2b_asks_cancel(e2b_door *door)
{
    for (e2b_question *q = door->questions; q; q = q->next)
        abx_call_cancel(q->call);
}

int e2b_start(e2b_door *door, abx_call *call, abx_error **err)
{
    return abx_host_start_at(door->host, door->provider, call, err);
}

void e2b_ask(e2b_door *door, abx_op_id op, yyjson_mut_doc *params, e2b_answer_cb cb, void *data)
{
    /* What is refused at once is answered as what fails later. */
    static const abx_call_backend refused = {0};
    static const abx_call_handlers handlers = {.on_end = on_end};
    e2b_question *q = ABX_NEW(e2b_question);
    abx_call *call = abx_call_new(door->loop, op, abx_json_freeze(params), &handlers, q);
    yyjson_mut_doc_free(params);
    *q = (e2b_question){door->questions, &door->questions, door, call, cb, data};
    if (q->next)
        q->next->at = &q->next;
    door->questions = q;
    abx_call_set_deadline(call, ASK_MS);
    abx_error *why = NULL;
    if (e2b_start(door, call, &why) < 0) {
        abx_call_accept(call, &refused, NULL);
        abx_call_fail(call, why);
    }
}

yyjson_mut_doc *e2b_box_params(const e2b_box *box, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "sandboxId", box->host_id);
    return d;
}
