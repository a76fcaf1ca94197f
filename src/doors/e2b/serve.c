/* The life of the door: lock, key, listener and file at its start; idle time; drain and close. */
#include "doors/e2b/serve.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/give_back.h"
#include "base/mem.h"
#include "doors/e2b/authority.h"
#include "doors/e2b/control.h"
#include "doors/e2b/life.h"
#include "doors/e2b/secure.h"
#include "doors/e2b/snapshots.h"

#define ADDRESS         "127.0.0.1"
#define LOOK_MS         500 /* between two looks whether it is idle, or drained */
#define SAMPLE_MS       5000
#define DRAIN_MS        5000
#define MAX_CONNECTIONS 20000
#define MAX_HEAD        ((size_t)256 * 1024)

typedef struct e2b_life {
    abx_serving *serving;
    uint64_t idle_ms;
    uint64_t used_ms;    /* monotonic: the last time that something was asked */
    uint64_t sampled_ms; /* monotonic */
    uint64_t drain_ms;   /* monotonic: when draining ends; 0: not draining */
    abx_give_back memory;
    uv_timer_t timer;
    bool timer_open, told, is_closing;
    void (*on_end)(void *data);
    void *data;
    int closing; /* what is still open */
    void (*closed)(void *data);
    void *closed_data;
} e2b_life;

void e2b_life_touch(e2b_door *door)
{
    door->life->used_ms = abx_now_mono_ms();
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
static void free_door(e2b_door *door)
{
    e2b_life *life = door->life;
    void (*closed)(void *) = life->closed;
    void *data = life->closed_data;
    abx_serving_end(life->serving);
    yyjson_doc_free(door->snapshots);
    yyjson_doc_free(door->defaults);
    e2b_secure_free(door);
    free(door->provider);
    free(door->home);
    free(life);
    explicit_bzero(door, sizeof *door);
    free(door);
    if (closed)
        closed(data);
}

void e2b_life_part_gone(e2b_door *door)
{
    if (door->life->is_closing && door->life->closing == 0 && door->box_structs == 0 &&
        !door->questions)
        free_door(door);
}

static void part_closed(e2b_door *door)
{
    door->life->closing--;
    e2b_life_part_gone(door);
}

static void on_handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void on_http_closed(void *data)
{
    part_closed(data);
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
    e2b_life *life = door->life;
    life->closed = cb;
    life->closed_data = cb_data;
    life->closing = 1;
    life->is_closing = true;
    let_boxes_go(door);
    e2b_asks_cancel(door);
    if (door->http) {
        life->closing++;
        abx_http_server_close(door->http, on_http_closed, door);
    }
    if (life->timer_open) {
        life->closing += 2;
        uv_close((uv_handle_t *)&life->timer, on_handle_closed);
        e2b_expiry_close(door, on_handle_closed);
    }
    part_closed(door);
}

static void tell_end(e2b_life *life)
{
    if (!life->told)
        life->on_end(life->data);
    life->told = true;
}

static void drain(void *data)
{
    e2b_door *door = data;
    door->draining = true;
    abx_http_server_stop(door->http);
    if (door->life->drain_ms == 0)
        door->life->drain_ms = abx_now_mono_ms() + DRAIN_MS;
}

static void on_look(uv_timer_t *timer)
{
    e2b_door *door = timer->data;
    e2b_life *life = door->life;
    uint64_t now = abx_now_mono_ms();
    (void)abx_give_back_tick(&life->memory, now);
    bool busy = abx_http_server_exchanges(door->http) > 0 || door->holds > 0;
    if (life->drain_ms > 0) {
        if (!busy || now >= life->drain_ms)
            tell_end(life);
        return;
    }
    if (now - life->sampled_ms >= SAMPLE_MS) {
        life->sampled_ms = now;
        e2b_samples_tick(door);
        e2b_secure_tick(door);
    }
    if (busy)
        life->used_ms = now;
    else if (life->idle_ms != ABX_FOREVER && now - life->used_ms >= life->idle_ms)
        tell_end(life);
}

/* --- its start ---------------------------------------------------------------------------------------------------- */
/* The port that was asked for; else the one of last time, so that a shell's variables stay right; else any. */
static int listen_somewhere(e2b_door *door, int asked, int last, abx_error **err)
{
    if (asked == 0 && last > 0 &&
        abx_http_server_listen_tcp(door->http, ADDRESS, last, &door->port, NULL) == 0)
        return 0;
    abx_error *why = NULL;
    if (abx_http_server_listen_tcp(door->http, ADDRESS, asked, &door->port, &why) == 0)
        return 0;
    if (why->sys_errno != EADDRINUSE)
        return abx_error_take(err, why);
    abx_error_free(why);
    abx_fail(err, ABX_ERR_CONFLICT, "port %d is in use by another program", asked);
    return abx_hint(err, "choose another one, or leave --port out: any free one is taken");
}

static int publish(e2b_door *door, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_FREE char *url = abx_format("http://%s:%d", ADDRESS, door->port);
    abx_mut_str(d, root, "protocol", "e2b");
    abx_mut_str(d, root, "url", url);
    abx_mut_int(d, root, "port", door->port);
    abx_mut_str(d, root, "provider", door->provider);
    abx_mut_str(d, root, "key", door->key);
    e2b_secure_publish(door, d, root);
    return abx_serving_publish(door->life->serving, d, err);
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
    e2b_life *life = door->life;
    ABX_CHECK(uv_timer_init(door->loop, &life->timer) == 0);
    life->timer.data = door;
    life->timer_open = true;
    uv_timer_start(&life->timer, on_look, LOOK_MS, LOOK_MS);
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
    door->life = ABX_NEW(e2b_life);
    *door->life = (e2b_life){.serving = serving,
                             .idle_ms = o->idle_ms,
                             .used_ms = abx_now_mono_ms(),
                             .on_end = o->on_end,
                             .data = o->data};
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
