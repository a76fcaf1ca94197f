/* The control plane: from a request to its handler. */
#include "doors/e2b/control.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/life.h"

#define BODY_MAX ((size_t)8 * 1024 * 1024)
#define WORD_MAX 512 /* of an id in a path */

extern const e2b_route e2b_routes[]; /* routes.c */

/* --- the request -------------------------------------------------------------------------------------------- */
void e2b_request_ref(e2b_request *r)
{
    r->refs++;
}

void e2b_request_unref(e2b_request *r)
{
    if (--r->refs > 0)
        return;
    if (r->free_state)
        r->free_state(r->state);
    if (r->box)
        e2b_box_unref(r->box);
    yyjson_doc_free(r->doc);
    free(r->word);
    free(r);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    e2b_request *r = data;
    r->x = NULL;
    e2b_request_unref(r);
}

void e2b_reply_with(e2b_request *r, int status, yyjson_mut_val *root, const char *const *headers,
                    size_t count)
{
    if (r->x)
        e2b_answer(r->x, status, root, headers, count);
}

void e2b_reply(e2b_request *r, int status, yyjson_mut_val *root)
{
    e2b_reply_with(r, status, root, NULL, 0);
}

void e2b_reply_error(e2b_request *r, const abx_error *err)
{
    if (r->x && err->id == ABX_ERR_SANDBOX_NOT_FOUND && r->word)
        e2b_reply_no_box(r);
    else if (r->x)
        e2b_refuse_error(r->x, err);
}

void e2b_reply_refuse(e2b_request *r, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    if (r->x)
        e2b_refuse(r->x, status, "%s", text);
}

void e2b_reply_no_box(e2b_request *r)
{
    ABX_AUTO_FREE char *shown = abx_printable(r->word ? r->word : "");
    e2b_reply_refuse(r, 404, "Sandbox \"%s\" doesn't exist or you don't have access to it", shown);
}

void e2b_reply_sandbox(e2b_request *r, int status, e2b_box *box)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    e2b_reply(r, status, e2b_view_sandbox(d, box));
}

char *e2b_query(e2b_request *r, const char *name)
{
    return r->x ? abx_exchange_query_get(r->x, name) : NULL;
}

/* --- members of the body --------------------------------------------------------------------------------------- */
static int wrong(e2b_request *r, const char *name, const char *what)
{
    e2b_reply_refuse(r, 400, "validation error: '%s' is %s", name, what);
    return -1;
}

int e2b_body_int(e2b_request *r, const char *name, int64_t least, int64_t most, int64_t *out)
{
    yyjson_val *v = abx_json_get(r->body, name);
    if (!v)
        return 0;
    if (!yyjson_is_int(v) || (yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX))
        return wrong(r, name, "no whole number");
    int64_t n = yyjson_get_sint(v);
    if (n < least || n > most)
        return wrong(r, name, n < least ? "too small" : "too large");
    *out = n;
    return 1;
}

int e2b_body_bool(e2b_request *r, const char *name, bool *out)
{
    yyjson_val *v = abx_json_get(r->body, name);
    if (!v)
        return 0;
    if (!yyjson_is_bool(v))
        return wrong(r, name, "neither true nor false");
    *out = yyjson_get_bool(v);
    return 1;
}

int e2b_body_map(e2b_request *r, const char *name, yyjson_val **out)
{
    yyjson_val *v = abx_json_get(r->body, name), *key, *value;
    size_t i, n;
    if (!v)
        return 0;
    if (!yyjson_is_obj(v))
        return wrong(r, name, "no object");
    yyjson_obj_foreach(v, i, n, key, value)
    {
        if (!yyjson_is_str(value))
            return wrong(r, name, "no object of strings");
    }
    *out = v;
    return 1;
}

/* --- finding the sandbox ------------------------------------------------------------------------------------------ */
typedef struct finding {
    e2b_request *r;
    bool fresh;
    void (*fn)(e2b_request *r);
} finding;

static void go_on(finding *f, const abx_error *err)
{
    e2b_request *r = f->r;
    void (*fn)(e2b_request *) = f->fn;
    free(f);
    if (err)
        e2b_reply_error(r, err);
    else if (!r->box || r->box->state == E2B_GONE)
        e2b_reply_no_box(r);
    else
        fn(r);
    e2b_request_unref(r);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)box;
    go_on(data, err);
}

static void on_found(void *data, e2b_box *box, const abx_error *err)
{
    finding *f = data;
    if (box) {
        e2b_box_ref(box);
        f->r->box = box;
    }
    if (box && f->fresh)
        e2b_box_look(box, on_looked, f);
    else
        go_on(f, err);
}

void e2b_with_box(e2b_request *r, bool fresh, void (*fn)(e2b_request *r))
{
    finding *f = ABX_NEW(finding);
    *f = (finding){r, fresh, fn};
    e2b_request_ref(r);
    ABX_AUTO_FREE char *id = abx_strndup(r->word, strcspn(r->word, "-")); /* ID-CLIENT of old */
    e2b_find(r->door, id, on_found, f);
}

typedef struct asking {
    e2b_request *r;
    e2b_answer_cb cb;
} asking;

static void on_answer(void *data, yyjson_val *result, const abx_error *err)
{
    asking a = *(asking *)data;
    free(data);
    a.cb(a.r, result, err);
    e2b_request_unref(a.r);
}

void e2b_request_ask(e2b_request *r, abx_op_id op, yyjson_mut_doc *params, e2b_answer_cb cb)
{
    asking *a = ABX_NEW(asking);
    *a = (asking){r, cb};
    e2b_request_ref(r);
    e2b_ask(r->door, op, params, on_answer, a);
}

/* --- dispatch --------------------------------------------------------------------------------------------------------- */
/* 1: the path fits the pattern, and *word is what stood for {} (owned, or NULL); 0: it does not; -1: the segment is
 * broken. */
static int fits(const char *pattern, const char *path, char **word)
{
    const char *hole = strstr(pattern, "{}");
    size_t head = hole ? (size_t)(hole - pattern) : strlen(pattern);
    *word = NULL;
    if (strncmp(pattern, path, head) != 0)
        return 0;
    if (!hole)
        return path[head] == 0;
    size_t n = strcspn(path + head, "/");
    if (n == 0 || strcmp(path + head + n, hole + 2) != 0)
        return 0;
    size_t len = 0;
    *word = n <= WORD_MAX ? abx_percent_decode(path + head, n, &len) : NULL;
    if (*word && strlen(*word) == len && abx_utf8_valid(*word, len))
        return 1;
    free(ABX_TAKE(*word));
    return -1;
}

static const char *key_of(const abx_exchange *x)
{
    const char *key = abx_exchange_header(x, "X-API-Key");
    const char *bearer = abx_exchange_header(x, "Authorization");
    if (!key && bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        key = bearer + 7;
    return key;
}

static bool refuse_stranger(e2b_door *door, abx_exchange *x)
{
    const char *key = key_of(x);
    if (e2b_key_fits(door, key))
        return false;
    if (key)
        e2b_refuse(x, 401, "Invalid API key, 'abx e2b env' prints the one of this server");
    else
        e2b_refuse(x, 401, "no API key: the header X-API-Key is missing; 'abx e2b env' prints it");
    return true;
}

static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    e2b_request *r = data;
    if (n > 0) {
        ABX_AUTO_ERROR why = NULL;
        r->doc = abx_json_parse(bytes, n, ABX_ERR_USAGE, "the body", &why);
        r->body = r->doc ? yyjson_doc_get_root(r->doc) : NULL;
        if (!r->doc || !(yyjson_is_obj(r->body) || yyjson_is_null(r->body))) {
            e2b_refuse(x, 400, "validation error: %s",
                       why ? abx_error_text(why) : "the body is no JSON object");
            return;
        }
        if (abx_json_has_nul(r->body)) {
            e2b_refuse(x, 400, "validation error: a text of the body holds a NUL");
            return;
        }
        if (yyjson_is_null(r->body))
            r->body = NULL;
    }
    r->route->run(r);
}

static void preflight(abx_exchange *x)
{
    static const char *const headers[] = {
        "Access-Control-Allow-Methods: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS",
        "Access-Control-Allow-Headers: *, Authorization", "Access-Control-Max-Age: 7200"};
    e2b_answer(x, 204, NULL, headers, ABX_COUNT(headers));
}

static void run(e2b_door *door, abx_exchange *x, const e2b_route *route, char *word, bool v2)
{
    static const abx_exchange_handlers handlers = {.on_close = on_close};
    e2b_request *r = ABX_NEW(e2b_request);
    *r = (e2b_request){.door = door, .x = x, .route = route, .word = word, .refs = 1, .v2 = v2};
    abx_exchange_handle(x, &handlers, r);
    abx_exchange_collect(x, BODY_MAX, on_body, r);
}

void e2b_control(e2b_door *door, abx_exchange *x)
{
    const char *path = abx_exchange_path(x), *method = abx_exchange_method(x);
    if (strcmp(method, "OPTIONS") == 0) {
        preflight(x);
        return;
    }
    bool open = strcmp(path, "/health") == 0;
    if (!open && refuse_stranger(door, x))
        return;
    bool v2 = abx_has_prefix(path, "/v2/"), known = false;
    for (const e2b_route *route = e2b_routes; route->path; route++) {
        char *word;
        int rc = fits(route->path, path, &word);
        if (rc < 0) {
            e2b_refuse(x, 404, "the id in the path is no text");
            return;
        }
        if (rc == 1 && strcmp(route->method, method) == 0) {
            run(door, x, route, word, v2);
            return;
        }
        known = known || rc == 1;
        free(word);
    }
    const char *absent = e2b_route_absent(path);
    if (absent)
        e2b_refuse(x, 501, "%s (%s)", absent, abx_err_row_of(ABX_ERR_FEATURE_MISSING)->code);
    else if (known)
        e2b_refuse(x, 405, "method %s is not allowed here", method);
    else
        e2b_refuse(x, 404, "no such route");
}
