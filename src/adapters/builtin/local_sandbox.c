/* sandbox.info, list, kill, connect, pause, set_timeout and the upkeep on `local`. */
#include <arpa/inet.h>
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/clock.h"
#include "base/mem.h"

static bool has_labels(yyjson_mut_val *box, yyjson_val *wanted)
{
    yyjson_mut_val *have = yyjson_mut_obj_get(box, "metadata");
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(wanted, i, n, key, value)
    {
        const char *text = yyjson_mut_get_str(yyjson_mut_obj_get(have, yyjson_get_str(key)));
        if (!text || strcmp(text, yyjson_get_str(value)) != 0)
            return false;
    }
    return true;
}

static int list(local_provider *p, abx_call *call, abx_error **err)
{
    yyjson_val *wanted = abx_json_get(abx_call_params(call), "metadata");
    ABX_AUTO_JSON all = abx_local_list(p->local, err);
    if (!all)
        return -1;
    yyjson_mut_doc *d = yyjson_doc_mut_copy(all, NULL);
    yyjson_mut_val *boxes = yyjson_mut_obj_get(yyjson_mut_doc_get_root(d), "sandboxes");
    if (wanted) {
        yyjson_mut_arr_iter it = yyjson_mut_arr_iter_with(boxes);
        yyjson_mut_val *box;
        while ((box = yyjson_mut_arr_iter_next(&it)))
            if (!has_labels(box, wanted))
                yyjson_mut_arr_iter_remove(&it);
    }
    static const abx_call_backend at_once = {0};
    abx_call_accept(call, &at_once, NULL);
    abx_call_end(call, d);
    return 0;
}

/* --- kill ------------------------------------------------------------------------------------------------ */
typedef struct pending {
    local_wait wait; /* first */
    local_provider *p;
    char *id;
    abx_local_killing *killing; /* of a kill, until it is over */
} pending;

static void free_pending(local_wait *w)
{
    pending *k = (pending *)w;
    free(k->id);
    free(k);
}

static pending *wait_for(local_provider *p, const char *id)
{
    pending *w = ABX_NEW(pending);
    w->wait.free = free_pending;
    w->p = p;
    w->id = abx_strdup(id);
    return w;
}

/* Many files may be left to remove. All else ends by itself soon. */
static void leave_rest(local_wait *w)
{
    pending *k = (pending *)w;
    if (k->killing)
        abx_local_kill_leave(k->killing);
}

static void on_killed(void *data, const abx_error *err)
{
    pending *w = data;
    w->killing = NULL;
    local_wait_end(&w->wait, NULL, err);
}

/* Its client ends, with the calls that run there and its descriptors. */
static void forget(local_provider *p, const char *id)
{
    local_box *box = local_box_find(p, id);
    if (!box)
        return;
    abx_envd_client_gone(box->client);
    local_box_close(box, NULL, NULL);
}

static int kill_sandbox(local_provider *p, abx_call *call, const char *id, abx_error **err)
{
    forget(p, id);
    pending *w = wait_for(p, id);
    w->wait.cancel = leave_rest;
    if (abx_local_kill(p->local, id, on_killed, w, &w->killing, err) < 0) {
        free_pending(&w->wait);
        return -1;
    }
    local_wait_accept(&w->wait, call);
    return 0;
}

/* --- time limit, pause and resume: control requests to its envd --------------------------------------------- */
static void end_timeout(pending *w, yyjson_val *reply)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    int64_t at = abx_json_int(reply, "expiresAtMs", 0);
    char text[ABX_RFC3339_SIZE];
    abx_format_rfc3339(at, text);
    abx_mut_str(d, root, "expiresAt", at > 0 ? text : NULL);
    abx_call_end(w->wait.call, d);
}

static void end_pause(pending *w, yyjson_val *reply)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "paused", !abx_json_bool(reply, "wasPaused", false));
    abx_call_end(w->wait.call, d);
}

/* The list comes from the inside: what does not fit is dropped. */
static void end_ports(pending *w, yyjson_val *reply)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "ports");
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(abx_json_get(reply, "ports"), i, n, item)
    {
        int64_t port = abx_json_int(item, "port", 0);
        const char *address = abx_json_str(item, "address", NULL);
        unsigned char bytes[16];
        if (port < 1 || port > 65535 || !address ||
            (inet_pton(AF_INET, address, bytes) != 1 && inet_pton(AF_INET6, address, bytes) != 1))
            continue;
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_int(d, o, "port", port);
        abx_mut_str(d, o, "address", address);
    }
    abx_call_end(w->wait.call, d);
}

static void end_connect(pending *w)
{
    abx_error *why = NULL;
    yyjson_doc *info = abx_local_info(w->p->local, w->id, &why);
    if (info)
        local_end(w->wait.call, info);
    else
        abx_call_fail(w->wait.call, why);
}

/* Only members of this operation, as numbers: whatever the other end says. */
static void end_metrics(pending *w, yyjson_val *reply)
{
    static const char *const whole[] = {"cpuCount", "memTotal",  "memUsed",
                                        "diskUsed", "diskTotal", "processes"};
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    char time[ABX_RFC3339_SIZE];
    abx_format_rfc3339(abx_now_wall_ms(), time);
    abx_mut_str(d, root, "timestamp", time);
    yyjson_val *share = abx_json_get(reply, "cpuUsedPct");
    if (yyjson_is_num(share))
        (void)yyjson_mut_obj_add_real(d, root, "cpuUsedPct", yyjson_get_num(share));
    for (size_t i = 0; i < ABX_COUNT(whole); i++) {
        int64_t n = abx_json_int(reply, whole[i], -1);
        if (n >= 0)
            abx_mut_int(d, root, whole[i], n);
    }
    abx_local_add_metrics(w->p->local, w->id, d, root);
    abx_call_end(w->wait.call, d);
}

static void on_controlled(void *data, yyjson_val *reply, const abx_error *err)
{
    pending *w = data;
    if (w->wait.call && err)
        abx_call_fail(w->wait.call, abx_error_copy(err));
    else if (w->wait.call && abx_call_op(w->wait.call)->id == ABX_OP_SANDBOX_CONNECT)
        end_connect(w);
    else if (w->wait.call && abx_call_op(w->wait.call)->id == ABX_OP_SANDBOX_PAUSE)
        end_pause(w, reply);
    else if (w->wait.call && abx_call_op(w->wait.call)->id == ABX_OP_SANDBOX_METRICS)
        end_metrics(w, reply);
    else if (w->wait.call && abx_call_op(w->wait.call)->id == ABX_OP_SANDBOX_PORTS)
        end_ports(w, reply);
    else if (w->wait.call)
        end_timeout(w, reply);
    local_wait_finish(&w->wait);
}

/* timeout_ms < 0: none is sent. */
static int control(local_provider *p, abx_call *call, const char *id, const char *path,
                   int64_t timeout_ms, abx_error **err)
{
    local_box *box = local_box_get(p, id, err);
    if (!box)
        return -1;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (timeout_ms >= 0)
        abx_mut_int(d, root, "timeoutMs", timeout_ms);
    ABX_AUTO_JSON body = abx_json_freeze(d);
    pending *w = wait_for(p, id);
    if (abx_envd_client_control(box->client, path, yyjson_doc_get_root(body), on_controlled, w,
                                err) < 0) {
        free_pending(&w->wait);
        return -1;
    }
    local_wait_accept(&w->wait, call);
    return 0;
}

/* Resumes it when it is paused, else never shortens its life. */
static int connect_sandbox(local_provider *p, abx_call *call, const char *id, abx_error **err)
{
    ABX_AUTO_JSON info = abx_local_info(p->local, id, err);
    if (!info)
        return -1;
    int64_t wanted = abx_json_int(abx_call_params(call), "timeoutMs", -1);
    const char *state = abx_json_str(yyjson_doc_get_root(info), "state", "");
    if (wanted >= 0 || strcmp(state, "running") != 0)
        return control(p, call, id, "/abx/resume", wanted, err);
    return local_answer(call, ABX_TAKE(info));
}

/* One that ended by itself is known by this question: nothing of it is kept in a process that lives on. */
static int info(local_provider *p, abx_call *call, const char *id, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    yyjson_doc *found = abx_local_info(p->local, id, &why);
    if (found)
        return local_answer(call, found);
    if (why->id == ABX_ERR_SANDBOX_NOT_FOUND)
        forget(p, id);
    return abx_error_take(err, ABX_TAKE(why));
}

int local_sandbox(local_provider *p, abx_call *call, abx_error **err)
{
    yyjson_val *params = abx_call_params(call);
    const char *id = abx_json_str(params, "sandboxId", "");
    switch (abx_call_op(call)->id) {
    case ABX_OP_SANDBOX_LIST: return list(p, call, err);
    case ABX_OP_SANDBOX_INFO: return info(p, call, id, err);
    case ABX_OP_SANDBOX_KILL: return kill_sandbox(p, call, id, err);
    case ABX_OP_SANDBOX_CONNECT: return connect_sandbox(p, call, id, err);
    case ABX_OP_SANDBOX_SET_TIMEOUT:
        return control(p, call, id, "/abx/timeout", abx_json_int(params, "timeoutMs", 0), err);
    case ABX_OP_SANDBOX_METRICS: return control(p, call, id, "/abx/metrics", -1, err);
    case ABX_OP_SANDBOX_PORTS: return control(p, call, id, "/abx/ports", -1, err);
    case ABX_OP_SANDBOX_PAUSE: return control(p, call, id, "/abx/pause", -1, err);
    case ABX_OP_PROVIDER_GC:
        return local_answer(call,
                            abx_local_gc(p->local, abx_json_bool(params, "dryRun", false), err));
    case ABX_OP_PROVIDER_DOCTOR:
        return p->may_fork ? local_answer(call, abx_local_doctor(p->local, err))
                           : local_job(p, call, "doctor", params, err);
    default:
        return abx_fail(err, ABX_ERR_INTERNAL, "local does not know %s", abx_call_op(call)->method);
    }
}
