/* A host in a home of its own, with two adapters that the test plays. */
#ifndef TESTS_HOST_RIG_H
#define TESTS_HOST_RIG_H

#include "kit.h"

#include <dirent.h>

#include "base/clock.h"
#include "base/id.h"
#include "host/host.h"
#include "host/ledger.h"

enum { RIG_BOXES = 32 };

/* How the backend behaves. */
typedef struct backend {
    char boxes[RIG_BOXES][40]; /* ids of what lives; "" is free */
    char log[2000];            /* methods that reached start, with the sandbox */
    int opens, closes, starts;
    bool own_ids;      /* it does not take the id that the host proposes */
    bool hang;         /* calls do not end by themselves */
    bool refuse_start; /* start fails */
    bool accept_first; /* … after it accepted the call */
    bool refuse_open;
    bool paused;                                      /* its sandboxes are, until connect */
    abx_err_id fail_with;                             /* 0 (USAGE): calls succeed */
    bool ledger_had_entry, ledger_entry_was_complete; /* when create came */
    abx_call *hung;
    void (*answer)(struct backend *b, abx_call *call); /* ends the call instead of ours; or NULL */
    yyjson_doc *features;
    abx_provider provider;
    char home[200];
} backend;

typedef struct host_rig {
    uv_loop_t loop;
    char *home;
    abx_config *config;
    abx_host *host;
    int closed;
    /* of the last call */
    int ends;
    abx_err_id end_id; /* ABX_ERR_COUNT: a result */
    char message[500], hint[500], provider[100], sandbox[100];
    yyjson_doc *result;
} host_rig;

static backend rig_fake, rig_other;

static inline backend *backend_of(const char *provider)
{
    return strcmp(provider, "other") == 0 ? &rig_other : &rig_fake;
}

static inline char *box_of(backend *b, const char *id)
{
    for (int i = 0; i < RIG_BOXES; i++)
        if (strcmp(b->boxes[i], id) == 0)
            return b->boxes[i];
    return NULL;
}

static inline void put_box(backend *b, const char *id)
{
    snprintf(box_of(b, ""), sizeof b->boxes[0], "%s", id);
}

/* The ledger as a stranger reads it. */
static inline size_t read_ledger(const char *home, abx_ledger_entry **entries)
{
    abx_ledger *l;
    char **bad;
    size_t n, bad_n;
    assert_int_equal(abx_ledger_open(home, &l, NULL), 0);
    assert_int_equal(abx_ledger_read(l, entries, &n, &bad, &bad_n, NULL), 0);
    assert_int_equal(bad_n, 0);
    free(bad);
    abx_ledger_free(l);
    return n;
}

static inline size_t ledger_size(const char *home)
{
    abx_ledger_entry *e;
    size_t n = read_ledger(home, &e);
    abx_ledger_entries_free(e, n);
    return n;
}

static inline void box_json(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *id)
{
    abx_mut_str(d, obj, "id", id);
    abx_mut_str(d, obj, "state", "running");
}

static inline void fake_create(backend *b, abx_call *call, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    char own[20];
    const char *id = abx_json_str(abx_call_params(call), "id", NULL);
    assert_non_null(id);
    abx_ledger_entry *e;
    size_t n = read_ledger(b->home, &e);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(e[i].key, id) == 0) {
            b->ledger_had_entry = true;
            b->ledger_entry_was_complete = e[i].complete;
        }
    }
    abx_ledger_entries_free(e, n);
    if (b->own_ids) {
        abx_random_id(own, 16);
        id = own;
    }
    put_box(b, id);
    box_json(d, root, id);
}

static inline void fake_list(backend *b, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_mut_val *list = abx_mut_arr(d, root, "sandboxes");
    for (int i = 0; i < RIG_BOXES; i++)
        if (b->boxes[i][0])
            box_json(d, yyjson_mut_arr_add_obj(d, list), b->boxes[i]);
}

/* End the call as this backend does. */
static inline void fake_answer(backend *b, abx_call *call)
{
    abx_op_id op = abx_call_op(call)->id;
    const char *id = abx_json_str(abx_call_params(call), "sandboxId", NULL);
    char *box = id ? box_of(b, id) : NULL;
    if (b->fail_with || (id && !box)) {
        abx_err_id why = b->fail_with ? b->fail_with : ABX_ERR_SANDBOX_NOT_FOUND;
        abx_call_fail(call, abx_error_new(why, "the backend says no"));
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    if (op == ABX_OP_SANDBOX_CREATE)
        fake_create(b, call, d, root);
    else if (op == ABX_OP_SANDBOX_LIST)
        fake_list(b, d, root);
    else if (op == ABX_OP_SANDBOX_KILL)
        box[0] = 0;
    else if (op == ABX_OP_SANDBOX_INFO || op == ABX_OP_SANDBOX_CONNECT)
        box_json(d, root, id);
    if (op == ABX_OP_SANDBOX_CONNECT)
        b->paused = false;
    if (id && b->paused)
        yyjson_mut_obj_put(root, yyjson_mut_str(d, "state"), yyjson_mut_str(d, "paused"));
    abx_call_end(call, d);
}

static inline void fake_cancel(abx_call *call, void *state)
{
    ((backend *)state)->hung = NULL;
    abx_call_fail(call, abx_error_new(ABX_ERR_BACKEND, "cancelled"));
}

static inline int fake_start(abx_provider *provider, abx_call *call, abx_error **err)
{
    static const abx_call_backend at_once = {.on_cancel = fake_cancel};
    backend *b = provider == &rig_other.provider ? &rig_other : &rig_fake;
    size_t n = strlen(b->log);
    b->starts++;
    snprintf(b->log + n, sizeof b->log - n, "%s(%s) ", abx_call_op(call)->method,
             abx_json_str(abx_call_params(call), "sandboxId", ""));
    if (b->refuse_start && b->accept_first)
        abx_call_accept(call, &at_once, b);
    if (b->refuse_start)
        return abx_fail(err, ABX_ERR_QUOTA, "not today");
    abx_call_accept(call, &at_once, b);
    if (b->hang)
        b->hung = call;
    else if (b->answer)
        b->answer(b, call);
    else
        fake_answer(b, call);
    return 0;
}

static const struct abx_adapter fake_adapter;

static inline int fake_open(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    backend *b = backend_of(connection->provider);
    b->opens++;
    if (b->refuse_open) {
        abx_fail(err, ABX_ERR_API_KEY, "no credentials for provider '%s'", connection->provider);
        return abx_hint(err, "'--provider local' needs no account");
    }
    snprintf(b->home, sizeof b->home, "%s", connection->home);
    b->provider.adapter = &fake_adapter;
    b->provider.features = yyjson_doc_get_root(b->features);
    *out = &b->provider;
    return 0;
}

static inline void fake_close(abx_provider *provider, void (*cb)(void *data), void *data)
{
    backend *b = provider == &rig_other.provider ? &rig_other : &rig_fake;
    b->closes++;
    cb(data);
}

static const char *const fake_ids[] = {"fake", "other", NULL};
static const struct abx_adapter fake_adapter = {.kind = "builtin",
                                                .builtin_ids = fake_ids,
                                                .open = fake_open,
                                                .start = fake_start,
                                                .close = fake_close};
static const abx_adapter *const fake_adapters[] = {&fake_adapter, NULL};

static inline void rig_features(backend *b, const char *json)
{
    yyjson_doc_free(b->features);
    b->features = abx_json_parse(json, strlen(json), ABX_ERR_INTERNAL, "features", NULL);
    assert_non_null(b->features);
    b->provider.features = yyjson_doc_get_root(b->features);
}

/* The host's program "starts": config with this provider as default, no provider is open yet. */
static inline void host_start_program(host_rig *r, const char *provider)
{
    ABX_AUTO_ERROR err = NULL;
    const abx_config_options options = {.home = r->home, .system_file = "/nonexistent"};
    if (abx_config_open(&options, &r->config, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    if (provider)
        assert_int_equal(abx_config_set_flag(r->config, "provider", provider, &err), 0);
    const abx_host_options host = {
        .loop = &r->loop, .home = r->home, .config = r->config, .adapters = fake_adapters};
    assert_int_equal(abx_host_open(&host, &r->host, &err), 0);
}

static inline void on_host_closed(void *data)
{
    ((host_rig *)data)->closed++;
}

static inline void host_end_program(host_rig *r)
{
    r->closed = 0;
    abx_host_close(r->host, on_host_closed, r);
    assert_int_equal(r->closed, 0); /* not inside */
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(r->closed, 1);
    abx_config_free(r->config);
}

static inline void host_rig_open(host_rig *r)
{
    memset(r, 0, sizeof *r);
    memset(&rig_fake, 0, sizeof rig_fake);
    memset(&rig_other, 0, sizeof rig_other);
    static const char all[] =
        "{\"list\":\"native\",\"connect\":\"native\",\"timeout\":\"native\","
        "\"process\":\"native\",\"upkeep\":\"native\",\"pty\":\"unsupported\","
        "\"filesystem\":\"emulated\"}";
    rig_features(&rig_fake, all);
    rig_features(&rig_other, all);
    r->home = kit_folder();
    assert_int_equal(uv_loop_init(&r->loop), 0);
    host_start_program(r, "fake");
}

static inline void host_rig_close(host_rig *r)
{
    host_end_program(r);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    assert_int_equal(rig_fake.opens, rig_fake.closes + rig_fake.refuse_open * rig_fake.opens);
    yyjson_doc_free(r->result);
    yyjson_doc_free(rig_fake.features);
    yyjson_doc_free(rig_other.features);
    kit_drop(r->home);
}

static inline void keep_text(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

static inline void keep_error(host_rig *r, const abx_error *err)
{
    r->end_id = err->id;
    keep_text(r->message, sizeof r->message, err->message);
    keep_text(r->hint, sizeof r->hint, abx_error_hint(err));
    keep_text(r->provider, sizeof r->provider, err->provider);
    keep_text(r->sandbox, sizeof r->sandbox, err->sandbox);
}

static inline void on_host_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    host_rig *r = data;
    r->ends++;
    if (err) {
        keep_error(r, err);
        return;
    }
    r->end_id = ABX_ERR_COUNT;
    r->result = abx_json_copy(result);
}

static const abx_call_handlers host_door = {.on_end = on_host_end};

/* Start a call; NULL when it was refused (then r holds the error as if it had ended with it). */
static inline abx_call *host_begin(host_rig *r, const char *provider, abx_op_id op,
                                   const char *params)
{
    ABX_AUTO_ERROR err = NULL;
    yyjson_doc *doc = abx_json_parse(params, strlen(params), ABX_ERR_INTERNAL, "params", NULL);
    assert_non_null(doc);
    yyjson_doc_free(r->result);
    r->result = NULL;
    r->ends = 0;
    abx_call *call = abx_call_new(&r->loop, op, doc, &host_door, r);
    int rc = provider ? abx_host_start_at(r->host, provider, call, &err)
                      : abx_host_start(r->host, call, &err);
    assert_int_equal(r->ends, 0);
    if (rc == 0)
        return call;
    keep_error(r, err);
    abx_call_discard(call);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(r->ends, 0);
    return NULL;
}

/* A whole call: the id of its error, ABX_ERR_COUNT for a result. */
static inline abx_err_id host_call(host_rig *r, abx_op_id op, const char *params)
{
    if (host_begin(r, NULL, op, params)) {
        uv_run(&r->loop, UV_RUN_DEFAULT);
        assert_int_equal(r->ends, 1);
    }
    return r->end_id;
}

static inline const char *host_result(host_rig *r, const char *member)
{
    return abx_json_str(yyjson_doc_get_root(r->result), member, "");
}

/* Create with these parameters; the id, owned. */
static inline char *host_make(host_rig *r, const char *params)
{
    if (host_call(r, ABX_OP_SANDBOX_CREATE, params) != ABX_ERR_COUNT)
        fail_msg("create: %s", r->message);
    return abx_strdup(host_result(r, "id"));
}

static inline abx_err_id host_on(host_rig *r, abx_op_id op, const char *word)
{
    ABX_AUTO_FREE char *params = abx_format("{\"sandboxId\":\"%s\"}", word);
    return host_call(r, op, params);
}

#endif
