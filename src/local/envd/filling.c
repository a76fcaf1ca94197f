#include "local/envd/inner.h"

typedef void (*rpc_fn)(abx_envd *e, abx_e2b_call *c, yyjson_val *request);

static void health(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    (void)e;
    (void)q;
    abx_e2b_answer(c, NULL);
}

static const rpc_fn RPCS[ABX_E2B_METHOD_COUNT] = {
    [ABX_E2B_M_LIST] = abx__rpc_list,
    [ABX_E2B_M_START] = abx__rpc_start,
    [ABX_E2B_M_CONNECT] = abx__rpc_connect,
    [ABX_E2B_M_UPDATE] = abx__rpc_update,
    [ABX_E2B_M_STREAM_INPUT] = abx__rpc_stream_input,
    [ABX_E2B_M_SEND_INPUT] = abx__rpc_send_input,
    [ABX_E2B_M_SEND_SIGNAL] = abx__rpc_send_signal,
    [ABX_E2B_M_CLOSE_STDIN] = abx__rpc_close_stdin,
    [ABX_E2B_M_STAT] = abx__rpc_stat,
    [ABX_E2B_M_LIST_DIR] = abx__rpc_list_dir,
    [ABX_E2B_M_MAKE_DIR] = abx__rpc_make_dir,
    [ABX_E2B_M_MOVE] = abx__rpc_move,
    [ABX_E2B_M_REMOVE] = abx__rpc_remove,
    [ABX_E2B_M_WATCH_DIR] = abx__rpc_watch_dir,
    [ABX_E2B_M_CREATE_WATCHER] = abx__rpc_create_watcher,
    [ABX_E2B_M_GET_WATCHER_EVENTS] = abx__rpc_get_watcher_events,
    [ABX_E2B_M_REMOVE_WATCHER] = abx__rpc_remove_watcher,
    [ABX_E2B_M_HEALTH] = health,
    [ABX_E2B_M_METRICS] = abx__rpc_metrics,
    [ABX_E2B_M_ENVS] = abx__rpc_envs,
    [ABX_E2B_M_COMPOSE] = abx__rpc_compose,
    [ABX_E2B_M_EXECUTE] = abx__rpc_execute,
    [ABX_E2B_M_CONTEXT_LIST] = abx__rpc_context_list,
    [ABX_E2B_M_CONTEXT_NEW] = abx__rpc_context_new,
    [ABX_E2B_M_CONTEXT_RESTART] = abx__rpc_context_restart,
    [ABX_E2B_M_CONTEXT_REMOVE] = abx__rpc_context_remove,
    [ABX_E2B_M_ABX_INTERRUPT] = abx__rpc_abx_interrupt,
    [ABX_E2B_M_ABX_TIMEOUT] = abx__rpc_abx_timeout,
    [ABX_E2B_M_ABX_INFO] = abx__rpc_abx_info,
    [ABX_E2B_M_ABX_METRICS] = abx__rpc_abx_metrics,
    [ABX_E2B_M_ABX_PAUSE] = abx__rpc_abx_pause,
    [ABX_E2B_M_ABX_RESUME] = abx__rpc_abx_resume,
    [ABX_E2B_M_ABX_PORTS] = abx__rpc_abx_ports,
};

static void on_call(void *data, abx_e2b_call *c, yyjson_val *request)
{
    abx_envd *e = data;
    e->names.count = 0; /* names may have changed since the last request */
    if (abx__pause_allows(e, c, request))
        RPCS[abx_e2b_call_method(c)](e, c, request);
}

static bool has_user(void *data, const char *name)
{
    abx__user u;
    return abx__user_find(data, name, &u) == 1;
}

static char *resolve(void *data, const char *path, const char *user, abx_e2b_fault *f)
{
    const abx_envd *e = data;
    abx__user u;
    if (e->pause_state != ABX__RUNNING) {
        abx_e2b_fault_set(f, 409, ABX__IS_PAUSED, e->id);
        return NULL;
    }
    if (abx__user_find(data, user, &u) != 1) {
        abx_e2b_fault_set(f, 401, "error looking up user '%s': user: unknown user %s", user, user);
        return NULL;
    }
    char *full = abx__path_resolve(data, path, &u);
    if (!full)
        abx_e2b_fault_set(f, 400, "error resolving path: " ABX__NO_TILDE, user);
    return full;
}

const abx_e2b_filling abx__envd_filling = {
    .has_user = has_user,
    .call = on_call,
    .resolve = resolve,
    .get_open = abx__get_open,
    .get_send = abx__get_send,
    .get_more = abx__get_more,
    .get_close = abx__get_close,
    .put_open = abx__put_open,
    .put_write = abx__put_write,
    .put_close = abx__put_close,
    .tunnel = abx__tunnel_open,
};
