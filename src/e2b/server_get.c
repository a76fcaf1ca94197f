#include "e2b/server_inner.h"
#include "e2b/server_type.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "net/http_range.h"

struct abx_e2b_get {
    abx_e2b_server *server;
    abx_exchange *x; /* NULL when the client is gone */
    abx__seat seat;
    void *file;
    bool opening; /* the filling still owes begin or fail */
    bool head_sent;
    bool ended;
    int status;
    int64_t length; /* of the part; -1: until the end */
    char *name;     /* base name */
    char *range;    /* Content-Range line or NULL */
    char modified[64];
};

static void get_free(abx_e2b_get *g)
{
    abx__seat_free(&g->seat);
    free(g->name);
    free(g->range);
    free(g);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    abx_e2b_get *g = data;
    g->x = NULL;
    abx__seat_leave(&g->seat);
    abx__use_end(g->server);
    if (g->file)
        g->server->filling->get_close(g->file);
    if (!g->opening)
        get_free(g);
}

static void on_writable(abx_exchange *x, void *data)
{
    (void)x;
    abx_e2b_get *g = data;
    if (g->file && !g->ended)
        g->server->filling->get_more(g->file);
}

/* Is identity an answer the client takes? Only an explicit q=0 says no. */
static bool takes_identity(const abx_exchange *x)
{
    const char *at = abx_exchange_header(x, "Accept-Encoding");
    bool any = true, named = false, identity = true;
    while (at && *at) {
        size_t n = strcspn(at, ",");
        ABX_AUTO_FREE char *item = abx_strndup(at, n);
        at += n + (at[n] == ',');
        char *q = strstr(item, "q=");
        bool zero = q && strtod(q + 2, NULL) <= 0;
        char *name = item;
        while (isspace((unsigned char)*name))
            name++;
        name[strcspn(name, "; \t")] = 0;
        if (strcasecmp(name, "identity") == 0) {
            named = true;
            identity = !zero;
        } else if (strcmp(name, "*") == 0) {
            any = !zero;
        }
    }
    return named ? identity : any;
}

static void common_lines(abx_e2b_get *g, abx__lines *l, char **disposition)
{
    ABX_AUTO_FREE char *value = abx__disposition(g->name);
    *disposition = abx_format("Content-Disposition: %s", value);
    abx__lines_init(l, g->x, false);
    abx__lines_add(l, "Vary: Accept-Encoding");
    abx__lines_add(l, *disposition);
}

static void refuse_range(abx_e2b_get *g, int64_t size, const char *text)
{
    abx__lines l;
    ABX_AUTO_FREE char *disposition = NULL;
    ABX_AUTO_FREE char *range = abx_format("Content-Range: bytes */%" PRId64, size);
    common_lines(g, &l, &disposition);
    abx__lines_add(&l, "Content-Type: text/plain; charset=utf-8");
    abx__lines_add(&l, "X-Content-Type-Options: nosniff");
    abx__lines_add(&l, range);
    g->ended = g->seat.answered = true;
    abx_exchange_reply_with(g->x, 416, l.items, l.count, text, strlen(text));
}

/* Head of the answer; first are the first bytes of the part, for the type. */
static void send_head(abx_e2b_get *g, const uint8_t *first, size_t n)
{
    g->head_sent = true;
    abx__lines l;
    ABX_AUTO_FREE char *disposition = NULL;
    common_lines(g, &l, &disposition);
    const char *type = abx__type_of_name(g->name);
    if (!type)
        type = g->status == 206 ? "application/octet-stream" : abx__type_of_bytes(first, n);
    ABX_AUTO_FREE char *type_line = abx_format("Content-Type: %s", type);
    abx__lines_add(&l, type_line);
    abx__lines_add(&l, "Accept-Ranges: bytes");
    if (g->modified[0])
        abx__lines_add(&l, g->modified);
    if (g->range)
        abx__lines_add(&l, g->range);
    abx_exchange_head(g->x, g->status, l.items, l.count, g->length);
}

/* Conditions of the request. 1: answered. */
static int check_conditions(abx_e2b_get *g, const abx_e2b_file_info *info)
{
    int64_t since = abx_http_date_read(abx_exchange_header(g->x, "If-Modified-Since"));
    int64_t not_since = abx_http_date_read(abx_exchange_header(g->x, "If-Unmodified-Since"));
    if (info->modified_s == 0)
        return 0;
    abx__lines l;
    ABX_AUTO_FREE char *disposition = NULL;
    common_lines(g, &l, &disposition);
    abx__lines_add(&l, g->modified);
    if (not_since >= 0 && info->modified_s > not_since) {
        g->ended = g->seat.answered = true;
        abx_exchange_reply_with(g->x, 412, l.items, l.count, NULL, 0);
        return 1;
    }
    if (since >= 0 && info->modified_s <= since && !abx_exchange_header(g->x, "If-None-Match")) {
        g->ended = g->seat.answered = true;
        abx_exchange_reply_with(g->x, 304, l.items, l.count, NULL, 0);
        return 1;
    }
    return 0;
}

void abx_e2b_get_begin(abx_e2b_get *g, const abx_e2b_file_info *info, void *file)
{
    g->opening = false;
    g->file = file;
    if (!g->x) {
        g->server->filling->get_close(file);
        get_free(g);
        return;
    }
    g->name = abx_strdup(abx_path_base(info->path));
    if (info->modified_s != 0)
        abx_http_date_line(info->modified_s, g->modified, sizeof(g->modified));
    if (g->modified[0] && check_conditions(g, info))
        return;
    int64_t from = 0;
    g->status = 200;
    g->length = info->size;
    const char *range = abx_exchange_header(g->x, "Range");
    const char *if_range = abx_exchange_header(g->x, "If-Range");
    if (if_range && abx_http_date_read(if_range) != info->modified_s)
        range = NULL;
    if (range && info->size >= 0) {
        int64_t len = info->size;
        abx_range part = abx_http_range(range, info->size, &from, &len);
        if (part == ABX_RANGE_OUTSIDE || part == ABX_RANGE_BROKEN) {
            refuse_range(g, info->size,
                         part == ABX_RANGE_OUTSIDE ? "invalid range: failed to overlap\n"
                                                   : "invalid range\n");
            return;
        }
        if (part == ABX_RANGE_PART) {
            g->status = 206;
            g->length = len;
            g->range = abx_format("Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64, from,
                                  from + len - 1, info->size);
        }
    }
    g->server->filling->get_send(file, from, g->length);
}

void abx_e2b_get_fail(abx_e2b_get *g, const abx_e2b_fault *f)
{
    g->opening = false;
    if (!g->x && !g->file) {
        get_free(g);
        return;
    }
    if (!g->x || g->ended)
        return;
    g->ended = g->seat.answered = true;
    if (g->head_sent)
        abx_exchange_abort(g->x);
    else
        abx__reply_fault(g->x, f);
}

int abx_e2b_get_bytes(abx_e2b_get *g, const void *bytes, size_t n)
{
    if (!g->x || g->ended)
        return 1;
    if (!g->head_sent)
        send_head(g, bytes, n);
    return abx_exchange_write(g->x, bytes, n);
}

void abx_e2b_get_end(abx_e2b_get *g)
{
    if (!g->x || g->ended)
        return;
    if (!g->head_sent)
        send_head(g, (const uint8_t *)"", 0);
    g->ended = g->seat.answered = true;
    abx_exchange_end(g->x);
}

void abx_e2b_get_break(abx_e2b_get *g)
{
    if (!g->x || g->ended)
        return;
    g->ended = true;
    abx_exchange_abort(g->x);
}

void abx__get_start(abx_e2b_server *s, abx_exchange *x)
{
    if (abx__sign_check(s, x, "read") < 0)
        return;
    ABX_AUTO_FREE char *path = abx_exchange_query_get(x, "path");
    ABX_AUTO_FREE char *given = abx_exchange_query_get(x, "username");
    const char *user = given && *given ? given : s->default_user;
    abx_e2b_fault f = {0};
    if (!s->filling->has_user(s->data, user)) {
        abx_e2b_fault_set(&f, 401, "error looking up user '%s': user: unknown user %s", user, user);
        abx__reply_fault(x, &f);
        return;
    }
    ABX_AUTO_FREE char *full = s->filling->resolve(s->data, path ? path : "", user, &f);
    if (!full) {
        abx__reply_fault(x, &f);
        return;
    }
    if (!takes_identity(x)) {
        abx__reply_status(x, 406,
                          "error parsing Accept-Encoding: no acceptable encoding found, "
                          "supported: [gzip]");
        return;
    }
    abx_e2b_get *g = ABX_NEW(abx_e2b_get);
    g->server = s;
    g->x = x;
    g->opening = true;
    abx_exchange_handlers handlers = {.on_writable = on_writable, .on_close = on_close};
    abx__use_begin(s);
    abx__seat_take(s, &g->seat, x);
    abx_exchange_handle(x, &handlers, g);
    const char *ours = s->http ? abx_exchange_header(x, "X-Abx") : NULL;
    s->filling->get_open(s->data, g, full, user, ours && strcmp(ours, "1") == 0);
}
