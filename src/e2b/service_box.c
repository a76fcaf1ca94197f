/* Sandboxes that the service has told of: their tokens, and the client of each one's envd. A call into one that is not known yet
 * waits until the service has told of it. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"
#include "ops/call_host.h"

typedef struct abx__svc_waiter {
    struct abx__svc_waiter *next;
    abx_call *call; /* NULL once it is gone */
} waiter;

abx__svc_box *abx__svc_box_find(abx_e2b_service *s, const char *id)
{
    for (abx__svc_box *box = s->boxes; box; box = box->next)
        if (strcmp(box->id, id) == 0)
            return box;
    return NULL;
}

static abx__svc_box *get_box(abx_e2b_service *s, const char *id)
{
    abx__svc_box *box = abx__svc_box_find(s, id);
    if (box)
        return box;
    box = ABX_NEW(abx__svc_box);
    box->service = s;
    box->id = abx_strdup(id);
    box->next = s->boxes;
    s->boxes = box;
    return box;
}

/* --- what an answer tells ---------------------------------------------------------------------------------- */
/* Take a text of the answer over; what is absent there is kept. True when it changed. */
static bool take(char **to, yyjson_val *answer, const char *name)
{
    const char *text = abx_json_str(answer, name, NULL);
    if (!text || !*text || abx_has_control(text) || abx_str_eq(text, *to))
        return false;
    free(*to);
    *to = abx_strdup(text);
    return true;
}

static void on_client_closed(void *data)
{
    abx__svc_drop(data);
}

static void close_client(abx__svc_box *box, bool gone)
{
    abx_envd_client *client = ABX_TAKE(box->client);
    abx__ctl_cancel(ABX_TAKE(box->look));
    if (!client)
        return;
    if (gone)
        abx_envd_client_gone(client);
    abx__svc_hold(box->service);
    abx_envd_client_close(client, on_client_closed, box->service);
}

abx__svc_box *abx__svc_box_learn(abx_e2b_service *s, yyjson_val *sandbox)
{
    abx__svc_box *box = get_box(s, abx_json_str(sandbox, "sandboxID", ""));
    bool tokens = take(&box->token, sandbox, "envdAccessToken");
    tokens |= take(&box->traffic_token, sandbox, "trafficAccessToken");
    bool moved = take(&box->domain, sandbox, "domain");
    (void)take(&box->version, sandbox, "envdVersion");
    box->paused = abx__svc_is_paused(sandbox);
    yyjson_val *network = abx_json_get(sandbox, "network");
    if (network)
        box->closed = !abx_json_bool(network, "allowPublicTraffic", true);
    box->known = true;
    if (moved && !s->dialect->own_domain)
        close_client(box, false);
    else if (tokens && box->client)
        abx_envd_client_tokens(box->client, box->token, box->traffic_token);
    return box;
}

static void fail_call(const abx_e2b_service *s, abx_call *call, const abx_error *why)
{
    static const abx_call_backend refused = {0};
    abx_call_unhold(call);
    abx_call_accept(call, &refused, NULL);
    abx_error *err = abx_error_copy(why);
    if (s->explain)
        s->explain(s->explain_data, abx_call_op(call)->id, err);
    abx_call_fail(call, err);
}

static void fail_waiters(abx__svc_box *box, const abx_error *why)
{
    waiter *list = ABX_TAKE(box->waiters);
    while (list) {
        waiter *w = list;
        list = w->next;
        if (w->call)
            fail_call(box->service, w->call, why);
        free(w);
    }
}

void abx__svc_box_forget(abx__svc_box *box, bool gone)
{
    if (!box)
        return;
    abx__svc_box **at = &box->service->boxes;
    while (*at != box)
        at = &(*at)->next;
    *at = box->next;
    ABX_AUTO_ERROR why = gone ? abx_error_new(ABX_ERR_SANDBOX_ENDED, "sandbox '%s' ended", box->id)
                              : abx_error_new(ABX_ERR_CANCELLED, "the client was closed");
    fail_waiters(box, why);
    abx__ctl_cancel(ABX_TAKE(box->question));
    close_client(box, gone);
    free(box->id);
    free(box->token);
    free(box->traffic_token);
    free(box->domain);
    free(box->version);
    free(box);
}

/* --- the address of a port ------------------------------------------------------------------------------------ */
bool abx__svc_is_domain(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:");
    return n > 0 && s[n] == 0;
}

char *abx__svc_port_url(const abx_e2b_service *s, const char *id, const char *domain, int port)
{
    const char *pattern = s->dialect->data_url;
    if (!domain || s->dialect->own_domain || !abx__svc_is_domain(domain))
        domain = s->domain;
    if (!pattern)
        pattern = "https://{port}-{id}.{domain}";
    ABX_AUTO_FREE char *number = abx_format("%d", port);
    const char *const words[] = {"{port}", "{id}", "{domain}", "{api}"};
    const char *const values[] = {number, id, domain, s->api_url};
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX);
    while (*pattern) {
        size_t i = 0;
        while (i < ABX_COUNT(words) && !abx_has_prefix(pattern, words[i]))
            i++;
        bool word = i < ABX_COUNT(words);
        int rc =
            word ? abx_buf_add_str(&out, values[i]) : abx_buf_add_byte(&out, (uint8_t)*pattern);
        ABX_CHECK(rc == 0);
        pattern += word ? strlen(words[i]) : 1;
    }
    while (out.len > 0 && out.data[out.len - 1] == '/')
        out.len--;
    return abx_strndup(abx_buf_cstr(&out), out.len);
}

/* --- is it gone? ------------------------------------------------------------------------------------------------ */
static int fail_paused(const abx__svc_box *box, abx_error **err)
{
    abx_fail(err, ABX_ERR_CONFLICT, "sandbox '%s' is paused", box->id);
    return abx_hint(err, "'abx resume %s' lets it go on", box->id);
}

/* What a call that broke ends with: gone, paused, or out of reach while it lives. */
static void on_looked(void *data, const abx__ctl_answer *answer, abx_error *failure)
{
    abx__svc_box *box = data;
    ABX_AUTO_ERROR err = failure;
    box->look = NULL;
    if (err && err->id == ABX_ERR_SANDBOX_NOT_FOUND) {
        abx_envd_client_told(box->client, NULL);
        abx__svc_box_forget(box, true);
        return;
    }
    if (!err && abx__svc_check_sandbox("GET /sandboxes/ID", answer->root, NULL) == 0)
        box->paused = abx__svc_is_paused(answer->root);
    if (!err && box->paused)
        (void)fail_paused(box, &err);
    else if (!err)
        err = abx_error_new(ABX_ERR_NETWORK, "sandbox '%s' lives, but the connection to it broke",
                            box->id);
    abx_envd_client_told(box->client, err);
}

static void ask_for(abx__svc_box *box, abx__ctl **question, abx__ctl_done done)
{
    abx_e2b_service *s = box->service;
    const char *method = "GET";
    ABX_AUTO_FREE char *path =
        abx__svc_route(s, ABX_OP_SANDBOX_INFO, "/sandboxes/{id}", box->id, &method);
    abx__ctl_request r = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_SANDBOX,
                          .subject = box->id,
                          .deadline = ABX_FOREVER,
                          .timeout_ms = abx__svc_timeout(s, false)};
    *question = abx__ctl_start(s, &r, done, box);
}

static void on_look(void *data, abx_envd_client *client)
{
    abx__svc_box *box = data;
    (void)client;
    if (!box->look)
        ask_for(box, &box->look, on_looked);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */
static int open_client(abx__svc_box *box, abx_error **err)
{
    abx_e2b_service *s = box->service;
    ABX_AUTO_FREE char *base = abx__svc_port_url(s, box->id, box->domain, ABX_E2B_ENVD_PORT);
    ABX_AUTO_FREE char *code = abx__svc_port_url(s, box->id, box->domain, ABX_E2B_CODE_PORT);
    const abx_e2b_dialect *d = s->dialect;
    abx_envd_client_options o = {.loop = s->loop,
                                 .base_url = base,
                                 .code_url = code,
                                 .connect_to = d->connect_to,
                                 .sandbox_id = box->id,
                                 .token = box->token,
                                 .traffic_token = box->traffic_token,
                                 .version = d->distrust_version ? NULL : box->version,
                                 .default_user = s->user,
                                 .upload = d->upload,
                                 .poll_watch = d->poll_watch,
                                 .codec = d->json_only ? ABX_E2B_JSON : ABX_E2B_PROTO,
                                 .explain = s->explain,
                                 .explain_data = s->explain_data,
                                 .look = on_look,
                                 .look_data = box,
                                 .log = s->log};
    return abx_envd_client_open(&o, &box->client, err);
}

/* The box is known: give the call to its client. */
static int run(abx__svc_box *box, abx_call *call, abx_error **err)
{
    if (box->paused)
        return fail_paused(box, err);
    if (!box->client && open_client(box, err) < 0)
        return -1;
    return abx_envd_client_start(box->client, call, err);
}

/* As the host gives a call that it held. */
static void run_later(abx__svc_box *box, abx_call *call)
{
    ABX_AUTO_ERROR why = NULL;
    abx_call_unhold(call);
    abx_call_enter_start(call);
    int rc = run(box, call, &why);
    abx_call_leave_start(call);
    if (rc < 0)
        fail_call(box->service, call, why);
}

static void on_told(void *data, const abx__ctl_answer *answer, abx_error *failure)
{
    abx__svc_box *box = data;
    ABX_AUTO_ERROR err = failure;
    box->question = NULL;
    if (!err && abx__svc_check_sandbox("GET /sandboxes/ID", answer->root, &err) == 0 &&
        strcmp(abx_json_str(answer->root, "sandboxID", ""), box->id) != 0)
        err = abx__ctl_misfit("GET /sandboxes/ID", "'sandboxID' is another one's");
    if (err) {
        fail_waiters(box, err);
        abx__svc_box_forget(box, false);
        return;
    }
    abx__svc_box_learn(box->service, answer->root);
    waiter *list = ABX_TAKE(box->waiters);
    while (list) {
        waiter *w = list;
        list = w->next;
        if (w->call)
            run_later(box, w->call);
        free(w);
    }
}

static void on_gone(abx_call *c, void *data)
{
    (void)c;
    ((waiter *)data)->call = NULL;
}

int abx__svc_box_start(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    abx__svc_box *box = get_box(s, abx_json_str(abx_call_params(call), "sandboxId", ""));
    if (box->known && !box->question && !box->paused)
        return run(box, call, err);
    /* one that was paused may have been woken by another */
    waiter *w = ABX_NEW(waiter), **at = &box->waiters;
    w->call = call;
    while (*at)
        at = &(*at)->next;
    *at = w;
    abx_call_hold(call, on_gone, w);
    if (!box->question)
        ask_for(box, &box->question, on_told);
    return 0;
}
