/* The life of the door: lock, key, listener and file at its start; idle time; drain and close. */
#include "doors/e2b/serve.h"

#include <string.h>

#include "base/mem.h"
#include "doors/e2b/authority.h"
#include "doors/e2b/control.h"
#include "doors/e2b/life.h"
#include "doors/e2b/secure.h"
#include "doors/e2b/snapshots.h"
#include "host/serving_life.h"

#define SAMPLE_MS       5000
#define MAX_CONNECTIONS 20000
#define MAX_HEAD        ((size_t)256 * 1024)

void e2b_life_touch(e2b_door *door)
{
    abx_serving_life_touch(door->life);
}

void e2b_door_hold(e2b_door *door)
{
    door->holds++;
}

void e2b_door_release(e2b_door *door)
{
    ABX_CHECK(door->holds > 0);
    door->holds--;
    e2b_life_touch(door);
}

/* --- its end ----------------------------------------------------------------------------------------------------- */
static void free_door(void *data)
{
    e2b_door *door = data;
    yyjson_doc_free(door->snapshots);
    yyjson_doc_free(door->defaults);
    e2b_secure_free(door);
    free(door->provider);
    free(door->home);
    explicit_bzero(door, sizeof *door);
    free(door);
}

static bool parts_gone(void *data)
{
    const e2b_door *door = data;
    return door->box_structs == 0 && !door->questions;
}

void e2b_life_part_gone(e2b_door *door)
{
    abx_serving_life_check(door->life);
}

static void on_expiry_closed(uv_handle_t *handle)
{
    const e2b_door *door = handle->data;
    abx_serving_life_part_closed(door->life);
}

/* The sandboxes live on: only what we hold of them goes. */
static void let_boxes_go(e2b_door *door)
{
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        while (door->boxes[i])
            e2b_box_let_go(door->boxes[i]);
}

static void close_door(void *data, void (*cb)(void *data), void *cb_data)
{
    e2b_door *door = data;
    let_boxes_go(door);
    e2b_asks_cancel(door);
    if (door->expiry_open) {
        abx_serving_life_part(door->life);
        e2b_expiry_close(door, on_expiry_closed);
    }
    abx_serving_life_close(door->life, door->http, cb, cb_data);
}

static void drain(void *data)
{
    e2b_door *door = data;
    door->draining = true;
    abx_serving_life_drain(door->life, door->http);
}

/* --- looks -------------------------------------------------------------------------------------------------------- */
static bool is_busy(void *data)
{
    const e2b_door *door = data;
    return abx_http_server_exchanges(door->http) > 0 || door->holds > 0;
}

static void on_look(void *data, uint64_t now)
{
    e2b_door *door = data;
    if (door->draining || now - door->sampled_ms < SAMPLE_MS)
        return;
    door->sampled_ms = now;
    e2b_samples_tick(door);
    e2b_secure_tick(door);
}

static const abx_serving_hooks HOOKS = {
    .busy = is_busy, .tick = on_look, .gone = parts_gone, .free = free_door};

/* --- its start ---------------------------------------------------------------------------------------------------- */
/* The port that was asked for; else the one of last time, so that a shell's variables stay right; else any. */
static int listen_somewhere(e2b_door *door, int asked, int last, abx_error **err)
{
    if (asked == 0 && last > 0 &&
        abx_http_server_listen_tcp(door->http, ABX_SERVING_ADDRESS, last, &door->port, NULL) == 0)
        return 0;
    return abx_serving_listen(door->http, asked, &door->port, err);
}

static int publish(e2b_door *door, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_FREE char *url = abx_format("http://%s:%d", ABX_SERVING_ADDRESS, door->port);
    abx_mut_str(d, root, "protocol", "e2b");
    abx_mut_str(d, root, "url", url);
    abx_mut_int(d, root, "port", door->port);
    abx_mut_str(d, root, "provider", door->provider);
    abx_mut_str(d, root, "key", door->key);
    e2b_secure_publish(door, d, root);
    return abx_serving_publish(door->serving, d, err);
}

static int open_parts(e2b_door *door, const abx_serve_options *o, abx_error **err)
{
    int last[2];
    abx_http_server_options options = {
        .max_connections = MAX_CONNECTIONS, .max_head_bytes = MAX_HEAD, .log = o->log};
    if (e2b_keys_load(door, last, err) < 0 ||
        abx_http_server_open(door->loop, &options, e2b_dispatch, door, &door->http, err) < 0 ||
        listen_somewhere(door, o->port, last[0], err) < 0 ||
        (o->tls_domain && e2b_secure_open(door, o->tls_domain, o->tls_port, last[1], err) < 0))
        return -1;
    e2b_boxes_load(door);
    e2b_snapshots_load(door);
    abx_serving_life_start(door->life);
    e2b_expiry_open(door);
    e2b_expiry_arm(door);
    return e2b_keys_save(door, err) < 0 || publish(door, err) < 0 ? -1 : 0;
}

static int open_door(const abx_serve_options *o, void **out, abx_error **err)
{
    abx_serving *serving;
    int rc = abx_serving_begin(o->home, e2b_server_door.name, &serving, err);
    if (rc != 0)
        return rc;
    e2b_door *door = ABX_NEW(e2b_door);
    door->loop = o->loop;
    door->host = o->host;
    door->home = abx_strdup(o->home);
    door->provider = abx_strdup(o->provider);
    door->defaults = abx_json_copy(o->defaults);
    door->log = o->log;
    door->serving = serving;
    door->life = abx_serving_life_new(o, serving, &HOOKS, door);
    *out = door;
    if (open_parts(door, o, err) == 0)
        return 0;
    *out = NULL;
    close_door(door, NULL, NULL);
    return -1;
}

const abx_server_door e2b_server_door = {.name = "e2b",
                                         .domain = E2B_DOMAIN_DEFAULT,
                                         .open = open_door,
                                         .drain = drain,
                                         .close = close_door,
                                         .variables = e2b_variables};
