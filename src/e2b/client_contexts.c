/* code.context_*, code.interrupt: plain JSON requests of the code interpreter. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { MAX_TEXT = 4096 };

typedef struct asking {
    /* Make the result of the call from the answer; NULL and *err. */
    yyjson_mut_doc *(*read)(const abx__envd_job *job, yyjson_val *answer, abx_error **err);
} asking;

abx_error *abx__envd_code_error(const abx__envd_job *job, const abx__envd_exchange *x)
{
    const abx_envd_client *c = job->client;
    const char *context = abx__envd_param(job, "contextId");
    abx_error *err = abx__envd_answer_error(c, ABX__ENVD_CONTROL, x);
    switch (x->status) {
    case 404:
        if (context && strstr(err->message, "ontext")) {
            abx_error_free(err);
            err = abx__envd_stamp(
                c, x,
                abx_error_new(ABX_ERR_CONTEXT_NOT_FOUND, "there is no context '%s'", context));
        }
        break;
    case 502:
        if (strstr(err->message, "port is not open")) {
            err->id = ABX_ERR_START_FAILED;
            (void)abx_hint(&err,
                           "its template may have no code interpreter: see 'create --template'");
        }
        break;
    case 422: err->id = ABX_ERR_USAGE; break;
    case 429: err->id = c->abx ? ABX_ERR_QUOTA : ABX_ERR_RATE_LIMIT; break;
    case 500: err->id = ABX_ERR_START_FAILED; break;
    case 501:
        if (c->abx) /* the sandbox lacks the interpreter, not the provider the feature */
            err->id = ABX_ERR_START_FAILED;
        break;
    default: break;
    }
    return err;
}

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__envd_job_fail(job, err);
}

/* Of an answer whose body says nothing. */
static yyjson_mut_doc *read_nothing(const abx__envd_job *job, yyjson_val *answer, abx_error **err)
{
    return abx_mut_new(NULL);
}

/* The result of a good answer. */
static void read_answer(abx__envd_job *job, abx__envd_exchange *x)
{
    const asking *a = job->state;
    abx_error *why = NULL;
    ABX_AUTO_JSON doc = NULL;
    if (a->read != read_nothing)
        doc = abx_json_parse(x->body.len > 0 ? (const char *)x->body.data : "", x->body.len,
                             ABX_ERR_BACKEND_ANSWER, "the answer", &why);
    yyjson_mut_doc *result = why ? NULL : a->read(job, yyjson_doc_get_root(doc), &why);
    if (result)
        abx__envd_job_end(job, result);
    else
        abx__envd_job_fail(job, abx__envd_stamp(job->client, x, why));
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    const asking *a = job->state;
    if (!abx__envd_job_left(job, x)) {
        bool good = x->good || (x->status == 204 && a->read == read_nothing);
        if (x->too_large)
            abx__envd_job_fail(job, abx__envd_bad_answer(job->client, "the answer is too large"));
        else if (!err && !good)
            abx__envd_job_fail(job, abx__envd_code_error(job, x));
        else if (err)
            abx__envd_job_broken(job, err, on_broken);
        else
            read_answer(job, x);
    }
    abx__envd_job_unref(job);
}

static int ask(abx__envd_job *job, const char *method, const char *path, const abx_buf *body,
               yyjson_mut_doc *(*read)(const abx__envd_job *, yyjson_val *, abx_error **),
               abx_error **err)
{
    static const abx__envd_hooks hooks = {.end = on_end};
    asking *a = job->state;
    a->read = read;
    abx__envd_request r = {.method = method,
                           .path = path,
                           .content_type = "application/json",
                           .body = body ? body->data : NULL,
                           .body_len = body ? body->len : 0,
                           .code = true,
                           .timeout_ms = ABX__ENVD_UNARY_MS,
                           .safe = strcmp(method, "GET") == 0,
                           .max_body = ABX__ENVD_MAX_MESSAGE};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

/* --- answers -------------------------------------------------------------------------------------------------- */
static int put_context(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *o,
                       yyjson_val *context, abx_error **err)
{
    static const char *const names[] = {"id", "language", "cwd"};
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        const char *text = abx__envd_text(context, names[i]);
        if (text && strlen(text) <= MAX_TEXT)
            abx_mut_str(d, o, names[i], text);
        else if (i == 0 || text)
            return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the '%s' of a context does not fit",
                            names[i]);
    }
    if (!c->abx)
        return 0;
    abx_mut_bool(d, o, "busy", abx_json_bool(context, "abxBusy", false));
    int64_t pid = abx_json_int(context, "abxPid", 0);
    if (pid > 0)
        abx_mut_int(d, o, "pid", pid);
    return 0;
}

static yyjson_mut_doc *read_context(const abx__envd_job *job, yyjson_val *answer, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    return put_context(job->client, d, root, answer, err) < 0 ? NULL : ABX_TAKE(d);
}

static yyjson_mut_doc *read_list(const abx__envd_job *job, yyjson_val *answer, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "contexts");
    if (!yyjson_is_arr(answer)) {
        (void)abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the answer is no list");
        return NULL;
    }
    size_t i = 0, n = 0;
    yyjson_val *context = NULL;
    yyjson_arr_foreach(answer, i, n, context)
    {
        if (put_context(job->client, d, yyjson_mut_arr_add_obj(d, list), context, err) < 0)
            return NULL;
    }
    return ABX_TAKE(d);
}

static yyjson_mut_doc *read_interrupt(const abx__envd_job *job, yyjson_val *answer, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "interrupted", abx_json_bool(answer, "interrupted", false));
    return d;
}

/* --- requests ------------------------------------------------------------------------------------------------------ */
static int create_start(abx__envd_job *job, abx_error **err)
{
    yyjson_val *env = abx_json_get(abx_call_params(job->call), "env");
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_BUF body = ABX_BUF(ABX__ENVD_MAX_MESSAGE);
    if (env && !job->client->abx)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING, "a context takes no environment there");
    abx_mut_str(d, root, "language", abx__envd_param(job, "language"));
    abx_mut_str(d, root, "cwd", abx__envd_param(job, "cwd"));
    if (env)
        abx_mut_val(d, root, "abxEnv", env);
    if (abx_json_write_mut(root, &body) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the request is too large");
    return ask(job, "POST", "/contexts", &body, read_context, err);
}

static int list_start(abx__envd_job *job, abx_error **err)
{
    return ask(job, "GET", "/contexts", NULL, read_list, err);
}

/* PREFIX + the context's id as one segment + SUFFIX. */
static int ask_about(abx__envd_job *job, const char *method, const char *prefix, const char *suffix,
                     yyjson_mut_doc *(*read)(const abx__envd_job *, yyjson_val *, abx_error **),
                     abx_error **err)
{
    ABX_AUTO_BUF path = ABX_BUF((size_t)4 * MAX_TEXT);
    const char *id = abx__envd_text(abx_call_params(job->call), "contextId");
    if (!id || !*id || strlen(id) > MAX_TEXT / 4 || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
        return abx_fail(err, ABX_ERR_CONTEXT_NOT_FOUND, "'%.60s' is no id of a context",
                        id ? id : "");
    ABX_AUTO_FREE char *encoded = abx_percent_encode(id, "");
    ABX_CHECK(abx_buf_addf(&path, "%s%s%s", prefix, encoded, suffix) == 0);
    return ask(job, method, abx_buf_cstr(&path), NULL, read, err);
}

static int restart_start(abx__envd_job *job, abx_error **err)
{
    return ask_about(job, "POST", "/contexts/", "/restart", read_nothing, err);
}

static int remove_start(abx__envd_job *job, abx_error **err)
{
    return ask_about(job, "DELETE", "/contexts/", "", read_nothing, err);
}

static int interrupt_start(abx__envd_job *job, abx_error **err)
{
    if (!job->client->abx)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "the code is interrupted only by cancelling its run");
    return ask_about(job, "POST", "/abx/contexts/", "/interrupt", read_interrupt, err);
}

const abx__envd_op abx__envd_context_create = {.state_size = sizeof(asking), .start = create_start};
const abx__envd_op abx__envd_context_list = {.state_size = sizeof(asking), .start = list_start};
const abx__envd_op abx__envd_context_restart = {.state_size = sizeof(asking),
                                                .start = restart_start};
const abx__envd_op abx__envd_context_remove = {.state_size = sizeof(asking), .start = remove_start};
const abx__envd_op abx__envd_code_interrupt = {.state_size = sizeof(asking),
                                               .start = interrupt_start};
