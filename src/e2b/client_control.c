/* Control requests of our own envd: no call stands behind them. */
#include "e2b/client_inner.h"

#include "base/mem.h"

typedef struct control {
    abx_envd_client *client;
    void (*cb)(void *data, yyjson_val *answer, const abx_error *err);
    void *data;
} control;

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    control *k = x->data;
    ABX_AUTO_ERROR why = err ? abx_error_copy(err) : NULL;
    ABX_AUTO_JSON doc = NULL;
    if (!why && !x->good)
        why = abx__envd_answer_error(k->client, ABX__ENVD_CONTROL, x);
    if (!why)
        doc = abx_json_parse(x->body.len > 0 ? (const char *)x->body.data : "", x->body.len,
                             ABX_ERR_BACKEND_ANSWER, "the answer", &why);
    if (doc && !yyjson_is_obj(yyjson_doc_get_root(doc)))
        why = abx__envd_bad_answer(k->client, "the answer is not an object");
    k->cb(k->data, why ? NULL : yyjson_doc_get_root(doc), why);
    free(k);
}

int abx_envd_client_control(abx_envd_client *c, const char *path, yyjson_val *body,
                            void (*cb)(void *data, yyjson_val *answer, const abx_error *err),
                            void *data, abx_error **err)
{
    static const abx__envd_hooks hooks = {.end = on_end};
    if (c->closing)
        return abx_fail(err, ABX_ERR_CANCELLED, "the client was closed");
    ABX_AUTO_BUF text = ABX_BUF(ABX__ENVD_MAX_MESSAGE);
    if (abx_json_write(body, &text) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the request is too large");
    control *k = ABX_NEW(control);
    *k = (control){c, cb, data};
    abx__envd_request r = {.method = "POST",
                           .path = path,
                           .content_type = "application/json",
                           .answer_type = "application/json",
                           .body = text.data,
                           .body_len = text.len,
                           .timeout_ms = ABX__ENVD_UNARY_MS};
    if (abx__envd_exchange_start(c, &r, &hooks, k, err))
        return 0;
    free(k);
    return -1;
}
