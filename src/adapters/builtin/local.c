/* The provider `local`: sandboxes by src/local, their processes and files by src/e2b. */
#include "adapters/builtin/local.h"

#include <string.h>

#include "adapters/builtin/builtin.h"
#include "base/mem.h"

/* The same on every machine. */
static yyjson_doc *declared(void)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_local_features(d, root);
    return abx_json_freeze(d);
}

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    local_provider *p = ABX_NEW(local_provider);
    p->base.adapter = &abx_adapter_local;
    p->base.flow = true;
    p->loop = connection->loop;
    p->log = connection->log;
    p->may_fork = connection->may_fork;
    p->id_range = strcmp(abx_json_str(connection->options, "ids", "single"), "range") == 0;
    p->disk_in_memory = strcmp(abx_json_str(connection->options, "disk", "folder"), "memory") == 0;
    abx_local_options options = {.loop = connection->loop,
                                 .home = connection->home,
                                 .may_fork = connection->may_fork,
                                 .starter = connection->self,
                                 .keeper = connection->keeper,
                                 .log = connection->log};
    if (abx_local_open(&options, &p->local, err) < 0) {
        free(p);
        return -1;
    }
    p->features = declared();
    p->base.features = yyjson_doc_get_root(p->features);
    *out = &p->base;
    return 0;
}

static int start(abx_provider *provider, abx_call *call, abx_error **err)
{
    local_provider *p = (local_provider *)provider;
    switch (abx_call_op(call)->id) {
    case ABX_OP_SANDBOX_CREATE:
    case ABX_OP_SANDBOX_FORK: return local_create(p, call, err);
    case ABX_OP_SANDBOX_SNAPSHOT_CREATE:
    case ABX_OP_SANDBOX_SNAPSHOT_LIST:
    case ABX_OP_SANDBOX_SNAPSHOT_REMOVE: return local_snapshots(p, call, err);
    case ABX_OP_SANDBOX_INFO:
    case ABX_OP_SANDBOX_KILL:
    case ABX_OP_SANDBOX_CONNECT:
    case ABX_OP_SANDBOX_LIST:
    case ABX_OP_SANDBOX_SET_TIMEOUT:
    case ABX_OP_SANDBOX_PAUSE:
    case ABX_OP_SANDBOX_METRICS:
    case ABX_OP_SANDBOX_PORTS:
    case ABX_OP_PROVIDER_GC:
    case ABX_OP_PROVIDER_DOCTOR: return local_sandbox(p, call, err);
    case ABX_OP_SANDBOX_TEMPLATE_LIST:
    case ABX_OP_SANDBOX_TEMPLATE_INFO:
    case ABX_OP_SANDBOX_TEMPLATE_ADD:
    case ABX_OP_SANDBOX_TEMPLATE_REMOVE: return local_templates(p, call, err);
    default: break;
    }
    local_box *box = local_box_get(p, abx_json_str(abx_call_params(call), "sandboxId", ""), err);
    return box ? abx_envd_client_start(box->client, call, err) : -1;
}

static void on_box_closed(void *data)
{
    local_provider *p = data;
    if (--p->closing > 0)
        return;
    void (*cb)(void *) = p->close_cb;
    void *cb_data = p->close_data;
    abx_local_close(p->local);
    yyjson_doc_free(p->features);
    free(p);
    if (cb)
        cb(cb_data);
}

static void close_provider(abx_provider *provider, void (*cb)(void *data), void *data)
{
    local_provider *p = (local_provider *)provider;
    p->close_cb = cb;
    p->close_data = data;
    p->closing = 1;
    while (p->boxes) {
        p->closing++;
        local_box_close(p->boxes, on_box_closed, p);
    }
    on_box_closed(p);
}

void local_end(abx_call *call, yyjson_doc *result)
{
    yyjson_mut_doc *d = yyjson_doc_mut_copy(result, NULL);
    ABX_CHECK(d != NULL);
    yyjson_doc_free(result);
    abx_call_end(call, d);
}

static char *endpoint(const abx_connection *connection)
{
    (void)connection;
    return abx_strdup("this machine");
}

static const char *const ids[] = {"local", NULL};

const abx_adapter abx_adapter_local = {
    .kind = "builtin",
    .builtin_ids = ids,
    .declared = declared,
    .title = "This machine",
    .ties = true,
    .endpoint = endpoint,
    .open = open_provider,
    .start = start,
    .close = close_provider,
};
