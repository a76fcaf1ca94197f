/* From a request to the parameters of a call: those of the path are there, the others stand in the query (GET, DELETE, and wherever the body
 * is bytes) or in a JSON body; never in both, so that nothing is overlooked. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/engine.h"
#include "doors/engine/query.h"

/* Free it if neither an exchange nor a question needs it any more. */
static void let_go(engine_request *r)
{
    if (!r->x && !r->asking)
        engine_request_end(r);
}

void engine_request_end(engine_request *r)
{
    engine *e = r->engine;
    if (r->path)
        engine_tell(e, r->row->http, r->path, r->status, r->since_ms);
    free(r->path);
    abx_link_remove(&r->node);
    engine_body_end(r);
    if (r->session)
        engine_session_release(r->session);
    yyjson_mut_doc_free(r->params);
    free(r);
    e->requests--;
    engine_life_touch(e);
    engine_life_part_gone(e);
}

/* The exchange has ended while its parameters were gathered, or after a refusal. */
static void on_close(abx_exchange *x, bool complete, void *data)
{
    engine_request *r = data;
    (void)x;
    (void)complete;
    r->x = NULL;
    engine_body_end(r);
    let_go(r);
}

static const abx_exchange_handlers waiting = {.on_close = on_close};

static void refuse(engine_request *r, abx_error *why)
{
    engine_fail(r, why);
    abx_error_free(why);
}

/* --- complete ------------------------------------------------------------------------------------------------------------ */
static int check(engine_request *r, abx_error **err)
{
    ABX_AUTO_JSON params = abx_json_freeze(r->params);
    yyjson_val *root = yyjson_doc_get_root(params);
    if (abx_json_has_nul(root))
        return abx_fail(err, ABX_ERR_USAGE, "a parameter holds a NUL");
    return abx_op_check_params(r->row, root, err);
}

static void complete(engine_request *r)
{
    abx_error *why = NULL;
    if (check(r, &why) < 0)
        refuse(r, why);
    else
        engine_reach(r);
}

/* More than any operation has. Each is compared with those before it. */
#define BODY_MEMBERS_MAX 256

/* Lists and maps have limits of their own; this is of all together, before a value of 16 bytes is made of each. */
#define BODY_VALUES_MAX 524288

static bool has_too_many(const char *text, size_t n)
{
    size_t values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n && values <= BODY_VALUES_MAX; i++) {
        if (in_string) {
            i += abx_json_plain(text + i, n - i);
            if (i < n && text[i] == '\\')
                i++;
            else if (i < n && text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else {
            values += text[i] == ',' || text[i] == '[' || text[i] == '{';
        }
    }
    return values > BODY_VALUES_MAX;
}

/* --- the body ---------------------------------------------------------------------------------------------------------------- */
static int merge(engine_request *r, const uint8_t *bytes, size_t n, abx_error **err)
{
    size_t i, count;
    yyjson_val *key, *value;
    if (has_too_many((const char *)bytes, n))
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the body has more than %d values",
                        BODY_VALUES_MAX);
    ABX_AUTO_JSON doc = abx_json_parse(bytes, n, ABX_ERR_USAGE, "the body", err);
    abx_exchange_drop_body(r->x); /* its texts are the document's own now */
    if (!doc)
        return -1;
    if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
        return abx_fail(err, ABX_ERR_USAGE, "the body is no JSON object");
    if (yyjson_obj_size(yyjson_doc_get_root(doc)) > BODY_MEMBERS_MAX)
        return abx_fail(err, ABX_ERR_USAGE, "the body has more than %d members", BODY_MEMBERS_MAX);
    yyjson_obj_foreach(yyjson_doc_get_root(doc), i, count, key, value)
    {
        if (yyjson_mut_obj_getn(r->root, yyjson_get_str(key), yyjson_get_len(key))) {
            ABX_AUTO_FREE char *shown = abx_printable(yyjson_get_str(key));
            return abx_fail(err, ABX_ERR_USAGE,
                            "'%.80s' is there twice, or stands in the path already", shown);
        }
        if (!yyjson_is_null(value))
            yyjson_mut_obj_add(r->root, yyjson_val_mut_copy(r->params, key),
                               yyjson_val_mut_copy(r->params, value));
    }
    return 0;
}

static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    engine_request *r = data;
    abx_error *why = NULL;
    engine_body_came(r);
    int rc = n > 0 ? merge(r, bytes, n, &why) : 0;
    if (rc < 0)
        refuse(r, why);
    else
        complete(r);
}

static bool has_json_body(const abx_op_row *row)
{
    return row->style != ABX_STYLE_BODY_IN &&
           (strcmp(row->http, "POST") == 0 || strcmp(row->http, "PUT") == 0);
}

/* Where the rest of the parameters is. */
static void gather(engine_request *r)
{
    abx_error *why = NULL;
    const char *query = abx_exchange_query(r->x);
    if (has_json_body(r->row)) {
        if (*query) {
            abx_fail(&why, ABX_ERR_USAGE, "the request has parameters in its URL");
            abx_hint(&why, "those of %s stand in its body, a JSON object", r->row->method);
            refuse(r, why);
            return;
        }
        abx_exchange_collect(r->x, ENGINE_BODY_MAX, on_body, r);
        engine_body_begin(r);
        return;
    }
    if (engine_query_read(r->row, query, r->params, r->root, &why) < 0) {
        refuse(r, why);
        return;
    }
    if (r->row->style == ABX_STYLE_BODY_IN)
        abx_exchange_pause(r->x); /* whoever handles it reads the body */
    complete(r);
}

/* X-Abx-Timeout-Ms: the time limit of the call. */
static int read_limit(engine_request *r, abx_error **err)
{
    size_t count;
    const char *text = engine_header(r->x, "X-Abx-Timeout-Ms", &count);
    if (count == 0 ||
        (count == 1 && abx_parse_uint(text, INT64_MAX, &r->limit_ms) == 0 && r->limit_ms > 0))
        return 0;
    return abx_fail(err, ABX_ERR_USAGE, "X-Abx-Timeout-Ms is no number of milliseconds");
}

void engine_request_begin(engine *e, abx_exchange *x, const abx_op_row *row, yyjson_mut_doc *params,
                          void (*handler)(engine_request *r))
{
    engine_request *r = ABX_NEW(engine_request);
    *r = (engine_request){.engine = e,
                          .x = x,
                          .row = row,
                          .params = params,
                          .root = yyjson_mut_doc_get_root(params),
                          .since_ms = abx_now_mono_ms(),
                          .path = e->tells_requests ? abx_strdup(abx_exchange_path(x)) : NULL,
                          .ready = handler};
    abx_error *why = NULL;
    abx_link_init(&r->body.node);
    abx_link_init(&r->node);
    abx_link_append(&e->all, &r->node);
    e->requests++;
    abx_exchange_handle(x, &waiting, r);
    if (read_limit(r, &why) == 0)
        r->session = engine_connect(e, x, &why);
    if (r->session)
        gather(r);
    else
        refuse(r, why);
}

/* --- the call ------------------------------------------------------------------------------------------------------------------ */
abx_call *engine_request_start(engine_request *r, const abx_call_handlers *handlers, void *data)
{
    yyjson_mut_doc *params = ABX_TAKE(r->params);
    r->root = NULL;
    abx_call *call =
        abx_call_new(r->engine->loop, r->row->id, abx_json_freeze(params), handlers, data);
    abx_error *why = NULL;
    yyjson_mut_doc_free(params); /* before the provider makes its own of it */
    if (r->limit_ms > 0)
        abx_call_set_deadline(call, r->limit_ms);
    int rc = abx_host_start_at(r->session->host, r->session->provider, call, &why);
    engine_body_end(r);
    if (rc == 0)
        return call;
    abx_call_discard(call);
    refuse(r, why);
    return NULL;
}
