/* The code interpreter of port 49999. */
#include "doors/e2b/data_inner.h"

#include <string.h>
#include <strings.h>

#include "wire/bytes_json.h"

/* The contexts that E2B has from the start: named after their languages here. */
static const char *const DEFAULTS[] = {"python", "javascript"};

static bool is_default(const char *id)
{
    return strcmp(id, "python") == 0 || strcmp(id, "javascript") == 0 || strcmp(id, "bash") == 0;
}

/* --- /execute ------------------------------------------------------------------------------------------------ */
typedef struct execution {
    e2b_data *data;
    abx_e2b_call *c; /* NULL: its client is gone */
    abx_call *call;
    char *context; /* that was asked for; or NULL */
    bool began, held;
    abx_utf8_tail tails[2];
} execution;

static void send_tree(execution *x, yyjson_mut_val *root)
{
    ABX_AUTO_BUF line = ABX_BUF((size_t)64 * 1024 * 1024);
    if (!x->c || abx_json_write_mut(root, &line) < 0 || abx_buf_add_byte(&line, '\n') < 0)
        return;
    x->began = true;
    if (!abx_e2b_send_lines(x->c, line.data, line.len) && x->call) {
        x->held = true;
        abx_call_pause(x->call);
    }
}

static void send_output(execution *x, size_t stream, const uint8_t *bytes, size_t n)
{
    char now[ABX_RFC3339_SIZE];
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_format_rfc3339(abx_now_wall_ms(), now);
    abx_mut_str(d, root, "type", stream == 0 ? "stdout" : "stderr");
    ABX_AUTO_BUF text = ABX_BUF((size_t)64 * 1024 * 1024);
    bool whole = abx_utf8_valid(bytes, n);
    if (whole)
        abx_mut_strn(d, root, "text", (const char *)bytes, n);
    for (size_t at = 0; !whole && at < n;) { /* what is no UTF-8 is replaced */
        size_t len = 1;
        while (len < 4 && at + len < n && (bytes[at + len] & 0xc0) == 0x80)
            len++;
        bool valid = abx_utf8_valid(bytes + at, len);
        int rc =
            valid ? abx_buf_add(&text, bytes + at, len) : abx_buf_add_str(&text, "\xef\xbf\xbd");
        if (rc < 0)
            return;
        at += valid ? len : 1;
    }
    if (!whole)
        abx_mut_strn(d, root, "text", abx_buf_cstr(&text), text.len);
    abx_mut_str(d, root, "timestamp", now);
    send_tree(x, root);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    execution *x = data;
    size_t stream = channel == ABX_CH_STDERR;
    ABX_AUTO_BUF out = ABX_BUF((size_t)64 * 1024 * 1024);
    if (abx_utf8_tail_join(&x->tails[stream], bytes, n, false, &out))
        send_output(x, stream, out.data, out.len);
}

static void send_tails(execution *x)
{
    for (size_t i = 0; i < 2; i++) {
        ABX_AUTO_BUF out = ABX_BUF(64);
        if (abx_utf8_tail_join(&x->tails[i], "", 0, true, &out))
            send_output(x, i, out.data, out.len);
    }
}

static void send_count(execution *x, yyjson_val *event)
{
    if (!abx_json_get(event, "executionCount"))
        return;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "number_of_executions");
    abx_mut_val(d, root, "execution_count", abx_json_get(event, "executionCount"));
    send_tree(x, root);
}

static void send_result(execution *x, yyjson_val *event)
{
    static const char *const keys[] = {"text", "html",  "markdown", "svg",        "png",  "jpeg",
                                       "pdf",  "latex", "json",     "javascript", "data", "chart"};
    send_tails(x);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "result");
    for (size_t i = 0; i < ABX_COUNT(keys); i++) {
        yyjson_val *v = abx_json_get(event, keys[i]);
        if (v)
            abx_mut_val(d, root, keys[i], v);
    }
    yyjson_val *extra = abx_json_get(event, "extra");
    if (extra)
        abx_mut_val(d, root, "extra", extra);
    else
        (void)abx_mut_obj(d, root, "extra");
    abx_mut_bool(d, root, "is_main_result", abx_json_bool(event, "isMainResult", false));
    send_tree(x, root);
}

static void send_error(execution *x, const char *name, const char *value, const char *traceback)
{
    send_tails(x);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "error");
    abx_mut_str(d, root, "name", name);
    abx_mut_str(d, root, "value", value);
    abx_mut_str(d, root, "traceback", traceback);
    send_tree(x, root);
}

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    (void)c;
    execution *x = data;
    if (strcmp(type, "started") == 0)
        send_count(x, event);
    else if (strcmp(type, "result") == 0)
        send_result(x, event);
    else if (strcmp(type, "error") == 0)
        send_error(x, abx_json_str(event, "name", ""), abx_json_str(event, "value", ""),
                   abx_json_str(event, "traceback", ""));
}

static void execution_free(execution *x)
{
    e2b_data *d = x->data;
    free(x->context);
    free(x);
    e2b_plane_release(d);
}

static void refuse(e2b_data *d, abx_e2b_call *c, const char *context, const abx_error *err)
{
    if (err->id == ABX_ERR_CONTEXT_NOT_FOUND)
        abx_e2b_refuse(c, 404, "Context %.100s not found", context ? context : "");
    else if (err->id == ABX_ERR_USAGE)
        abx_e2b_refuse(c, 400, "%s", err->message);
    else
        e2b_refuse_call(d, c, err);
}

/* The line that every stream ends with. */
static void send_last(execution *x)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "end_of_execution");
    send_tree(x, root);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    execution *x = data;
    if (x->c && box->state == E2B_RUNNING)
        send_last(x);
    if (x->c) {
        abx_e2b_call_handle(x->c, NULL, NULL);
        if (box->state != E2B_RUNNING)
            abx_e2b_break(x->c);
        else
            abx_e2b_end(x->c);
    }
    execution_free(x);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    execution *x = data;
    x->call = NULL;
    if (!x->c) {
        execution_free(x);
        return;
    }
    if (err && !x->began) {
        abx_e2b_call_handle(x->c, NULL, NULL);
        refuse(x->data, x->c, x->context, err);
        execution_free(x);
        return;
    }
    if (err) {
        ABX_AUTO_FREE char *text = e2b_text_of(err);
        send_error(x, "UnexpectedEndOfExecution", text, "");
    }
    send_tails(x);
    if (e2b_is_gone(err) && !x->data->closing) {
        e2b_box_look(x->data->box, on_looked, x);
        return;
    }
    send_last(x);
    abx_e2b_call_handle(x->c, NULL, NULL);
    abx_e2b_end(x->c);
    execution_free(x);
}

static void on_writable(abx_e2b_call *c, void *data)
{
    (void)c;
    execution *x = data;
    if (!x->held || !x->call)
        return;
    x->held = false;
    abx_call_resume(x->call);
}

/* Who goes away interrupts what runs. */
static void on_close(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    execution *x = data;
    x->c = NULL;
    if (x->call)
        abx_call_cancel(x->call);
}

/* A text, NULL when absent or null. 0; -1: refused. */
static int get_text(abx_e2b_call *c, yyjson_val *q, const char *key, const char **out)
{
    yyjson_val *v = abx_json_get(q, key);
    *out = yyjson_get_str(v);
    if (!v || (yyjson_is_str(v) && strlen(*out) == yyjson_get_len(v)))
        return 0;
    abx_e2b_refuse(c, 422, "%s: not a text", key);
    return -1;
}

static int check_env(abx_e2b_call *c, yyjson_val *env)
{
    bool good = !env || yyjson_is_obj(env);
    yyjson_obj_iter it = yyjson_obj_iter_with(good ? env : NULL);
    for (yyjson_val *k; good && (k = yyjson_obj_iter_next(&it));)
        good = yyjson_is_str(yyjson_obj_iter_get_val(k));
    if (!good)
        abx_e2b_refuse(c, 422, "env_vars: not names with texts");
    return good ? 0 : -1;
}

void e2b_rpc_execute(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    static const abx_call_handlers follow = {
        .on_event = on_event, .on_chunk = on_chunk, .on_end = on_end};
    static const abx_e2b_call_handlers on = {.on_writable = on_writable, .on_close = on_close};
    const char *id = NULL, *language = NULL;
    yyjson_val *code = abx_json_get(q, "code"), *env = abx_json_get(q, "env_vars");
    if (!yyjson_is_str(code)) {
        abx_e2b_refuse(c, 422, "code: not a text");
        return;
    }
    if (get_text(c, q, "context_id", &id) < 0 || get_text(c, q, "language", &language) < 0 ||
        check_env(c, env) < 0)
        return;
    if (id && *id && language && *language) {
        abx_e2b_refuse(c, 400, "Only one of context_id or language can be provided");
        return;
    }
    if (id && is_default(id)) {
        language = id;
        id = NULL;
    }
    execution *x = ABX_NEW(execution);
    x->data = d;
    x->c = c;
    x->context = abx_strdup(id && *id ? id : NULL);
    e2b_plane_hold(d);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_val(params, root, "code", code);
    abx_mut_str(params, root, "contextId", x->context);
    abx_mut_str(params, root, "language", language && *language ? language : NULL);
    if (yyjson_obj_size(env) > 0)
        abx_mut_val(params, root, "env", env);
    ABX_AUTO_ERROR err = NULL;
    abx_e2b_call_handle(c, &on, x);
    if (e2b_launch(d, ABX_OP_CODE_RUN, params, &follow, x, &x->call, &err) == 0)
        return;
    abx_e2b_call_handle(c, NULL, NULL);
    refuse(d, c, x->context, err);
    execution_free(x);
}

/* --- contexts ------------------------------------------------------------------------------------------------------ */
static void task_refuse(e2b_task *t, const abx_error *err)
{
    if (t->call) {
        abx_e2b_call *c = ABX_TAKE(t->call);
        abx_e2b_call_handle(c, NULL, NULL);
        refuse(t->data, c, t->path, err);
    }
    e2b_task_free(t);
}

static void put_context(yyjson_mut_doc *d, yyjson_mut_val *o, const char *id, const char *language,
                        const char *cwd)
{
    abx_mut_str(d, o, "id", id);
    abx_mut_str(d, o, "language", language);
    abx_mut_str(d, o, "cwd", cwd);
}

static void on_context(void *arg, yyjson_val *context, const abx_error *err)
{
    e2b_task *t = arg;
    if (err) {
        task_refuse(t, err);
        return;
    }
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    put_context(d, root, abx_json_str(context, "id", ""), abx_json_str(context, "language", ""),
                abx_json_str(context, "cwd", "/home/user"));
    e2b_task_answer(t, root);
}

void e2b_rpc_context_new(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    const char *language = NULL, *cwd = NULL;
    if (get_text(c, q, "language", &language) < 0 || get_text(c, q, "cwd", &cwd) < 0)
        return;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "language", language && *language ? language : NULL);
    abx_mut_str(params, root, "cwd", cwd && *cwd ? cwd : NULL);
    e2b_run(d, ABX_OP_CODE_CONTEXT_CREATE, params, on_context, e2b_task_new(d, c, q));
}

static void on_contexts(void *arg, yyjson_val *result, const abx_error *err)
{
    e2b_task *t = arg;
    if (err) {
        task_refuse(t, err);
        return;
    }
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, list);
    const char *home = e2b_plane_home(t->data, "");
    for (size_t i = 0; i < ABX_COUNT(DEFAULTS); i++)
        put_context(d, yyjson_mut_arr_add_obj(d, list), DEFAULTS[i], DEFAULTS[i],
                    home ? home : "/home/user");
    size_t i = 0, n = 0;
    yyjson_val *context = NULL;
    yyjson_arr_foreach(abx_json_get(result, "contexts"), i, n, context)
    {
        const char *id = abx_json_str(context, "id", "");
        if (strcmp(id, DEFAULTS[0]) != 0 && strcmp(id, DEFAULTS[1]) != 0)
            put_context(d, yyjson_mut_arr_add_obj(d, list), id,
                        abx_json_str(context, "language", ""), abx_json_str(context, "cwd", ""));
    }
    e2b_task_answer(t, list);
}

void e2b_rpc_context_list(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    yyjson_mut_val *root = NULL;
    e2b_run(d, ABX_OP_CODE_CONTEXT_LIST, e2b_params(d, NULL, &root), on_contexts,
            e2b_task_new(d, c, q));
}

static void on_changed(void *arg, yyjson_val *result, const abx_error *err)
{
    (void)result;
    e2b_task *t = arg;
    /* a default context that was never used has nothing to lose */
    if (err && !(err->id == ABX_ERR_CONTEXT_NOT_FOUND && is_default(t->path))) {
        task_refuse(t, err);
        return;
    }
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *null = yyjson_mut_null(d);
    yyjson_mut_doc_set_root(d, null);
    e2b_task_answer(t, null);
}

static void change(e2b_data *d, abx_e2b_call *c, yyjson_val *q, abx_op_id op)
{
    e2b_task *t = e2b_task_new(d, c, q);
    t->path = abx_strdup(abx_e2b_call_segment(c));
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "contextId", t->path);
    e2b_run(d, op, params, on_changed, t);
}

void e2b_rpc_context_restart(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    change(d, c, q, ABX_OP_CODE_CONTEXT_RESTART);
}

void e2b_rpc_context_remove(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    change(d, c, q, ABX_OP_CODE_CONTEXT_REMOVE);
}
