/* fs.read: GET /files, bytes as they are. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* --- the query ----------------------------------------------------------------------------------------------- */
static int add_encoded(abx_buf *out, const char *text)
{
    ABX_AUTO_FREE char *encoded = abx_percent_encode(text, "/");
    return abx_buf_add_str(out, encoded);
}

int abx__envd_file_query(const abx__envd_job *job, const char *path, abx_buf *out, abx_error **err)
{
    const char *user = abx__envd_user(job);
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
    const char *name = abx__envd_text(abx_call_params(job->call), "path");
    if (!name)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    if (abx__envd_file_query(job, name, &path, err) < 0)
        return -1;
    abx__envd_request r = {
        .method = "GET", .path = abx_buf_cstr(&path), .idle_ms = ABX__ENVD_FILE_MS, .safe = true};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

const abx__envd_op abx__envd_fs_read = {.state_size = sizeof(reading), .start = read_start};
