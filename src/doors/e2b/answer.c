/* Answers of the door that are no answers of a sandbox: E2B's shapes, with the headers that let a page of any origin read
 * them (what protects is the key). */
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "doors/e2b/control.h"

#define BODY_MAX ((size_t)64 * 1024 * 1024)

static const char *const common[] = {
    "Content-Type: application/json; charset=utf-8",
    "Access-Control-Allow-Origin: *",
    ("Access-Control-Expose-Headers: X-Next-Token, X-Total-Running, RateLimit-Limit, "
     "RateLimit-Remaining, RateLimit-Reset, Retry-After"),
};

static void put(abx_exchange *x, int status, const char *const *more, size_t more_count,
                const void *body, size_t n)
{
    const char *headers[ABX_COUNT(common) + 4];
    size_t first = status == 204 ? 1 : 0, count = 0; /* no content, no type of it */
    for (size_t i = first; i < ABX_COUNT(common); i++)
        headers[count++] = common[i];
    for (size_t i = 0; i < more_count && i < 4; i++)
        headers[count++] = more[i];
    abx_exchange_reply_with(x, status, headers, count, body, n);
}

void e2b_answer(abx_exchange *x, int status, yyjson_mut_val *body, const char *const *headers,
                size_t count)
{
    if (!body) {
        put(x, status, headers, count, "", 0);
        return;
    }
    ABX_AUTO_BUF text = ABX_BUF(BODY_MAX);
    if (abx_json_write_mut(body, &text) < 0)
        e2b_refuse(x, 500, "the answer is too long");
    else
        put(x, status, headers, count, text.data, text.len);
}

static void refuse_text(abx_exchange *x, int status, const char *text, const char *error_code,
                        const char *const *headers, size_t count)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "code", status);
    abx_mut_str(d, root, "message", text);
    abx_mut_str(d, root, "error_code", error_code);
    e2b_answer(x, status, root, headers, count);
}

void e2b_refuse(abx_exchange *x, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    refuse_text(x, status, text, NULL, NULL, 0);
}

int e2b_status_of(const abx_error *err)
{
    switch (err->id) {
    case ABX_ERR_API_KEY: /* the provider's key, not the caller's: 401 would have him look at his own */
        return 403;
    case ABX_ERR_NO_SPACE:
    case ABX_ERR_TOO_LARGE: return 400;
    default: {
        int status = abx_err_row_of(err->id)->http_status;
        /* 502 and 503 make SDKs try again, which here repeats the whole work of the provider */
        return status == 502 || status == 422 ? 500 : status == 499 ? 500 : status;
    }
    }
}

void e2b_refuse_error(abx_exchange *x, const abx_error *err)
{
    const char *hint = abx_error_hint(err);
    bool advice = hint && !strstr(hint, "'abx help");
    ABX_AUTO_FREE char *text = abx_format("%s%s%s (%s)", abx_error_text(err), advice ? "; " : "",
                                          advice ? hint : "", abx_error_code(err));
    static const char *const once[] = {"Should-Retry: false"};
    int status = e2b_status_of(err);
    bool again = status == 429;
    refuse_text(x, status, text, abx_error_code(err), again ? NULL : once, again ? 0 : 1);
}

yyjson_mut_val *e2b_data_refusal(yyjson_mut_doc *d, int status, const char *id, int port,
                                 const char *text)
{
    yyjson_mut_val *root = yyjson_mut_obj(d);
    abx_mut_str(d, root, "sandboxId", id);
    abx_mut_str(d, root, "message", text);
    if (port > 0)
        abx_mut_int(d, root, "port", port);
    abx_mut_int(d, root, "code", status);
    return root;
}

void e2b_data_refuse(abx_exchange *x, int status, const char *id, int port, const char *text)
{
    ABX_AUTO_MUT d = abx_mut_new(NULL);
    e2b_answer(x, status, e2b_data_refusal(d, status, id, port, text), NULL, 0);
}

void e2b_data_not_found(abx_exchange *x, const char *id)
{
    e2b_data_refuse(x, 502, id, 0, "The sandbox was not found");
}

void e2b_data_closed_port(abx_exchange *x, const char *id, int port)
{
    e2b_data_refuse(x, 502, id, port, "The sandbox is running but port is not open");
}
