/* fs.write: POST /files. */
#include "e2b/client_write.h"

#include <string.h>

#include "base/mem.h"

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__write_fail(job, err);
}

static void cut(abx__envd_job *job)
{
    if (job->main)
        abx__envd_exchange_cancel(job->main);
}

/* An early answer is a refusal: the rest of the body is not wanted. */
static void on_head(abx__envd_exchange *x)
{
    abx__envd_job *job = x->data;
    abx__writing *w = job->state;
    if (x->good || job->ended)
        return;
    w->refused = true;
    abx_call_want_input(job->call);
    abx__envd_job_after(job, ABX__ENVD_LINGER_MS, cut);
}

static void on_writable(abx__envd_exchange *x)
{
    abx__envd_job *job = x->data;
    if (!job->ended)
        abx_call_want_input(job->call);
}

void abx__write_done(abx__envd_job *job)
{
    abx__writing *w = job->state;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", w->path);
    abx_mut_int(d, root, "size", w->size);
    abx__envd_job_end(job, d);
}

/* [{"path":"/home/user/a","name":"a","type":"file"}]. All bytes that were announced are the whole upload, though the caller has
 * yet to say that no more come. */
static void read_answer(abx__envd_job *job, abx__envd_exchange *x)
{
    abx__writing *w = job->state;
    abx_error *err = NULL;
    ABX_AUTO_JSON doc =
        abx_json_parse(x->body.len > 0 ? (const char *)x->body.data : "", x->body.len,
                       ABX_ERR_BACKEND_ANSWER, "the answer to the upload", &err);
    const char *path = abx__envd_text(yyjson_arr_get_first(yyjson_doc_get_root(doc)), "path");
    if (doc && (!path || *path != '/'))
        err = abx__envd_bad_answer(job->client, "the answer to the upload has no path");
    else if (doc && w->sending && !w->input_ended && w->size != w->expected)
        err = abx__envd_bad_answer(job->client, "the upload was answered before it had ended");
    if (err) {
        abx__write_fail(job, abx__envd_stamp(job->client, x, err));
        return;
    }
    w->path = abx_strdup(path);
    abx__write_arrange(job);
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    abx__writing *w = job->state;
    if (!abx__envd_job_left(job, x)) {
        abx__envd_job_after(job, 0, NULL);
        /* who refuses a body often closes at once: the refusal counts, not how the connection ended */
        if (w->why)
            abx__write_fail(job, ABX_TAKE(w->why));
        else if (w->refused || (!err && !x->good))
            abx__write_fail(job, abx__envd_answer_error(job->client, ABX__ENVD_FILE, x));
        else if (err)
            abx__envd_job_broken(job, err, on_broken);
        else
            read_answer(job, x);
    }
    abx__envd_job_unref(job);
}

/* --- the body ------------------------------------------------------------------------------------------------ */
static void wrong_size(abx__envd_job *job)
{
    abx__writing *w = job->state;
    w->why = abx_error_new(ABX_ERR_USAGE, "%lld bytes were announced, but %s came",
                           (long long)w->expected, w->size > w->expected ? "more" : "fewer");
    cut(job);
}

static int send_bytes(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__writing *w = job->state;
    if (w->refused || w->why || !job->main || !job->main->transfer)
        return 1;
    w->size += (int64_t)n;
    if (w->expected >= 0 && w->size > w->expected) {
        wrong_size(job);
        return 1;
    }
    return abx_http_write(job->main->transfer, bytes, n);
}

static void send_end(abx__envd_job *job)
{
    abx__writing *w = job->state;
    ABX_AUTO_BUF tail = ABX_BUF(ABX__ENVD_MAX_HEAD);
    if (w->refused || w->why || !job->main || !job->main->transfer)
        return;
    if (w->expected >= 0 && w->size < w->expected) {
        wrong_size(job);
        return;
    }
    if (w->form && abx__write_form_tail(w, &tail) == 0)
        (void)abx_http_write(job->main->transfer, tail.data, tail.len);
    abx_http_write_end(job->main->transfer);
}

static int open_request(abx__envd_job *job, const char *path, const abx_buf *head, abx_error **err)
{
    static const abx__envd_hooks hooks = {.head = on_head, .writable = on_writable, .end = on_end};
    abx__writing *w = job->state;
    ABX_AUTO_BUF tail = ABX_BUF(ABX__ENVD_MAX_HEAD);
    ABX_AUTO_FREE char *type = w->form ? abx_format("multipart/form-data; boundary=%s", w->boundary)
                                       : abx_strdup("application/octet-stream");
    int64_t more = 0;
    if (w->form && abx__write_form_tail(w, &tail) == 0)
        more = (int64_t)(head->len + tail.len);
    abx__envd_request r = {.method = "POST",
                           .path = path,
                           .content_type = type,
                           .more = (const char *const *)w->metadata,
                           .more_count = w->metadata_count,
                           .body_stream = true,
                           .body_size = w->expected < 0 ? -1 : w->expected + more};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

int abx__write_send(abx__envd_job *job, abx_error **err)
{
    abx__writing *w = job->state;
    ABX_AUTO_BUF path = ABX_BUF(ABX__ENVD_MAX_HEAD);
    ABX_AUTO_BUF head = ABX_BUF(ABX__ENVD_MAX_HEAD);
    if (abx__envd_file_query(job, w->to, &path, err) < 0 ||
        (job->client->abx && abx__write_additions(job, &path, err) < 0))
        return -1;
    if (w->form && abx__write_form_head(w, &head) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the path is too long");
    if (open_request(job, abx_buf_cstr(&path), &head, err) < 0)
        return -1;
    w->sending = true;
    if (head.len > 0)
        (void)abx_http_write(job->main->transfer, head.data, head.len);
    if (w->early.len > 0)
        (void)send_bytes(job, w->early.data, w->early.len);
    abx_buf_clear(&w->early);
    if (w->input_ended)
        send_end(job);
    return 0;
}

/* --- the call ---------------------------------------------------------------------------------------------------- */
static int write_start(abx__envd_job *job, abx_error **err)
{
    abx__writing *w = job->state;
    if (abx__write_params(job, err) < 0)
        return -1;
    if (w->whole && !job->client->abx)
        return abx__write_look(job, err);
    return abx__write_send(job, err);
}

static int write_input(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__writing *w = job->state;
    if (w->sending)
        return send_bytes(job, bytes, n);
    if (abx_buf_add(&w->early, bytes, n) < 0) /* who holds when told to never gets here */
        abx__envd_job_fail(job, abx_error_new(ABX_ERR_TOO_LARGE, "too many bytes came at once"));
    return 0;
}

static void write_input_end(abx__envd_job *job)
{
    abx__writing *w = job->state;
    w->input_ended = true;
    if (w->sending)
        send_end(job);
}

static void write_cancel(abx__envd_job *job)
{
    abx__writing *w = job->state;
    w->cancelled = true;
    abx_error_free(w->why);
    w->why = abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled");
    if (!w->target)
        abx__envd_job_stop(job);
    else if (job->main)
        cut(job); /* its end removes what was uploaded */
}

static void write_clear(abx__envd_job *job)
{
    abx__writing *w = job->state;
    for (size_t i = 0; i < w->metadata_count; i++)
        free(w->metadata[i]);
    free(w->metadata);
    free(w->to);
    free(w->target);
    free(w->modified);
    free(w->path);
    abx_error_free(w->why);
    abx_buf_clear(&w->early);
}

const abx__envd_op abx__envd_fs_write = {.state_size = sizeof(abx__writing),
                                         .start = write_start,
                                         .input = write_input,
                                         .input_end = write_input_end,
                                         .cancel = write_cancel,
                                         .clear = write_clear};
