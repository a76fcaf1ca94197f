/* Whose sandbox is it? The one who made it reaches it; so does a connection whose own provider, with its own account, answers `connect` for it.
 * Where a provider has no `connect`, nobody but the maker does. What only the provider itself answers (info, connect, kill) needs no asking
 * before. The engine remembers digests, so neither ids nor keys are kept after a session. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/engine.h"

static void key_of(const engine_session *s, const char *id, uint8_t key[16])
{
    uint8_t digest[ENGINE_DIGEST_BYTES];
    engine_digest(s->engine, s->digest, sizeof s->digest, id, strlen(id), digest);
    memcpy(key, digest, 16);
}

void engine_reach_made(engine_session *s, const char *id)
{
    uint8_t key[16];
    if (!id)
        return;
    key_of(s, id, key);
    engine_made_add(s->engine->made, key);
}

void engine_reach_gone(engine_session *s, const char *id)
{
    uint8_t key[16];
    if (!id)
        return;
    key_of(s, id, key);
    engine_made_remove(s->engine->made, key);
}

static bool is_own(const engine_session *s, const char *id)
{
    uint8_t key[16];
    key_of(s, id, key);
    return engine_made_has(s->engine->made, key);
}

/* --- asking ------------------------------------------------------------------------------------------------------------------ */
static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data);

static void ask(engine_request *r, abx_op_id op, const char *id)
{
    static const abx_call_handlers handlers = {.on_end = on_end};
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", id);
    abx_call *call = abx_call_new(r->engine->loop, op, abx_json_freeze(d), &handlers, r);
    abx_error *why = NULL;
    r->asking = true;
    if (abx_host_start_at(r->session->host, r->session->provider, call, &why) == 0)
        return;
    r->asking = false;
    abx_call_discard(call);
    if (why->id == ABX_ERR_FEATURE_MISSING)
        abx_hint(&why, "only the connection that made the sandbox reaches it");
    engine_fail(r, why);
    abx_error_free(why);
}

/* A paused one is not woken up by a question: what it cannot do, its provider says. */
static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    engine_request *r = data;
    ABX_AUTO_FREE char *id = abx_strdup(abx_json_str(abx_call_params(c), "sandboxId", ""));
    r->asking = false;
    if (!r->x) {
        engine_request_end(r);
    } else if (err) {
        engine_fail(r, err);
    } else if (abx_call_op(c)->id == ABX_OP_SANDBOX_CONNECT) {
        engine_reach_made(r->session, id);
        r->ready(r);
    } else if (abx_str_eq(abx_json_str(result, "state", NULL), "paused")) {
        r->ready(r);
    } else {
        ask(r, ABX_OP_SANDBOX_CONNECT, id);
    }
}

void engine_reach(engine_request *r)
{
    const char *id = yyjson_mut_get_str(yyjson_mut_obj_get(r->root, "sandboxId"));
    bool provider_answers = r->row->id == ABX_OP_SANDBOX_INFO ||
                            r->row->id == ABX_OP_SANDBOX_KILL ||
                            r->row->id == ABX_OP_SANDBOX_CONNECT;
    if (!id || provider_answers || is_own(r->session, id))
        r->ready(r);
    else
        ask(r, ABX_OP_SANDBOX_INFO, id);
}
