/* Answers: JSON, and errors as one shape. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/engine.h"

#define BODY_MAX ((size_t)256 * 1024 * 1024)
#define JSON     "Content-Type: application/json"

static void put(abx_exchange *x, int status, const char *more, const void *body, size_t n)
{
    const char *headers[] = {JSON, "Cache-Control: no-store", more};
    abx_exchange_reply_with(x, status, headers, more ? 3 : 2, body, n);
}

void engine_answer(abx_exchange *x, int status, yyjson_val *value)
{
    if (!value) {
        put(x, status, NULL, "{}", 2);
        return;
    }
    ABX_AUTO_BUF text = ABX_BUF(BODY_MAX);
    if (abx_json_write(value, &text) == 0) {
        put(x, status, NULL, text.data, text.len);
        return;
    }
    ABX_AUTO_ERROR err = abx_error_new(ABX_ERR_TOO_LARGE, "the answer is too long");
    engine_refuse_as(x, 502, NULL, err);
}

static void blank(engine_session *s, char **text)
{
    if (!*text)
        return;
    char *shown = abx_host_blank(s->host, s->provider, *text);
    free(*text);
    *text = shown;
}

yyjson_mut_val *engine_error_body(yyjson_mut_doc *d, engine_session *s, const abx_error *err)
{
    yyjson_mut_val *root = yyjson_mut_obj(d);
    ABX_AUTO_ERROR shown = abx_error_copy(err);
    if (!shown->hint && err->id == ABX_ERR_USAGE) /* the row's is for the command line */
        shown->hint = abx_strdup("docs/engine-api.md and docs/operations.md say what is accepted");
    if (s) {
        blank(s, &shown->message);
        blank(s, &shown->hint);
    }
    abx_mut_put(d, root, "error", abx_error_json(d, shown));
    return root;
}

static void refuse(abx_exchange *x, int status, const char *header, engine_session *s,
                   const abx_error *err)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_BUF text = ABX_BUF(BODY_MAX);
    ABX_CHECK(abx_json_write_mut(engine_error_body(d, s, err), &text) == 0);
    put(x, status, header, text.data, text.len);
}

void engine_refuse(abx_exchange *x, const abx_error *err)
{
    refuse(x, abx_err_row_of(err->id)->http_status, NULL, NULL, err);
}

void engine_refuse_as(abx_exchange *x, int status, const char *header, const abx_error *err)
{
    refuse(x, status, header, NULL, err);
}

size_t engine_refusal(int status, const char *reason, char *out, size_t room)
{
    bool large = status == 413 || status == 431;
    ABX_AUTO_ERROR err = abx_error_new(large ? ABX_ERR_TOO_LARGE : ABX_ERR_USAGE,
                                       "the request cannot be served: %s", reason);
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_BUF text = ABX_BUF(room);
    if (abx_json_write_mut(engine_error_body(d, NULL, err), &text) < 0)
        return 0;
    memcpy(out, text.data, text.len);
    return text.len;
}

void engine_tell(const engine *e, const char *method, const char *path, int status,
                 uint64_t since_ms)
{
    ABX_AUTO_FREE char *shown = abx_printable(path);
    abx_logf(e->log, ABX_LOG_INFO, "%s %.200s %d %llu ms", method, shown, status,
             (unsigned long long)(abx_now_mono_ms() - since_ms));
}

void engine_fail(engine_request *r, const abx_error *err)
{
    r->status = abx_err_row_of(err->id)->http_status;
    if (r->x)
        refuse(r->x, r->status, NULL, r->session, err);
}
