/* fs.read: GET /files, bytes as they are. */
#include "e2b/client_inner.h"

#include <inttypes.h>
#include <stdio.h>
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
#define RANGE_SIZE 64

typedef struct reading {
    int64_t offset, limit; /* limit -1: until the end */
    int64_t skip, left; /* of this answer: a server that does not know of parts gives the whole */
    int64_t size;
    bool over; /* all that is wanted is there, and more would come */
} reading;

static void stop(abx__envd_exchange *x, reading *r)
{
    r->over = true;
    abx__envd_exchange_cancel(x);
}

static void read_head(abx__envd_exchange *x)
{
    const abx__envd_job *job = x->data;
    reading *r = job->state;
    r->skip = x->status == 206 ? 0 : r->offset;
    r->left = r->limit;
    if (x->good && r->left == 0)
        stop(x, r);
}

static void read_body(abx__envd_exchange *x, const uint8_t *bytes, size_t n)
{
    abx__envd_job *job = x->data;
    reading *r = job->state;
    if (job->ended || r->over)
        return;
    size_t pass = (uint64_t)r->skip < n ? (size_t)r->skip : n;
    r->skip -= (int64_t)pass;
    bytes += pass;
    n -= pass;
    bool more = r->left >= 0 && (uint64_t)r->left < n;
    if (more)
        n = (size_t)r->left;
    if (r->left > 0)
        r->left -= (int64_t)n;
    r->size += (int64_t)n;
    if (n > 0 && !abx_call_chunk(job->call, ABX_CH_BODY, bytes, n) && x->transfer)
        abx_http_pause(x->transfer);
    /* a part ends by itself, and its connection is good for the next request */
    if (r->left == 0 && (more || x->status == 200))
        stop(x, r);
}

static void read_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    const reading *r = job->state;
    if (!abx__envd_job_left(job, x)) {
        bool behind = !err && x->status == 416 && r->offset > 0; /* of the end */
        if (err && !r->over) {
            abx__envd_job_broken(job, err, on_broken);
        } else if (!x->good && !behind) {
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

/* The header line for a part, and how its answer begins; NULL: all is wanted. */
static const char *range_line(const reading *r, char line[RANGE_SIZE], char part[RANGE_SIZE])
{
    if (r->offset == 0 && r->limit < 0)
        return NULL;
    snprintf(part, RANGE_SIZE, "bytes %" PRId64 "-", r->offset);
    int64_t last = r->limit > 0 ? r->limit - 1 : 0; /* a range has one byte at least */
    if (r->limit < 0 || last > INT64_MAX - r->offset)
        snprintf(line, RANGE_SIZE, "Range: bytes=%" PRId64 "-", r->offset);
    else
        snprintf(line, RANGE_SIZE, "Range: bytes=%" PRId64 "-%" PRId64, r->offset,
                 r->offset + last);
    return line;
}

static int read_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_hooks hooks = {.head = read_head, .body = read_body, .end = read_end};
    ABX_AUTO_BUF path = ABX_BUF(ABX__ENVD_MAX_HEAD);
    yyjson_val *params = abx_call_params(job->call);
    const char *name = abx__envd_text(params, "path");
    if (!name)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    if (abx__envd_file_query(job, name, &path, err) < 0)
        return -1;
    reading *state = job->state;
    state->offset = abx_json_int(params, "offset", 0);
    state->limit = abx_json_int(params, "limit", -1);
    char line[RANGE_SIZE], part[RANGE_SIZE];
    const char *range = range_line(state, line, part);
    abx__envd_request r = {.method = "GET",
                           .path = abx_buf_cstr(&path),
                           .more = &range,
                           .more_count = range ? 1 : 0,
                           .part = range ? part : NULL,
                           .idle_ms = ABX__ENVD_FILE_MS,
                           .safe = true};
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

const abx__envd_op abx__envd_fs_read = {.state_size = sizeof(reading), .start = read_start};
