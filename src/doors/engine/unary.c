/* Rows that answer once: the call's result is the body. */
#include "base/mem.h"
#include "doors/engine/engine.h"

typedef struct unary {
    engine_request *request;
    abx_call *call; /* NULL: it has ended */
} unary;

static void let_go(unary *u)
{
    if (u->request->x || u->call)
        return;
    engine_request_end(u->request);
    free(u);
}

/* What makes something answers 201. */
static int status_of(const abx_op_row *row)
{
    switch (row->id) {
    case ABX_OP_SANDBOX_CREATE:
    case ABX_OP_SANDBOX_FORK:
    case ABX_OP_SANDBOX_SNAPSHOT_CREATE:
    case ABX_OP_SANDBOX_TEMPLATE_ADD:
    case ABX_OP_CODE_CONTEXT_CREATE: return 201;
    default: return 200;
    }
}

/* What its connection may reach from now on, and what no more. */
static void remember(engine_request *r, abx_call *c, yyjson_val *result)
{
    const char *given = abx_json_str(abx_call_params(c), "sandboxId", NULL);
    const char *made = abx_json_str(result, "id", NULL);
    switch (r->row->id) {
    case ABX_OP_SANDBOX_CREATE:
    case ABX_OP_SANDBOX_FORK: engine_reach_made(r->session, made); break;
    case ABX_OP_SANDBOX_CONNECT: engine_reach_made(r->session, given); break;
    case ABX_OP_SANDBOX_KILL: engine_reach_gone(r->session, given); break;
    default: break;
    }
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    unary *u = data;
    engine_request *r = u->request;
    u->call = NULL;
    if (!err)
        remember(r, c, result);
    if (r->x && err) {
        engine_fail(r, err);
    } else if (r->x) {
        r->status = status_of(r->row);
        engine_answer(r->x, r->status, result);
    }
    let_go(u);
}

/* The client is gone: nobody waits for the answer. An end that was asked for comes all the same. */
static void give_up(unary *u)
{
    if (u->call && u->request->row->id != ABX_OP_SANDBOX_KILL)
        abx_call_cancel(u->call);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    unary *u = data;
    (void)x;
    (void)complete;
    u->request->x = NULL;
    give_up(u);
    let_go(u);
}

static void on_peer_eof(abx_exchange *x, void *data)
{
    (void)x;
    give_up(data);
}

void engine_unary(engine_request *r)
{
    static const abx_exchange_handlers of_exchange = {.on_close = on_close,
                                                      .on_peer_eof = on_peer_eof};
    static const abx_call_handlers of_call = {.on_end = on_end};
    unary *u = ABX_NEW(unary);
    u->request = r;
    abx_exchange_handle(r->x, &of_exchange, u);
    u->call = engine_request_start(r, &of_call, u);
}
