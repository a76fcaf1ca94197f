/* A request's body into a call: PUT files, POST stdin. */
#include "doors/engine/stream.h"

#include <string.h>

#include "base/mem.h"

typedef struct upload {
    engine_request *request; /* its x is NULL when the client is gone */
    abx_call *call;          /* NULL: over */
} upload;

static void upload_free(upload *u)
{
    engine_request_end(u->request);
    free(u);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    const upload *u = data;
    if (u->request->x)
        abx_exchange_resume(u->request->x);
}

static void answer(upload *u, yyjson_val *result, const abx_error *err)
{
    if (err) {
        engine_fail(u->request, err);
        return;
    }
    u->request->status = 200;
    engine_answer(u->request->x, 200, result);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    upload *u = data;
    u->call = NULL;
    if (!u->request->x)
        upload_free(u);
    else
        answer(u, result, err);
}

/* --- the client ------------------------------------------------------------------------------------------------- */
static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    const upload *u = data;
    if (u->call && !abx_call_write(u->call, bytes, n))
        abx_exchange_pause(x);
}

static void on_body_end(abx_exchange *x, void *data)
{
    (void)x;
    const upload *u = data;
    if (u->call)
        abx_call_write_end(u->call);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    upload *u = data;
    u->request->x = NULL;
    if (u->call)
        abx_call_cancel(u->call);
    else
        upload_free(u);
}

void engine_upload(engine_request *r)
{
    static const abx_call_handlers on = {.on_writable = on_writable, .on_end = on_end};
    static const abx_exchange_handlers client = {
        .on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
    upload *u = ABX_NEW(upload);
    u->request = r;
    abx_exchange_handle(r->x, &client, u);
    abx_exchange_limit_body(r->x, UINT64_MAX);
    int64_t length = abx_exchange_content_length(r->x);
    if (r->row->id == ABX_OP_FS_WRITE && length >= 0 && !yyjson_mut_obj_get(r->root, "size"))
        abx_mut_int(r->params, r->root, "size", length);
    u->call = engine_request_start(r, &on, u);
    abx_exchange_resume(r->x);
}
