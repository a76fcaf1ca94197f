/* Does a sandbox still live? One question for all who want to know at the same time. Who comes while it is under way may have seen
 * what is newer than its answer: those wait for the next one. */
#include "base/mem.h"
#include "doors/e2b/control.h"

struct e2b_waiter {
    e2b_waiter *next;
    e2b_look_cb cb;
    void *data;
};

bool e2b_wait(e2b_waiter **list, e2b_look_cb cb, void *data)
{
    bool first = *list == NULL;
    e2b_waiter *w = ABX_NEW(e2b_waiter);
    *w = (e2b_waiter){NULL, cb, data};
    while (*list)
        list = &(*list)->next;
    *list = w;
    return first;
}

void e2b_wait_over(e2b_waiter **list, e2b_box *box, const abx_error *err)
{
    const abx_error *unsaid = err && err->id != ABX_ERR_SANDBOX_NOT_FOUND ? err : NULL;
    for (e2b_waiter *w = ABX_TAKE(*list), *next; w; w = next) {
        next = w->next;
        if (w->cb)
            w->cb(w->data, box, unsaid);
        free(w);
    }
}

static void ask(e2b_box *box);

static void on_info(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_box *box = data;
    e2b_box_looked_at(box, true);
    if (result)
        e2b_box_see(box, result);
    else if (err->id == ABX_ERR_SANDBOX_NOT_FOUND)
        e2b_box_forget(box);
    e2b_wait_over(&box->lookers, box, err);
    e2b_box_looked_at(box, false);
    box->lookers = ABX_TAKE(box->next_lookers);
    if (box->lookers && box->state != E2B_GONE)
        ask(box);
    else
        e2b_wait_over(&box->lookers, box, NULL);
    e2b_box_unref(box);
}

static void ask(e2b_box *box)
{
    e2b_box_ref(box);
    yyjson_mut_val *root;
    e2b_ask(box->door, ABX_OP_SANDBOX_INFO, e2b_box_params(box, &root), on_info, box);
}

void e2b_box_look(e2b_box *box, e2b_look_cb cb, void *data)
{
    if (box->lookers)
        (void)e2b_wait(&box->next_lookers, cb, data);
    else if (e2b_wait(&box->lookers, cb, data))
        ask(box);
}

void e2b_box_suspect(e2b_box *box)
{
    if (box->state != E2B_GONE && !box->next_lookers)
        e2b_box_look(box, NULL, NULL);
}
