/* E2B's code interpreter: POST /execute, /contexts. */
#include "local/envd/code_inner.h"

#include <string.h>
#include <sys/stat.h>

static bool has_nul(yyjson_val *v)
{
    return yyjson_is_str(v) && strlen(yyjson_get_str(v)) != yyjson_get_len(v);
}

/* Texts by names that can stand in an environment, or absent. 0; -1: the call was failed. */
static int check_env(abx_e2b_call *c, yyjson_val *env, const char *key)
{
    if (!env)
        return 0;
    bool good = yyjson_is_obj(env);
    yyjson_obj_iter it = yyjson_obj_iter_with(env);
    for (yyjson_val *k; good && (k = yyjson_obj_iter_next(&it));) {
        yyjson_val *v = yyjson_obj_iter_get_val(k);
        good = yyjson_is_str(v) && !has_nul(k) && !has_nul(v) && yyjson_get_len(k) > 0 &&
               !strchr(yyjson_get_str(k), '=');
    }
    if (good)
        return 0;
    abx_e2b_refuse(c, 422, "%s: not names with texts", key);
    return -1;
}

/* A text without NUL, NULL when absent or null. 0; -1: the call was failed. */
static int get_text(abx_e2b_call *c, yyjson_val *q, const char *key, const char **out)
{
    yyjson_val *v = abx_json_get(q, key);
    *out = yyjson_get_str(v);
    if (!v || (yyjson_is_str(v) && !has_nul(v)))
        return 0;
    abx_e2b_refuse(c, 422, "%s: not a text", key);
    return -1;
}

static const abx__language *find_language(abx_e2b_call *c, const char *name)
{
    const abx__language *l = abx__language_find(name);
    if (l)
        return l;
    ABX_AUTO_FREE char *known = abx__languages_known();
    ABX_AUTO_FREE char *shown = abx_printable(name);
    abx_e2b_refuse(c, 400, "unknown language '%.60s': there are %s", shown, known);
    return NULL;
}

static abx__context *make(abx_envd *e, abx_e2b_call *c, const abx__language *l, const char *id,
                          const char *cwd, yyjson_val *env)
{
    abx__user u;
    if (abx__code_of(e)->context_count >= ABX__MAX_CONTEXTS) {
        abx_e2b_refuse(c, 429, "there are %d contexts already", (int)ABX__MAX_CONTEXTS);
        return NULL;
    }
    if (abx__user_of(e, c, &u) < 0)
        return NULL;
    ABX_AUTO_FREE char *full = abx__path_resolve(e, cwd ? cwd : "", &u);
    if (!full) {
        abx_e2b_refuse(c, 400, "error resolving path: " ABX__NO_TILDE, u.name);
        return NULL;
    }
    return abx__context_new(e, l, &u, id, full, env);
}

static abx__context *find_context(abx_envd *e, abx_e2b_call *c, const char *id)
{
    abx__context *x = abx__context_find(e, id);
    const abx__language *l = x ? NULL : abx__language_find(id);
    if (l) /* any name of a language stands for its own context */
        x = abx__context_find(e, l->name);
    if (x)
        return x;
    ABX_AUTO_FREE char *shown = abx_printable(id);
    abx_e2b_refuse(c, 404, "Context %.60s not found", shown);
    return NULL;
}

/* The context that the request names, or its language's own, which is made when it is asked for first. */
static abx__context *pick(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    const char *id = NULL, *language = NULL;
    if (get_text(c, q, "context_id", &id) < 0 || get_text(c, q, "language", &language) < 0)
        return NULL;
    if (id && *id && language && *language) {
        abx_e2b_refuse(c, 400, "Only one of context_id or language can be provided");
        return NULL;
    }
    if (id && *id)
        return find_context(e, c, id);
    const abx__language *l = find_language(c, language && *language ? language : "python");
    if (!l)
        return NULL;
    abx__context *x = abx__context_find(e, l->name);
    return x ? x : make(e, c, l, l->name, NULL, NULL);
}

void abx__rpc_execute(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    yyjson_val *code = abx_json_get(q, "code"), *env = abx_json_get(q, "env_vars");
    if (!yyjson_is_str(code)) {
        abx_e2b_refuse(c, 422, "code: not a text");
        return;
    }
    if (yyjson_get_len(code) > ABX__MAX_CODE) {
        abx_e2b_refuse(c, 413, "the code is larger than %d bytes", (int)ABX__MAX_CODE);
        return;
    }
    if (check_env(c, env, "env_vars") < 0)
        return;
    abx__context *x = pick(e, c, q);
    if (!x)
        return;
    if (x->run_count >= ABX__MAX_RUNS) {
        abx_e2b_refuse(c, 429, "%d runs wait for this context already", (int)ABX__MAX_RUNS);
        return;
    }
    abx__run *r = ABX_NEW(abx__run);
    int64_t ms = abx_json_int(q, "abxTimeoutMs", 0);
    r->call = c;
    r->code = yyjson_get_str(code);
    r->code_len = yyjson_get_len(code);
    r->env = env;
    r->abx = abx_e2b_call_is_abx(c);
    r->timeout_ms = ms > 0 ? (uint64_t)ms : ABX_FOREVER;
    abx__context_run(x, r);
}

void abx__rpc_context_new(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    const char *language = NULL, *cwd = NULL;
    yyjson_val *env = abx_json_get(q, "abxEnv");
    if (get_text(c, q, "language", &language) < 0 || get_text(c, q, "cwd", &cwd) < 0 ||
        check_env(c, env, "abxEnv") < 0)
        return;
    const abx__language *l = find_language(c, language && *language ? language : "python");
    abx__context *x = l ? make(e, c, l, NULL, cwd, env) : NULL;
    if (!x)
        return;
    int status = 0;
    char text[1024];
    if (abx__kernel_start(x, &status, text) < 0) {
        abx_e2b_refuse(c, status, "%s", text);
        abx__context_remove(x, "", "");
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx__context_put(x, d, root);
    abx_e2b_answer(c, root);
}

void abx__rpc_context_list(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, list);
    for (abx_link *n = e->code ? e->code->contexts.next : NULL; n && n != &e->code->contexts;
         n = n->next) {
        const abx__context *x = ABX_OF(n, abx__context, node);
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx__context_put(x, d, o);
        if (abx_e2b_call_is_abx(c)) {
            abx_mut_bool(d, o, "abxBusy", x->busy);
            if (x->kernel)
                abx_mut_int(d, o, "abxPid", x->kernel->pid);
        }
    }
    abx_e2b_answer(c, list);
}

static void answer_null(abx_e2b_call *c)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *null = yyjson_mut_null(d);
    yyjson_mut_doc_set_root(d, null);
    abx_e2b_answer(c, null);
}

void abx__rpc_context_restart(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    abx__context *x = find_context(e, c, abx_e2b_call_segment(c));
    if (!x)
        return;
    abx__context_restart(x);
    answer_null(c);
}

void abx__rpc_context_remove(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    abx__context *x = find_context(e, c, abx_e2b_call_segment(c));
    if (!x)
        return;
    abx__context_remove(x, "ContextRemoved", "the context was removed while the code ran");
    answer_null(c);
}

void abx__rpc_abx_interrupt(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)q;
    abx__context *x = find_context(e, c, abx_e2b_call_segment(c));
    if (!x)
        return;
    int what = abx__context_interrupt(x);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_bool(d, root, "interrupted", what > 0);
    abx_mut_bool(d, root, "ended", what > 1);
    abx_e2b_answer(c, root);
}
