/* fs.read and fs.write: GET and POST /files, bytes as they are. */
#include "e2b/client_inner.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* --- the query ----------------------------------------------------------------------------------------------- */
static int add_encoded(abx_buf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool plain = isalnum(*p) || strchr("-._~/", *p);
        if ((plain ? abx_buf_add_byte(out, *p) : abx_buf_addf(out, "%%%02X", *p)) < 0)
            return -1;
    }
    return 0;
}

/* "/files?path=…[&username=…]" */
static int put_query(const abx__envd_job *job, abx_buf *out, abx_error **err)
{
    const char *path = abx__envd_text(abx_call_params(job->call), "path");
    const char *user = abx__envd_param(job, "user");
    if (!path)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    int rc = abx_buf_add_str(out, "/files?path=") < 0 || add_encoded(out, path) < 0;
    if (rc == 0 && user)
        rc = abx_buf_add_str(out, "&username=") < 0 || add_encoded(out, user) < 0;
    return rc ? abx_fail(err, ABX_ERR_TOO_LARGE, "the path is too long") : 0;
}

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__envd_job_fail(job, err);
}

/* --- read ---------------------------------------------------------------------------------------------------- */
typedef struct reading {
    int64_t size;
} reading;

static void read_body(abx__envd_exchange *x, const uint8_t *bytes, size_t n)
{
    abx__envd_job *job = x->data;
    reading *r = job->state;
    if (job->ended)
        return;
    r->size += (int64_t)n;
    if (!abx_call_chunk(job->call, ABX_CH_BODY, bytes, n) && x->transfer)
        abx_http_pause(x->transfer);
}

static void read_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    reading *r = job->state;
    if (!abx__envd_job_left(job, x)) {
        if (err) {
            abx__envd_job_broken(job, err, on_broken);
        } else if (!x->good) {
            abx__envd_job_fail(job, abx__envd_answer_error(job->client, ABX__ENVD_FILE, x));
        } else {
            yyjson_mut_val *root = NULL;
            yyjson_mut_doc *d = abx_mut_new(&root);
            abx_mut_int(d, root, "size", r->size);
            abx__envd_job_end(job, d);
        }
    }
    abx__envd_job_unref(job);
}

static int read_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_hooks hooks = {.body = read_body, .end = read_end};
    ABX_AUTO_BUF path = ABX_BUF(ABX__ENVD_MAX_HEAD);
    if (put_query(job, &path, err) < 0)
        return -1;
    abx__envd_request r = {
        .method = "GET", .path = abx_buf_cstr(&path), .idle_ms = ABX__ENVD_FILE_MS};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

/* --- write ---------------------------------------------------------------------------------------------------- */
typedef struct writing {
    int64_t expected; /* -1: unknown */
    int64_t size;
    bool refused; /* the answer came before the body had ended */
} writing;

static void too_late(abx__envd_job *job)
{
    if (job->main && job->main->transfer)
        abx_http_cancel(job->main->transfer);
}

/* An early answer is a refusal: the rest of the body is not wanted. */
static void write_head(abx__envd_exchange *x)
{
    abx__envd_job *job = x->data;
    writing *w = job->state;
    if (x->good || job->ended)
        return;
    w->refused = true;
    abx_call_want_input(job->call);
    abx__envd_job_after(job, ABX__ENVD_LINGER_MS, too_late);
}

static void write_writable(abx__envd_exchange *x)
{
    abx__envd_job *job = x->data;
    if (!job->ended)
        abx_call_want_input(job->call);
}

/* [{"path":"/home/user/a","name":"a","type":"file"}] → {path, size} */
static void write_result(abx__envd_job *job, abx__envd_exchange *x)
{
    writing *w = job->state;
    abx_error *err = NULL;
    ABX_AUTO_JSON doc =
        abx_json_parse(x->body.len > 0 ? (const char *)x->body.data : "", x->body.len,
                       ABX_ERR_BACKEND_ANSWER, "the answer to the upload", &err);
    const char *path = abx__envd_text(yyjson_arr_get_first(yyjson_doc_get_root(doc)), "path");
    if (doc && (!path || *path != '/'))
        err = abx__envd_bad_answer(job->client, "the answer to the upload has no path");
    if (err) {
        abx__envd_job_fail(job, abx__envd_stamp(job->client, x, err));
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", path);
    abx_mut_int(d, root, "size", w->size);
    abx__envd_job_end(job, d);
}

static void write_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    writing *w = job->state;
    if (!abx__envd_job_left(job, x)) {
        /* who refuses a body often closes at once: the refusal counts, not how the connection ended */
        if (w->refused || (!err && !x->good))
            abx__envd_job_fail(job, abx__envd_answer_error(job->client, ABX__ENVD_FILE, x));
        else if (err)
            abx__envd_job_broken(job, err, on_broken);
        else
            write_result(job, x);
    }
    abx__envd_job_unref(job);
}

/* What our envd takes besides the path. 0, or -1 and *err. */
static int put_additions(const abx__envd_job *job, abx_buf *path, abx_error **err)
{
    static const char *const only_ours[] = {"mode", "whole", "modifiedAt"};
    const writing *w = job->state;
    yyjson_val *params = abx_call_params(job->call);
    for (size_t i = 0; i < ABX_COUNT(only_ours); i++)
        if (!job->client->abx && abx_json_get(params, only_ours[i]))
            return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                            "the sandbox does not take '%s' of a file that is written",
                            only_ours[i]);
    if (!job->client->abx)
        return 0;
    int64_t mode = abx__envd_param_int(job, "mode", -1);
    if (mode > 07777)
        return abx_fail(err, ABX_ERR_USAGE, "'mode' has more than permission bits");
    const char *modified = abx__envd_param(job, "modifiedAt");
    int64_t seconds = 0;
    long ns = 0;
    if (modified && abx_parse_rfc3339_ns(modified, &seconds, &ns) < 0)
        return abx_fail(err, ABX_ERR_USAGE, "'modifiedAt' is no time");
    int rc = abx_buf_add_str(path, "&abx=1");
    if (rc == 0 && mode >= 0)
        rc = abx_buf_addf(path, "&abx_mode=%llo", (unsigned long long)mode);
    if (rc == 0 && w->expected >= 0)
        rc = abx_buf_addf(path, "&abx_size=%lld", (long long)w->expected);
    if (rc == 0 && abx_json_bool(params, "whole", false))
        rc = abx_buf_add_str(path, "&abx_whole=1");
    if (rc == 0 && modified)
        rc = abx_buf_addf(path, "&abx_mtime=%lld.%09ld", (long long)seconds, ns);
    return rc < 0 ? abx_fail(err, ABX_ERR_TOO_LARGE, "the path is too long") : 0;
}

static int write_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_hooks hooks = {
        .head = write_head, .writable = write_writable, .end = write_end};
    writing *w = job->state;
    ABX_AUTO_BUF path = ABX_BUF(ABX__ENVD_MAX_HEAD);
    w->expected = abx__envd_param_int(job, "size", -1);
    if (put_query(job, &path, err) < 0 || put_additions(job, &path, err) < 0)
        return -1;
    abx__envd_request r = {.method = "POST",
                           .path = abx_buf_cstr(&path),
                           .content_type = "application/octet-stream",
                           .body_stream = true,
                           .body_size = w->expected};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

static void wrong_size(abx__envd_job *job)
{
    writing *w = job->state;
    abx__envd_job_fail(job, abx_error_new(ABX_ERR_USAGE, "%lld bytes were announced, but %s came",
                                          (long long)w->expected,
                                          w->size > w->expected ? "more" : "fewer"));
}

static int write_input(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    writing *w = job->state;
    if (w->refused || !job->main || !job->main->transfer)
        return 1;
    w->size += (int64_t)n;
    if (w->expected >= 0 && w->size > w->expected) {
        wrong_size(job);
        return 1;
    }
    return abx_http_write(job->main->transfer, bytes, n);
}

static void write_input_end(abx__envd_job *job)
{
    writing *w = job->state;
    if (w->refused || !job->main || !job->main->transfer)
        return;
    if (w->expected >= 0 && w->size < w->expected)
        wrong_size(job);
    else
        abx_http_write_end(job->main->transfer);
}

const abx__envd_op abx__envd_fs_read = {.state_size = sizeof(reading), .start = read_start};
const abx__envd_op abx__envd_fs_write = {.state_size = sizeof(writing),
                                         .start = write_start,
                                         .input = write_input,
                                         .input_end = write_input_end};
