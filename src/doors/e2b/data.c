#include "doors/e2b/data_inner.h"

#include <string.h>

#include "doors/e2b/control.h"
#include "wire/base64.h"

/* --- users ------------------------------------------------------------------------------------------------- */
enum { MAX_USERS = 64 };

typedef struct known_user {
    abx_link node;
    char *name; /* "": the default one */
    char *home; /* where its relative paths begin */
} known_user;

static known_user *find_user(const e2b_data *d, const char *name)
{
    for (abx_link *n = d->users.next; n != &d->users; n = n->next) {
        known_user *u = ABX_OF(n, known_user, node);
        if (strcmp(u->name, name) == 0)
            return u;
    }
    return NULL;
}

const char *e2b_plane_home(const e2b_data *d, const char *user)
{
    const known_user *u = find_user(d, user);
    return u ? u->home : NULL;
}

static void forget_user(e2b_data *d, known_user *u)
{
    abx_link_remove(&u->node);
    d->user_count--;
    free(u->name);
    free(u->home);
    free(u);
}

static void remember_user(e2b_data *d, const char *name, const char *home)
{
    if (find_user(d, name))
        return;
    if (d->user_count == MAX_USERS)
        forget_user(d, ABX_OF(d->users.next, known_user, node));
    known_user *u = ABX_NEW(known_user);
    u->name = abx_strdup(name);
    u->home = home ? abx_strdup(home) : abx_format("/home/%s", *name ? name : "user");
    if (!home && strcmp(name, "root") == 0) {
        free(u->home);
        u->home = abx_strdup("/root");
    }
    abx_link_append(&d->users, &u->node);
    d->user_count++;
}

void e2b_plane_know(e2b_data *d, const char *user, const char *home)
{
    remember_user(d, user, home);
}

/* --- the filling ------------------------------------------------------------------------------------------- */
static bool has_user(void *data, const char *name)
{
    return !*name || e2b_plane_home(data, name) != NULL;
}

/* "/home/user" + "a/../b": "/home/user/b". */
static char *join(const char *home, const char *path)
{
    ABX_AUTO_BUF out = ABX_BUF((size_t)64 * 1024);
    ABX_AUTO_FREE char *full = abx_format("%s/%s", home, path);
    for (const char *at = full; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            while (out.len > 0 && out.data[out.len - 1] != '/')
                out.len--;
            out.len -= out.len > 0;
        } else if (n > 0 && !(n == 1 && at[0] == '.')) {
            if (abx_buf_add_byte(&out, '/') < 0 || abx_buf_add(&out, at, n) < 0)
                return NULL;
        }
        at += n + (at[n] == '/');
    }
    return out.len == 0 ? abx_strdup("/") : abx_strndup((const char *)out.data, out.len);
}

static char *resolve(void *data, const char *path, const char *user, abx_e2b_fault *f)
{
    if (*path == '/')
        return abx_strdup(path);
    const char *home = e2b_plane_home(data, user);
    char *full = NULL;
    if (*path == '~' && path[1] && path[1] != '/')
        abx_e2b_fault_set(f, 400,
                          "error resolving path: failed to expand path '' for user '%s': cannot "
                          "expand user-specific home dir",
                          *user ? user : "user");
    else if (!home)
        abx_e2b_fault_set(f, 400, "error resolving path: the home of user '%s' is not known",
                          *user ? user : "user");
    else if (!(full = join(home, *path == '~' ? path + 1 : path)))
        abx_e2b_fault_set(f, 400, "error resolving path: it is too long");
    return full;
}

typedef void (*rpc)(e2b_data *d, abx_e2b_call *c, yyjson_val *q);
static const rpc RPCS[ABX_E2B_METHOD_COUNT] = {
    [ABX_E2B_M_LIST] = e2b_rpc_list,
    [ABX_E2B_M_START] = e2b_rpc_start,
    [ABX_E2B_M_CONNECT] = e2b_rpc_connect,
    [ABX_E2B_M_UPDATE] = e2b_rpc_update,
    [ABX_E2B_M_STREAM_INPUT] = e2b_rpc_stream_input,
    [ABX_E2B_M_SEND_INPUT] = e2b_rpc_send_input,
    [ABX_E2B_M_SEND_SIGNAL] = e2b_rpc_send_signal,
    [ABX_E2B_M_CLOSE_STDIN] = e2b_rpc_close_stdin,
    [ABX_E2B_M_STAT] = e2b_rpc_stat,
    [ABX_E2B_M_LIST_DIR] = e2b_rpc_list_dir,
    [ABX_E2B_M_MAKE_DIR] = e2b_rpc_make_dir,
    [ABX_E2B_M_MOVE] = e2b_rpc_move,
    [ABX_E2B_M_REMOVE] = e2b_rpc_remove,
    [ABX_E2B_M_WATCH_DIR] = e2b_rpc_watch_dir,
    [ABX_E2B_M_CREATE_WATCHER] = e2b_rpc_create_watcher,
    [ABX_E2B_M_GET_WATCHER_EVENTS] = e2b_rpc_get_watcher_events,
    [ABX_E2B_M_REMOVE_WATCHER] = e2b_rpc_remove_watcher,
    [ABX_E2B_M_HEALTH] = e2b_rpc_health,
    [ABX_E2B_M_METRICS] = e2b_rpc_metrics,
    [ABX_E2B_M_ENVS] = e2b_rpc_envs,
    [ABX_E2B_M_COMPOSE] = e2b_rpc_compose,
    [ABX_E2B_M_EXECUTE] = e2b_rpc_execute,
    [ABX_E2B_M_CONTEXT_LIST] = e2b_rpc_context_list,
    [ABX_E2B_M_CONTEXT_NEW] = e2b_rpc_context_new,
    [ABX_E2B_M_CONTEXT_RESTART] = e2b_rpc_context_restart,
    [ABX_E2B_M_CONTEXT_REMOVE] = e2b_rpc_context_remove,
};

static void on_call(void *data, abx_e2b_call *c, yyjson_val *request)
{
    RPCS[abx_e2b_call_method(c)](data, c, request);
}

const abx_e2b_filling e2b_filling = {
    .has_user = has_user,
    .call = on_call,
    .resolve = resolve,
    .get_open = e2b_get_open,
    .get_send = e2b_get_send,
    .get_more = e2b_get_more,
    .get_close = e2b_get_close,
    .put_open = e2b_put_open,
    .put_write = e2b_put_write,
    .put_close = e2b_put_close,
};

/* --- requests that wait until their user is known ---------------------------------------------------------------- */
typedef struct arrival {
    e2b_data *data;
    abx_exchange *x; /* NULL: its client is gone */
    abx_e2b_plane plane;
    char *user;
} arrival;

static void arrival_gone(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    ((arrival *)data)->x = NULL;
}

static void arrival_free(arrival *a)
{
    e2b_data *d = a->data;
    free(a->user);
    free(a);
    e2b_plane_release(d);
}

static void looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    arrival *a = data;
    abx_exchange_handlers none = {0};
    if (a->x)
        abx_exchange_handle(a->x, &none, NULL);
    if (a->x && box->state == E2B_RUNNING)
        abx_e2b_server_handle(a->data->server, a->x, a->plane);
    else if (a->x)
        e2b_data_not_found(a->x, box->id);
    arrival_free(a);
}

static void on_home(void *data, yyjson_val *file, const abx_error *err)
{
    arrival *a = data;
    e2b_data *d = a->data;
    const char *path = abx_json_str(file, "path", NULL);
    bool unknown = err && *a->user &&
                   (err->id == ABX_ERR_USAGE || err->id == ABX_ERR_START_FAILED) &&
                   strstr(err->message, "user");
    if (!err && path && *path == '/')
        remember_user(d, a->user, path);
    else if (!unknown && !e2b_is_gone(err))
        remember_user(d, a->user, NULL);
    if (a->x) {
        abx_exchange_handlers none = {0};
        abx_exchange_handle(a->x, &none, NULL);
        abx_exchange_resume(a->x);
    }
    if (d->closing || !a->x) {
        if (a->x)
            abx_exchange_abort(a->x);
        arrival_free(a);
    } else if (e2b_is_gone(err)) {
        abx_exchange_handlers on = {.on_close = arrival_gone};
        abx_exchange_handle(a->x, &on, a);
        e2b_box_look(d->box, looked, a);
    } else {
        abx_e2b_server_handle(d->server, a->x, a->plane);
        arrival_free(a);
    }
}

/* The user that a request names and the server will ask about, or whose home it will need; NULL: none. Owned. */
static char *user_of(abx_exchange *x)
{
    char *basic = abx_e2b_basic_user(x);
    if (basic && *basic)
        return basic;
    free(basic);
    if (strcmp(abx_exchange_path(x), "/files") != 0)
        return strcmp(abx_exchange_path(x), "/files/compose") == 0 ? abx_strdup("") : NULL;
    char *user = abx_exchange_query_get(x, "username");
    if (user && *user)
        return user;
    free(user);
    ABX_AUTO_FREE char *path = abx_exchange_query_get(x, "path");
    return path && *path == '/' ? NULL : abx_strdup("");
}

static void handle(e2b_data *d, abx_exchange *x, abx_e2b_plane plane)
{
    char *user = plane == ABX_E2B_PLANE_ENVD ? user_of(x) : NULL;
    if (!user || find_user(d, user)) {
        free(user);
        abx_e2b_server_handle(d->server, x, plane);
        return;
    }
    arrival *a = ABX_NEW(arrival);
    a->data = d;
    a->x = x;
    a->plane = plane;
    a->user = user;
    e2b_plane_hold(d);
    abx_exchange_handlers on = {.on_close = arrival_gone};
    abx_exchange_handle(x, &on, a);
    abx_exchange_pause(x);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "path", ".");
    if (*user)
        abx_mut_str(params, root, "user", user);
    e2b_run(d, ABX_OP_FS_STAT, params, on_home, a);
}

/* --- requests ------------------------------------------------------------------------------------------------ */
static bool is_reserved(const char *path)
{
    static const char *const paths[] = {"/init",     "/freeze", "/unfreeze", "/collapse",
                                        "/fsfreeze", "/fsthaw", "/upgrade"};
    for (size_t i = 0; i < ABX_COUNT(paths); i++)
        if (strcmp(paths[i], path) == 0)
            return true;
    return false;
}

static void refuse_reserved(abx_exchange *x)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "message", "this route is reserved for the E2B control plane");
    abx_mut_str(d, root, "path", abx_exchange_path(x));
    abx_mut_int(d, root, "code", 404);
    e2b_answer(x, 404, root, NULL, 0);
}

void e2b_data_handle(e2b_box *box, int port, abx_exchange *x)
{
    e2b_data *d = box->data;
    if (d->closing)
        e2b_data_not_found(x, box->id);
    else if (port == ABX_E2B_ENVD_PORT && is_reserved(abx_exchange_path(x)))
        refuse_reserved(x);
    else if (port == ABX_E2B_ENVD_PORT)
        handle(d, x, ABX_E2B_PLANE_ENVD);
    else if (port == ABX_E2B_CODE_PORT)
        handle(d, x, ABX_E2B_PLANE_CODE);
    else
        e2b_port_handle(d, port, x);
}

/* --- life ---------------------------------------------------------------------------------------------------- */
int e2b_data_open(e2b_box *box, abx_error **err)
{
    e2b_data *d = ABX_NEW(e2b_data);
    d->box = box;
    d->door = box->door;
    d->next_pid = 1000000;
    abx_link_init(&d->procs);
    abx_link_init(&d->watchers);
    abx_link_init(&d->ports);
    abx_link_init(&d->runs);
    abx_link_init(&d->users);
    abx_link_init(&d->visits);
    abx_e2b_server_options options = {.loop = box->door->loop,
                                      .token = box->token,
                                      .default_user = "",
                                      .filling = &e2b_filling,
                                      .data = d,
                                      .log = box->door->log,
                                      .guest = true};
    if (abx_e2b_server_open(&options, &d->server, err) < 0) {
        free(d);
        return -1;
    }
    d->server_open = true;
    box->data = d;
    return 0;
}

void e2b_data_break(e2b_box *box)
{
    if (!box->data)
        return;
    e2b_health_gone(box->data);
    abx_e2b_server_reset(box->data->server);
    e2b_ports_reset(box->data);
}

void e2b_plane_hold(e2b_data *d)
{
    d->holds++;
}

static void try_end(e2b_data *d)
{
    if (!d->closing || d->server_open || d->holds > 0)
        return;
    while (d->users.next != &d->users)
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        forget_user(d, ABX_OF(d->users.next, known_user, node));
    void (*closed)(void *data) = d->closed;
    void *data = d->closed_data;
    free(d);
    closed(data);
}

void e2b_plane_release(e2b_data *d)
{
    d->holds--;
    try_end(d);
}

static void http_closed(void *data)
{
    e2b_plane_release(data);
}

static void server_closed(void *data)
{
    e2b_data *d = data;
    d->server_open = false;
    try_end(d);
}

void e2b_data_close(e2b_box *box, void (*cb)(void *data), void *data)
{
    e2b_data *d = ABX_TAKE(box->data);
    if (!d) {
        cb(data);
        return;
    }
    d->closing = true;
    e2b_health_gone(d);
    d->closed = cb;
    d->closed_data = data;
    e2b_plane_hold(d);
    e2b_ports_reset(d);
    e2b_watchers_close(d);
    e2b_procs_close(d);
    e2b_runs_cancel(d);
    if (d->http) {
        e2b_plane_hold(d);
        abx_http_close(d->http, http_closed, d);
    }
    abx_e2b_server_close(d->server, server_closed, d);
    e2b_plane_release(d);
}
