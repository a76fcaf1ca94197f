#include "e2b/client_inner.h"

#include "base/mem.h"

static void done(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    void (*cb)(abx__envd_job *, yyjson_val *, abx_error *) = job->unary_done;
    job->unary_done = NULL;
    cb(job, answer, err);
}

static void on_broken(abx__envd_job *job, abx_error *err)
{
    done(job, NULL, err);
}

static void read_answer(abx__envd_job *job, abx__envd_exchange *x)
{
    abx_error *err = NULL;
    ABX_AUTO_JSON answer =
        abx_e2b_decode(job->answer_msg, job->client->codec,
                       x->body.len > 0 ? (const char *)x->body.data : "", x->body.len, &err);
    if (!answer)
        (void)abx__envd_stamp(job->client, x, err);
    done(job, answer ? yyjson_doc_get_root(answer) : NULL, err);
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    if (!abx__envd_job_left(job, x)) {
        if (x->too_large)
            done(job, NULL, abx__envd_stamp(job->client, x, abx_error_copy(err)));
        else if (err)
            abx__envd_job_broken(job, err, on_broken);
        else if (x->good)
            read_answer(job, x);
        else
            done(job, NULL, abx__envd_answer_error(job->client, job->kind, x));
    }
    abx__envd_job_unref(job);
}

int abx__envd_unary_start(abx__envd_job *job, const abx__envd_unary *u, yyjson_mut_doc *doc,
                          void (*cb)(abx__envd_job *job, yyjson_val *answer, abx_error *err),
                          abx_error **err)
{
    static const abx__envd_hooks hooks = {.end = on_end};
    ABX_AUTO_MUT owned = doc;
    ABX_AUTO_BUF body = ABX_BUF(ABX__ENVD_MAX_MESSAGE);
    abx_envd_client *c = job->client;
    ABX_CHECK(!job->unary_done);
    const char *user = u->has_user ? abx__envd_user(job) : NULL;
    if (abx__envd_check_user(user, err) < 0 ||
        abx_e2b_encode_mut(u->request, c->codec, yyjson_mut_doc_get_root(owned), &body, err) < 0)
        return -1;
    abx__envd_request r = {
        .method = "POST",
        .path = u->path,
        .content_type = abx__envd_unary_type(c),
        .answer_type = abx__envd_unary_type(c),
        .user = user,
        .body = body.data,
        .body_len = body.len,
        .connect = true,
        .timeout_ms = u->timeout_ms,
        .safe = u->safe,
        .max_body = u->max_body ? u->max_body : ABX__ENVD_MAX_MESSAGE,
    };
    job->answer_msg = u->answer;
    job->kind = u->kind;
    job->unary_done = cb;
    if (abx__envd_job_exchange(job, u->side ? &job->side : &job->main, &r, &hooks, err) == 0)
        return 0;
    job->unary_done = NULL;
    return -1;
}
