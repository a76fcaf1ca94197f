/* GET files: fs.stat for the head, fs.read for the bytes. */
#include "doors/engine/stream.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/http_range.h"

enum { MAX_LINKS = 8 };

typedef struct download {
    engine_request *request; /* its x is NULL when the client is gone */
    abx_call *call;          /* fs.stat, then fs.read; NULL: over */
    yyjson_mut_doc *params;  /* of fs.read; NULL: it runs */
    int links;               /* that were followed */
    bool head_sent, done;
    int status;
    /* Of the query: the part of the file that is the whole here; limit -1: until the end. */
    int64_t offset, limit;
    int64_t size;      /* of that; -1: not known */
    int64_t left;      /* still promised; -1: until the end */
    char range[96];    /* Content-Range line, or "" */
    char modified[64]; /* Last-Modified line, or "" */
} download;

static void download_free(download *f)
{
    yyjson_mut_doc_free(f->params);
    engine_request_end(f->request);
    free(f);
}

/* --- the head ----------------------------------------------------------------------------------------------- */
static void send_head(download *f)
{
    const char *lines[6] = {"Content-Type: application/octet-stream",
                            "X-Content-Type-Options: nosniff", "Cache-Control: no-cache",
                            "Accept-Ranges: bytes"};
    size_t n = 4;
    if (f->head_sent)
        return;
    if (f->range[0])
        lines[n++] = f->range;
    if (f->modified[0])
        lines[n++] = f->modified;
    f->head_sent = true;
    f->request->status = f->status;
    abx_exchange_head(f->request->x, f->status, lines, n, f->left);
}

static void refuse(download *f, const abx_error *err)
{
    f->done = true;
    if (f->head_sent)
        abx_exchange_abort(f->request->x); /* its length was promised */
    else
        engine_fail(f->request, err);
}

static void refuse_range(download *f)
{
    const char *lines[] = {f->range, "Content-Type: application/json"};
    ABX_AUTO_ERROR err = abx_error_new(
        ABX_ERR_USAGE, "the range lies outside of the file's %" PRId64 " bytes", f->size);
    ABX_AUTO_FREE char *body = engine_request_error(f->request, err);
    snprintf(f->range, sizeof f->range, "Content-Range: bytes */%" PRId64, f->size);
    f->done = true;
    f->request->status = 416;
    abx_exchange_reply_with(f->request->x, 416, lines, ABX_COUNT(lines), body, strlen(body));
}

/* What part is wanted. False: it was refused. */
static bool choose_part(download *f, int64_t modified_s)
{
    const char *range = abx_exchange_header(f->request->x, "Range");
    const char *if_range = abx_exchange_header(f->request->x, "If-Range");
    int64_t from = 0, len = 0;
    f->status = 200;
    f->left = f->size;
    if (!range || f->size < 0 || (if_range && abx_http_date_read(if_range) != modified_s))
        return true;
    switch (abx_http_range(range, f->size, &from, &len)) {
    case ABX_RANGE_PART: break;
    case ABX_RANGE_OUTSIDE: refuse_range(f); return false;
    default: return true;
    }
    f->status = 206;
    f->left = len;
    f->offset += from;
    if (f->limit >= 0 || from + len < f->size)
        f->limit = len;
    snprintf(f->range, sizeof f->range, "Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64,
             from, from + len - 1, f->size);
    return true;
}

/* --- the bytes ------------------------------------------------------------------------------------------------ */
/* All that is wanted is out. */
static void finish(download *f)
{
    f->done = true;
    abx_exchange_end(f->request->x);
    if (f->call)
        abx_call_resume(f->call);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    download *f = data;
    if (!f->request->x || f->done || n == 0)
        return;
    send_head(f);
    if (f->left >= 0 && (uint64_t)f->left < n)
        n = (size_t)f->left;
    if (f->left > 0)
        f->left -= (int64_t)n;
    if (n > 0 && !abx_exchange_write(f->request->x, bytes, n))
        abx_call_pause(c);
    if (f->left == 0)
        finish(f);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    download *f = data;
    f->call = NULL;
    if (!f->request->x) {
        download_free(f);
    } else if (!f->done && err) {
        refuse(f, err);
    } else if (!f->done && f->left > 0 && f->head_sent) {
        f->done = true;
        abx_exchange_abort(f->request->x); /* it has become shorter meanwhile */
    } else if (!f->done && f->left > 0 && f->status == 206) {
        ABX_AUTO_ERROR why = abx_error_new(ABX_ERR_FILE, "the file became shorter meanwhile");
        refuse(f, why);
    } else if (!f->done) {
        if (f->left > 0) /* it was emptied before its first byte was read */
            f->left = -1;
        send_head(f);
        finish(f);
    }
}

static void put_part(download *f)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(f->params);
    if (f->offset > 0)
        abx_mut_int(f->params, root, "offset", f->offset);
    if (f->limit >= 0)
        abx_mut_int(f->params, root, "limit", f->limit);
}

static void read_it(download *f)
{
    static const abx_call_handlers on = {.on_chunk = on_chunk, .on_end = on_end};
    put_part(f);
    ABX_AUTO_ERROR err = NULL;
    f->call = engine_request_call(f->request, ABX_OP_FS_READ, ABX_TAKE(f->params), &on, f, &err);
    if (!f->call)
        refuse(f, err);
}

/* --- what it is ----------------------------------------------------------------------------------------------- */
static void look(download *f, const char *path);

/* What the kernel makes up has no size of its own. */
static bool is_made_up(const char *path)
{
    return abx_has_prefix(path, "/proc/") || abx_has_prefix(path, "/sys/");
}

static void take_stat(download *f, yyjson_val *file)
{
    int64_t ms = 0;
    const char *modified = abx_json_str(file, "modifiedAt", NULL);
    f->size = abx_json_int(file, "size", -1);
    if (!abx_str_eq(abx_json_str(file, "type", ""), "file") ||
        (f->size == 0 && is_made_up(abx_json_str(file, "path", ""))))
        f->size = -1;
    bool known = f->size >= 0;
    if (known) /* of what the query asks for */
        f->size = f->size > f->offset ? f->size - f->offset : 0;
    if (known && f->limit >= 0 && f->limit < f->size)
        f->size = f->limit;
    if (!known || !modified || abx_parse_rfc3339(modified, &ms) < 0)
        ms = 0;
    else
        abx_http_date_line(ms / 1000, f->modified, sizeof f->modified);
    if (choose_part(f, ms / 1000))
        read_it(f);
}

static void on_stat(abx_call *c, yyjson_val *file, const abx_error *err, void *data)
{
    (void)c;
    download *f = data;
    f->call = NULL;
    if (!f->request->x) {
        download_free(f);
        return;
    }
    if (err && err->id != ABX_ERR_FEATURE_MISSING) {
        refuse(f, err);
        return;
    }
    const char *target = abx_json_str(file, "targetPath", NULL);
    if (abx_str_eq(abx_json_str(file, "type", ""), "symlink") && target && *target == '/' &&
        f->links++ < MAX_LINKS)
        look(f, target);
    else
        take_stat(f, file);
}

/* path NULL: the one that was asked for. */
static void look(download *f, const char *path)
{
    static const abx_call_handlers on = {.on_end = on_stat};
    yyjson_mut_doc *d = yyjson_mut_doc_mut_copy(f->params, NULL);
    ABX_CHECK(d);
    if (path)
        yyjson_mut_obj_replace(yyjson_mut_doc_get_root(d), yyjson_mut_str(d, "path"),
                               yyjson_mut_strcpy(d, path));
    ABX_AUTO_ERROR err = NULL;
    f->call = engine_request_call(f->request, ABX_OP_FS_STAT, d, &on, f, &err);
    if (f->call)
        return;
    if (err->id == ABX_ERR_FEATURE_MISSING)
        take_stat(f, NULL);
    else
        refuse(f, err);
}

/* --- the client ------------------------------------------------------------------------------------------------- */
static void on_writable(abx_exchange *x, void *data)
{
    (void)x;
    const download *f = data;
    if (f->call)
        abx_call_resume(f->call);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    download *f = data;
    f->request->x = NULL;
    if (f->call)
        abx_call_cancel(f->call);
    else
        download_free(f);
}

/* The stat before has no such parameters. */
static void take_part(download *f)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(f->params);
    yyjson_mut_val *offset = yyjson_mut_obj_remove_key(root, "offset");
    yyjson_mut_val *limit = yyjson_mut_obj_remove_key(root, "limit");
    f->offset = offset ? yyjson_mut_get_sint(offset) : 0;
    f->limit = limit ? yyjson_mut_get_sint(limit) : -1;
}

void engine_download(engine_request *r)
{
    static const abx_exchange_handlers client = {.on_writable = on_writable, .on_close = on_close};
    download *f = ABX_NEW(download);
    f->request = r;
    f->params = ABX_TAKE(r->params);
    f->size = -1;
    f->limit = -1;
    take_part(f);
    abx_exchange_handle(f->request->x, &client, f);
    look(f, NULL);
}
