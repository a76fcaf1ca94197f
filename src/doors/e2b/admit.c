/* Who comes into the data plane of a sandbox: it runs, or the request may wake it up; the traffic token fits. A sandbox that the door
 * does not know (it was made elsewhere, and reached before the door began anew) is asked for only by who has its token. */
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "doors/e2b/control.h"
#include "doors/e2b/data.h"
#include "doors/e2b/life.h"

/* A request that waits. */
typedef struct waiting {
    e2b_door *door;
    abx_exchange *x; /* NULL: its client is gone */
    e2b_box *box;    /* referenced; or NULL */
    char *id;
    int port;
} waiting;

static bool equal(const char *given, const char *secret)
{
    return given && abx_equal_secret(given, strlen(given), secret, strlen(secret));
}

static bool has_traffic_token(const e2b_box *box, int port, abx_exchange *x)
{
    if (!box->traffic_token || port == ABX_E2B_ENVD_PORT)
        return true;
    const char *given = abx_exchange_header(x, "E2b-Traffic-Access-Token");
    if (equal(given, box->traffic_token))
        return true;
    e2b_data_refuse(x, 403, box->id, 0,
                    given ? "Sandbox is secured with traffic access token. Token header "
                            "'e2b-traffic-access-token' is invalid"
                          : "Sandbox is secured with traffic access token. Token header "
                            "'e2b-traffic-access-token' is missing");
    return false;
}

static void let_in(e2b_box *box, int port, abx_exchange *x)
{
    ABX_AUTO_ERROR err = NULL;
    if (box->state != E2B_RUNNING || box->ending)
        e2b_data_not_found(x, box->id);
    else if (!box->data && e2b_data_open(box, &err) < 0)
        e2b_refuse_error(x, err);
    else
        e2b_data_handle(box, port, x);
}

/* --- waiting --------------------------------------------------------------------------------------------------------- */
static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    ((waiting *)data)->x = NULL;
}

/* Keep the request, its body unread, until let_go. */
static waiting *keep(e2b_door *door, abx_exchange *x, const char *id, int port)
{
    static const abx_exchange_handlers handlers = {.on_close = on_close};
    waiting *w = ABX_NEW(waiting);
    *w = (waiting){.door = door, .x = x, .id = abx_strdup(id), .port = port};
    abx_exchange_handle(x, &handlers, w);
    abx_exchange_pause(x);
    return w;
}

/* The request, free for others; NULL: its client is gone. */
static abx_exchange *let_go(waiting *w)
{
    static const abx_exchange_handlers none = {0};
    abx_exchange *x = w->x;
    if (x) {
        abx_exchange_handle(x, &none, NULL);
        abx_exchange_resume(x);
    }
    return x;
}

static void free_waiting(waiting *w)
{
    if (w->box)
        e2b_box_unref(w->box);
    free(w->id);
    free(w);
}

/* --- a paused one that traffic wakes up ------------------------------------------------------------------------------------ */
static bool may_wake(const e2b_box *box, int port, const abx_exchange *x)
{
    if (port != ABX_E2B_ENVD_PORT || !box->token ||
        equal(abx_exchange_header(x, "X-Access-Token"), box->token))
        return true;
    ABX_AUTO_FREE char *signature = abx_exchange_query_get(x, "signature");
    return signature && strcmp(abx_exchange_path(x), "/files") == 0 &&
           e2b_signed_by(box, x, signature);
}

static void on_resumed(void *data, e2b_box *box, const abx_error *err)
{
    waiting *w = data;
    abx_exchange *x = let_go(w);
    if (x && err)
        e2b_refuse_error(x, err);
    else if (x)
        let_in(box, w->port, x);
    free_waiting(w);
}

static void wake(e2b_box *box, int port, abx_exchange *x)
{
    if (!may_wake(box, port, x)) {
        e2b_data_refuse(
            x, 403, box->id, 0,
            "This sandbox can't be resumed with the credentials provided. Its access token is "
            "missing or wrong");
        return;
    }
    waiting *w = keep(box->door, x, box->id, port);
    e2b_box_ref(box);
    w->box = box;
    e2b_resume(box, 0, false, on_resumed, w);
}

/* Somebody else may have let it go on. */
static void look_first(e2b_box *box, int port, abx_exchange *x)
{
    waiting *w = keep(box->door, x, box->id, port);
    e2b_box_ref(box);
    w->box = box;
    e2b_box_look(box, on_resumed, w);
}

static void enter(e2b_box *box, int port, abx_exchange *x)
{
    bool wakes = abx_json_bool(yyjson_doc_get_root(box->notes), "autoResume", false);
    if (!has_traffic_token(box, port, x))
        return;
    if (box->state != E2B_PAUSED || box->ending)
        let_in(box, port, x);
    else if (wakes)
        wake(box, port, x);
    else
        look_first(box, port, x);
}

/* --- one that is not known ------------------------------------------------------------------------------------------------- */
static bool has_its_token(const e2b_door *door, const char *id, const abx_exchange *x)
{
    char token[E2B_TOKEN_SIZE + 1];
    e2b_token(door, id, token);
    return equal(abx_exchange_header(x, "X-Access-Token"), token);
}

static void on_found(void *data, e2b_box *box, const abx_error *err)
{
    waiting *w = data;
    abx_exchange *x = let_go(w);
    if (x && box)
        enter(box, w->port, x);
    else if (x && err)
        e2b_refuse_error(x, err);
    else if (x)
        e2b_data_not_found(x, w->id);
    free_waiting(w);
}

void e2b_admit(e2b_door *door, abx_exchange *x, const char *id, int port)
{
    e2b_box *box = e2b_door_box(door, id);
    if (box)
        enter(box, port, x);
    else if (has_its_token(door, id, x))
        e2b_find(door, id, on_found, keep(door, x, id, port));
    else
        e2b_data_not_found(x, id);
}
