#include "e2b/server_inner.h"

#include <string.h>

#include "base/id.h"
#include "wire/base64.h"

#define ABX_E2B_NONE (-1)
const abx__route abx__routes[ABX_E2B_METHOD_COUNT] = {
#define ABX_E2B_ROUTE(id, verb, path, kind, in, out)                                               \
    [ABX_E2B_M_##id] = {verb, path, ABX__KIND_##kind, (int)ABX_E2B_##in, (int)ABX_E2B_##out},
#include "e2b/routes.def"
#undef ABX_E2B_ROUTE
};
#undef ABX_E2B_NONE

static const char UNAUTHORIZED[] = "unauthorized access, please provide a valid access token or "
                                   "method signing if supported";

void abx__lines_add(abx__lines *l, const char *line)
{
    ABX_CHECK(l->count < ABX_COUNT(l->items));
    l->items[l->count++] = line;
}

void abx__lines_init(abx__lines *l, abx_exchange *x, bool vary)
{
    l->count = 0;
    if (vary)
        abx__lines_add(l, "Vary: Origin");
    if (!abx_exchange_header(x, "Origin"))
        return;
    abx__lines_add(l, "Access-Control-Allow-Origin: *");
    abx__lines_add(l, "Access-Control-Expose-Headers: Grpc-Status, Grpc-Message, "
                      "Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options");
}

static void preflight(abx_exchange *x)
{
    abx__lines l = {.count = 0};
    const char *method = abx_exchange_header(x, "Access-Control-Request-Method");
    const char *headers = abx_exchange_header(x, "Access-Control-Request-Headers");
    ABX_AUTO_FREE char *methods = abx_format("Access-Control-Allow-Methods: %s", method);
    ABX_AUTO_FREE char *allowed = NULL;
    abx__lines_add(&l,
                   "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
    abx__lines_add(&l, "Access-Control-Allow-Origin: *");
    abx__lines_add(&l, methods);
    if (headers) {
        allowed = abx_format("Access-Control-Allow-Headers: %s", headers);
        abx__lines_add(&l, allowed);
    }
    abx__lines_add(&l, "Access-Control-Max-Age: 7200");
    abx_exchange_reply_with(x, 204, l.items, l.count, NULL, 0);
}

static void not_found(abx_exchange *x)
{
    static const char text[] = "404 page not found\n";
    abx__lines l;
    abx__lines_init(&l, x, true);
    abx__lines_add(&l, "Content-Type: text/plain; charset=utf-8");
    abx__lines_add(&l, "X-Content-Type-Options: nosniff");
    abx_exchange_reply_with(x, 404, l.items, l.count, text, sizeof(text) - 1);
}

/* Is path that of the route? Then *from and *n are what stands for its *, n 0 without one. */
static bool fits(const char *route, const char *path, const char **from, size_t *n)
{
    size_t head = strcspn(route, "*");
    *n = 0;
    if (!route[head])
        return strcmp(route, path) == 0;
    if (strncmp(route, path, head) != 0)
        return false;
    *from = path + head;
    *n = strcspn(*from, "/");
    return *n > 0 && strcmp(*from + *n, route + head + 1) == 0;
}

static bool is_on(abx_e2b_plane plane, size_t method)
{
    bool code = method >= ABX_E2B_M_EXECUTE && method <= ABX_E2B_M_CONTEXT_REMOVE;
    return plane == ABX_E2B_PLANE_ALL ||
           (plane == ABX_E2B_PLANE_CODE ? code || method == ABX_E2B_M_HEALTH
                                        : method < ABX_E2B_M_EXECUTE);
}

/* Other verbs of a path that exists: one Allow line each. */
static void wrong_verb(abx_exchange *x, const char *path, abx_e2b_plane plane)
{
    const char *from = NULL;
    size_t n = 0;
    abx__lines l;
    abx__lines_init(&l, x, true);
    for (size_t i = 0; i < ABX_E2B_METHOD_COUNT; i++)
        if (is_on(plane, i) && fits(abx__routes[i].path, path, &from, &n))
            abx__lines_add(&l, abx__routes[i].verb[0] == 'G'   ? "Allow: GET"
                               : abx__routes[i].verb[0] == 'D' ? "Allow: DELETE"
                                                               : "Allow: POST");
    abx_exchange_reply_with(x, 405, l.items, l.count, NULL, 0);
}

/* Routes that need no token: these verbs only. */
static bool is_open(const char *verb, const char *path)
{
    return (strcmp(path, "/health") == 0 && strcmp(verb, "GET") == 0) ||
           (strcmp(path, "/files") == 0 && (strcmp(verb, "GET") == 0 || strcmp(verb, "POST") == 0));
}

static bool has_token(const abx_e2b_server *s, const abx_exchange *x)
{
    const char *given = abx_exchange_header(x, "X-Access-Token");
    return given && abx_equal_secret(given, strlen(given), s->token, strlen(s->token));
}

char *abx_e2b_basic_user(const abx_exchange *x)
{
    const char *given = abx_exchange_header(x, "Authorization");
    if (!given || strncasecmp(given, "Basic ", 6) != 0)
        return NULL;
    given += 6;
    size_t len = 0;
    uint8_t *text = abx_base64_bytes(given, strlen(given), ABX_BASE64_STANDARD, &len);
    if (!text)
        return NULL;
    char *colon = memchr(text, ':', len);
    if (!colon || memchr(text, 0, len)) {
        free(text);
        return NULL;
    }
    *colon = 0;
    return (char *)text;
}

/* Does this name stand for somebody? If not, the request was answered. */
static bool user_ok(abx_e2b_server *s, abx_exchange *x, const abx__route *route, const char *user)
{
    if (*user && s->filling->has_user(s->data, user))
        return true;
    ABX_AUTO_FREE char *text = abx_format("invalid username: '%s'", user);
    const char *type = abx_exchange_header(x, "Content-Type");
    if (!route || !type || !abx_has_prefix(type, "application/connect+")) {
        abx__reply_unary_error(x, ABX_E2B_CODE_UNAUTHENTICATED, text);
        return false;
    }
    abx_e2b_call c = {.server = s,
                      .x = x,
                      .is_stream = true,
                      .live = true,
                      .route = route,
                      .codec = strstr(type, "proto") ? ABX_E2B_PROTO : ABX_E2B_JSON};
    abx__fail_text(&c, ABX_E2B_CODE_UNAUTHENTICATED, text);
    return false;
}

void abx_e2b_server_handle(abx_e2b_server *s, abx_exchange *x, abx_e2b_plane plane)
{
    const char *verb = abx_exchange_method(x);
    const char *path = abx_exchange_path(x);
    if (strcmp(verb, "OPTIONS") == 0 && abx_exchange_header(x, "Origin") &&
        abx_exchange_header(x, "Access-Control-Request-Method")) {
        preflight(x);
        return;
    }
    if (s->token && plane != ABX_E2B_PLANE_CODE && !is_open(verb, path) && !has_token(s, x)) {
        abx__reply_status(x, 401, UNAUTHORIZED);
        return;
    }
    const abx__route *found = NULL;
    bool path_known = false;
    const char *from = NULL;
    size_t segment_len = 0;
    for (size_t i = 0; i < ABX_E2B_METHOD_COUNT && !found; i++) {
        if (!is_on(plane, i) || !fits(abx__routes[i].path, path, &from, &segment_len))
            continue;
        path_known = true;
        if (strcmp(abx__routes[i].verb, verb) == 0)
            found = &abx__routes[i];
    }
    ABX_AUTO_FREE char *user = plane == ABX_E2B_PLANE_CODE ? NULL : abx_e2b_basic_user(x);
    if (user && !user_ok(s, x, found, user))
        return;
    if (!path_known) {
        not_found(x);
        return;
    }
    if (!found) {
        wrong_verb(x, path, plane);
        return;
    }
    abx_e2b_method m = (abx_e2b_method)(found - abx__routes);
    if (plane == ABX_E2B_PLANE_CODE && m == ABX_E2B_M_EXECUTE && s->token && !has_token(s, x)) {
        abx__reply_status(x, 401, UNAUTHORIZED);
        return;
    }
    if (m == ABX_E2B_M_FILES_GET)
        abx__get_start(s, x);
    else if (m == ABX_E2B_M_FILES_PUT)
        abx__put_start(s, x);
    else if (m == ABX_E2B_M_ABX_TUNNEL)
        abx__tunnel_start(s, x);
    else
        abx__call_start(s, x, plane, m, ABX_TAKE(user),
                        segment_len > 0 ? abx_percent_decode(from, segment_len, &segment_len)
                                        : NULL);
}

static void on_request(abx_exchange *x, void *data)
{
    abx_e2b_server_handle(data, x, ABX_E2B_PLANE_ALL);
}

int abx_e2b_server_open(const abx_e2b_server_options *options, abx_e2b_server **out,
                        abx_error **err)
{
    abx_e2b_server *s = ABX_NEW(abx_e2b_server);
    s->loop = options->loop;
    s->token = abx_strdup(options->token);
    s->default_user = abx_strdup(options->default_user ? options->default_user : "user");
    s->filling = options->filling;
    s->data = options->data;
    s->log = options->log;
    s->used_ms = uv_now(s->loop);
    abx_buf_init(&s->out, (size_t)256 * 1024 * 1024);
    abx_buf_init(&s->scratch, ABX__MAX_MESSAGE);
    s->seats.prev = s->seats.next = &s->seats;
    if (options->guest) {
        *out = s;
        return 0;
    }
    abx_http_server_options http = {.max_connections =
                                        options->max_connections ? options->max_connections : 1024,
                                    .idle_timeout_ms = ABX_FOREVER,
                                    .log = options->log};
    if (abx_http_server_open(s->loop, &http, on_request, s, &s->http, err) < 0) {
        free(s->token);
        free(s->default_user);
        free(s);
        return -1;
    }
    *out = s;
    return 0;
}

int abx_e2b_server_listen_fd(abx_e2b_server *s, int fd, int backlog, abx_error **err)
{
    return abx_http_server_listen_fd(s->http, fd, backlog, err);
}

int abx_e2b_server_listen_tcp(abx_e2b_server *s, const char *ip, int port, int *bound_port,
                              abx_error **err)
{
    return abx_http_server_listen_tcp(s->http, ip, port, bound_port, err);
}

int abx_e2b_server_adopt(abx_e2b_server *s, int fd, void (*on_gone)(void *data), void *data,
                         abx_error **err)
{
    return abx_http_server_adopt(s->http, fd, on_gone, data, err);
}

void abx__use_begin(abx_e2b_server *s)
{
    s->in_use++;
}

void abx__use_end(abx_e2b_server *s)
{
    s->in_use--;
    s->used_ms = uv_now(s->loop);
}

uint64_t abx_e2b_server_idle_ms(const abx_e2b_server *s)
{
    return s->in_use > 0 ? 0 : uv_now(s->loop) - s->used_ms;
}

void abx__seat_take(abx_e2b_server *s, abx__seat *seat, abx_exchange *x)
{
    seat->server = s;
    seat->x = x;
    seat->prev = s->seats.prev;
    seat->next = &s->seats;
    seat->prev->next = seat->next->prev = seat;
    s->held++;
}

void abx__seat_leave(abx__seat *seat)
{
    seat->prev->next = seat->next;
    seat->next->prev = seat->prev;
    seat->prev = seat->next = seat;
    seat->x = NULL;
}

void abx__seat_free(abx__seat *seat)
{
    seat->server->held--;
    abx__server_released(seat->server);
}

void abx_e2b_server_reset(abx_e2b_server *s)
{
    for (const abx__seat *seat = s->seats.next; seat != &s->seats; seat = seat->next)
        if (!seat->answered)
            abx_exchange_abort(seat->x);
}

void abx__server_released(abx_e2b_server *s)
{
    if (!s->http_gone || s->handles > 0 || s->held > 0)
        return;
    void (*closed)(void *data) = s->closed;
    void *data = s->closed_data;
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    free(s->default_user);
    abx_buf_clear(&s->out);
    abx_buf_clear(&s->scratch);
    free(s);
    if (closed)
        closed(data);
}

static void http_closed(void *data)
{
    abx_e2b_server *s = data;
    s->http_gone = true;
    abx__server_released(s);
}

void abx_e2b_server_close(abx_e2b_server *s, void (*cb)(void *data), void *data)
{
    s->closed = cb;
    s->closed_data = data;
    if (s->http) {
        abx_http_server_close(s->http, http_closed, s);
        return;
    }
    abx_e2b_server_reset(s);
    http_closed(s);
}
