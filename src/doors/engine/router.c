/* Which request is which row of ops.def: its method and its route say it. Nothing here names an operation; a row that enters the table is
 * served when its style has a handler. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/engine.h"
#include "doors/engine/stream.h"

/* The handlers of the styles; NULL: rows of this style have no route yet. A row with a way of its own stands in `own`. */
static void (*const handlers[])(engine_request *r) = {
    [ABX_STYLE_UNARY] = engine_unary,    [ABX_STYLE_STREAM] = engine_stream,
    [ABX_STYLE_BODY_IN] = engine_upload, [ABX_STYLE_BODY_OUT] = engine_download,
    [ABX_STYLE_DUPLEX] = engine_socket,
};
static const struct {
    abx_op_id op;
    void (*handler)(engine_request *r);
} own[] = {
    {ABX_OP_SANDBOX_SNAPSHOT_CREATE, engine_unary}, /* its events tell only how far it is */
    {ABX_OP_SANDBOX_TEMPLATE_ADD, engine_unary},
    {ABX_OP_PTY_OPEN, engine_socket},
};

#define SEGMENTS_MAX 9

/* A piece of a route: text, or a parameter. */
typedef struct segment {
    const char *text; /* of the route, not ended by 0 */
    size_t n;
    const abx_op_field *param; /* it stands for this one; NULL: it is its text */
} segment;

typedef struct route {
    const abx_op_row *row;
    void (*handler)(engine_request *r);
    segment segments[SEGMENTS_MAX];
    size_t count;
} route;

struct engine_router {
    route routes[ABX_OP_COUNT];
    size_t count;
};

/* --- the table as routes ------------------------------------------------------------------------------------------------ */
static void (*handler_of(const abx_op_row *row))(engine_request *r)
{
    for (size_t i = 0; i < ABX_COUNT(own); i++)
        if (own[i].op == row->id)
            return own[i].handler;
    return handlers[row->style];
}

/* ":id" is the first parameter of the row; ":process" is processId, ":port" is port. */
static const abx_op_field *param_of(const abx_op_row *row, const char *name, size_t n)
{
    size_t count;
    const abx_op_field *all = abx_op_params(&count);
    ABX_AUTO_FREE char *word = abx_strndup(name, n);
    ABX_AUTO_FREE char *with_id = abx_format("%sId", word);
    for (size_t i = 0; i < count; i++)
        if (all[i].op == row->id && (strcmp(word, "id") == 0 || strcmp(all[i].name, word) == 0 ||
                                     strcmp(all[i].name, with_id) == 0))
            return &all[i];
    ABX_CHECK(!"a word of a route that is no parameter");
    return NULL;
}

static void add_route(engine_router *router, const abx_op_row *row)
{
    route *r = &router->routes[router->count++];
    r->row = row;
    r->handler = handler_of(row);
    for (const char *at = row->route; *at == '/';) {
        segment *s = &r->segments[r->count++];
        ABX_CHECK(r->count <= SEGMENTS_MAX);
        s->text = ++at;
        s->n = strcspn(at, "/");
        if (*at == ':')
            s->param = param_of(row, at + 1, s->n - 1);
        at += s->n;
    }
}

engine_router *engine_router_new(void)
{
    engine_router *router = ABX_NEW(engine_router);
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        if (row->route[0] && handler_of(row))
            add_route(router, row);
    }
    return router;
}

void engine_router_free(engine_router *router)
{
    free(router);
}

/* --- a request ------------------------------------------------------------------------------------------------------------ */
typedef struct place {
    segment pieces[SEGMENTS_MAX];
    size_t count; /* more than SEGMENTS_MAX: no route is that long */
} place;

static void split(const char *text, place *p)
{
    p->count = 0;
    while (*text == '/') {
        size_t n = strcspn(++text, "/");
        if (p->count < SEGMENTS_MAX)
            p->pieces[p->count] = (segment){text, n, NULL};
        p->count++;
        text += n;
    }
}

static bool fits(const route *r, const place *p)
{
    if (r->count != p->count)
        return false;
    for (size_t i = 0; i < r->count; i++) {
        const segment *want = &r->segments[i], *have = &p->pieces[i];
        if (want->param ? have->n == 0
                        : have->n != want->n || memcmp(have->text, want->text, want->n) != 0)
            return false;
    }
    return true;
}

/* The parameters that stand in the path. 0, or -1 and USAGE. */
static int read_path(const route *r, const place *p, yyjson_mut_doc *d, yyjson_mut_val *root,
                     abx_error **err)
{
    for (size_t i = 0; i < r->count; i++) {
        const abx_op_field *param = r->segments[i].param;
        if (!param)
            continue;
        size_t n = 0;
        uint64_t number;
        ABX_AUTO_FREE char *text = abx_percent_decode(p->pieces[i].text, p->pieces[i].n, &n);
        if (!text || n == 0 || strlen(text) != n || !abx_utf8_valid(text, n) ||
            abx_has_control(text) || strchr(text, '/') || strcmp(text, ".") == 0 ||
            strcmp(text, "..") == 0)
            return abx_fail(err, ABX_ERR_USAGE, "'%s' in the path is no usable text", param->name);
        if (param->type != ABX_TYPE_INT)
            abx_mut_str(d, root, param->name, text);
        else if (abx_parse_uint(text, INT64_MAX, &number) == 0)
            abx_mut_int(d, root, param->name, (int64_t)number);
        else
            return abx_fail(err, ABX_ERR_USAGE, "'%s' in the path is no number", param->name);
    }
    return 0;
}

static void begin(engine *e, abx_exchange *x, const route *r, const place *p)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_error *why = NULL;
    if (read_path(r, p, d, root, &why) == 0) {
        engine_request_begin(e, x, r->row, d, r->handler);
        return;
    }
    engine_refuse(x, why);
    abx_error_free(why);
    yyjson_mut_doc_free(d);
}

static void refuse(abx_exchange *x, const char *allow)
{
    ABX_AUTO_FREE char *header = allow[0] ? abx_format("Allow: %s", allow) : NULL;
    ABX_AUTO_FREE char *shown = abx_printable(abx_exchange_path(x));
    ABX_AUTO_ERROR err =
        header ? abx_error_new(ABX_ERR_USAGE, "'%.200s' does not take %s", shown,
                               abx_exchange_method(x))
               : abx_error_new(ABX_ERR_USAGE, "the engine has no route '%.200s'", shown);
    abx_error *hinted = err;
    abx_hint(&hinted, header ? "it takes %s" : "docs/engine-api.md lists them%s",
             header ? allow : "");
    engine_refuse_as(x, header ? 405 : 404, header, err);
}

void engine_route(engine *e, abx_exchange *x)
{
    place p;
    const char *method = abx_exchange_method(x);
    ABX_AUTO_BUF allow = ABX_BUF(256);
    split(abx_exchange_path(x), &p);
    for (size_t i = 0; i < e->router->count && p.count <= SEGMENTS_MAX; i++) {
        const route *r = &e->router->routes[i];
        if (!fits(r, &p))
            continue;
        if (strcmp(r->row->http, method) == 0) {
            begin(e, x, r, &p);
            return;
        }
        if (abx_buf_addf(&allow, "%s%s", allow.len ? ", " : "", r->row->http) < 0)
            break;
    }
    refuse(x, abx_buf_cstr(&allow));
}
