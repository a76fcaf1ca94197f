/* What a streaming request needs besides its own call. */
#include "base/mem.h"
#include "doors/engine/stream.h"

abx_call *engine_request_call(engine_request *r, abx_op_id op, yyjson_mut_doc *params,
                              const abx_call_handlers *on, void *data, abx_error **err)
{
    ABX_AUTO_MUT d = params;
    abx_call *call = abx_call_new(r->engine->loop, op, abx_json_freeze(d), on, data);
    if (abx_host_start_at(r->session->host, r->session->provider, call, err) == 0)
        return call;
    abx_call_discard(call);
    return NULL;
}

char *engine_request_error(engine_request *r, const abx_error *err)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX);
    ABX_CHECK(abx_json_write_mut(engine_error_body(d, r->session, err), &text) == 0);
    return abx_buf_take(&text);
}
