#include "adapters/builtin/local.h"

static void on_cancel(abx_call *c, void *state)
{
    local_wait *w = state;
    (void)c;
    if (w->cancel && !w->_finished)
        w->cancel(w);
}

static void on_release(abx_call *c, void *state)
{
    local_wait *w = state;
    (void)c;
    w->call = NULL;
    w->_released = true;
    if (w->_finished)
        w->free(w);
}

void local_wait_accept(local_wait *w, abx_call *call)
{
    static const abx_call_backend backend = {.on_cancel = on_cancel, .on_release = on_release};
    w->call = call;
    abx_call_accept(call, &backend, w);
}

void local_wait_finish(local_wait *w)
{
    w->_finished = true;
    if (w->_released)
        w->free(w);
}

void local_wait_end(local_wait *w, yyjson_val *result, const abx_error *err)
{
    if (w->call && err)
        abx_call_fail(w->call, abx_error_copy(err));
    else if (w->call && result)
        local_end(w->call, abx_json_copy(result));
    else if (w->call)
        abx_call_end(w->call, NULL);
    local_wait_finish(w);
}

int local_answer(abx_call *call, yyjson_doc *result)
{
    static const abx_call_backend at_once = {0};
    if (!result)
        return -1;
    abx_call_accept(call, &at_once, NULL);
    local_end(call, result);
    return 0;
}
