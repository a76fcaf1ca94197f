/* POST /files/compose: several files become one, then the parts are removed. */
#include "doors/e2b/data_inner.h"

#include <string.h>

typedef struct compose {
    e2b_task *task;
    yyjson_doc *request; /* our own copy */
    char *user;          /* NULL: the default one */
    char *target;
    char **sources; /* NULL at the end */
    size_t count, at;
    abx_call *read, *write; /* NULL: over, or not begun */
    abx_error *err;         /* why it stops */
    bool plain;             /* the provider cannot write aside */
} compose;

static void compose_free(compose *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->sources[i]);
    free(m->sources);
    free(m->target);
    free(m->user);
    yyjson_doc_free(m->request);
    abx_error_free(m->err);
    e2b_task *t = m->task;
    free(m);
    e2b_task_free(t);
}

static void refuse(compose *m, int status, const char *fmt, const char *text)
{
    if (m->task->call) {
        abx_e2b_call *c = ABX_TAKE(m->task->call);
        abx_e2b_call_handle(c, NULL, NULL);
        ABX_AUTO_FREE char *line = abx_format("%s%s", fmt, text);
        abx_e2b_refuse(c, status, "%s", line);
    }
    compose_free(m);
}

static void fail(compose *m, const abx_error *err)
{
    if (m->task->call) {
        abx_e2b_call *c = ABX_TAKE(m->task->call);
        abx_e2b_call_handle(c, NULL, NULL);
        e2b_refuse_call(m->task->data, c, err);
    }
    compose_free(m);
}

static yyjson_mut_doc *params_of(const compose *m, const char *path, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = e2b_params(m->task->data, NULL, root);
    abx_mut_str(d, *root, "path", path);
    abx_mut_str(d, *root, "user", m->user);
    return d;
}

/* --- the end: the parts go ------------------------------------------------------------------------------------- */
static void on_removed(void *arg, yyjson_val *result, const abx_error *err);

static void remove_next(compose *m)
{
    yyjson_mut_val *root = NULL;
    if (m->at < m->count) {
        const char *path = m->sources[m->at++];
        e2b_run(m->task->data, ABX_OP_FS_REMOVE, params_of(m, path, &root), on_removed, m);
        return;
    }
    ABX_AUTO_MUT d = abx_mut_new(&root);
    const char *name = strrchr(m->target, '/');
    abx_mut_str(d, root, "path", m->target);
    abx_mut_str(d, root, "name", name ? name + 1 : m->target);
    abx_mut_str(d, root, "type", "file");
    if (m->task->call)
        abx_e2b_answer(ABX_TAKE(m->task->call), root);
    compose_free(m);
}

static void on_removed(void *arg, yyjson_val *result, const abx_error *err)
{
    (void)result;
    (void)err; /* the new file is there; a part that stays is no failure */
    remove_next(arg);
}

/* --- the bytes ------------------------------------------------------------------------------------------------------ */
static void read_next(compose *m);

static void stop(compose *m, const abx_error *err)
{
    if (!m->err)
        m->err = abx_error_copy(err);
    if (m->read)
        abx_call_cancel(m->read);
    if (m->write)
        abx_call_cancel(m->write);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    const compose *m = data;
    if (m->write && !abx_call_write(m->write, bytes, n))
        abx_call_pause(c);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    const compose *m = data;
    if (m->read)
        abx_call_resume(m->read);
}

static void write_begin(compose *m);

static void both_over(compose *m)
{
    if (m->read || m->write)
        return;
    bool again = m->err && m->err->id == ABX_ERR_FEATURE_MISSING && !m->plain;
    if (again) {
        m->plain = true;
        abx_error_free(ABX_TAKE(m->err));
        write_begin(m);
    } else if (m->err) {
        fail(m, m->err);
    } else {
        m->at = 0;
        remove_next(m);
    }
}

static void on_read_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    compose *m = data;
    m->read = NULL;
    if (err) {
        stop(m, err);
        both_over(m);
    } else if (m->err || !m->write) {
        both_over(m);
    } else {
        read_next(m);
    }
}

static void on_write_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    compose *m = data;
    m->write = NULL;
    if (err)
        stop(m, err);
    both_over(m);
}

static void read_next(compose *m)
{
    static const abx_call_handlers on = {.on_chunk = on_chunk, .on_end = on_read_end};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR err = NULL;
    if (!m->task->call || m->task->data->closing) { /* nobody waits for it any more */
        abx_call_cancel(m->write);
        return;
    }
    if (m->at == m->count) {
        abx_call_write_end(m->write);
        return;
    }
    const char *path = m->sources[m->at++];
    if (e2b_launch(m->task->data, ABX_OP_FS_READ, params_of(m, path, &root), &on, m, &m->read,
                   &err) < 0)
        stop(m, err);
}

static void write_begin(compose *m)
{
    static const abx_call_handlers on = {.on_writable = on_writable, .on_end = on_write_end};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_ERROR err = NULL;
    yyjson_mut_doc *d = params_of(m, m->target, &root);
    if (!m->plain)
        abx_mut_bool(d, root, "whole", true);
    m->at = 0;
    if (e2b_launch(m->task->data, ABX_OP_FS_WRITE, d, &on, m, &m->write, &err) == 0) {
        read_next(m);
    } else if (err->id == ABX_ERR_FEATURE_MISSING && !m->plain) {
        m->plain = true;
        write_begin(m);
    } else {
        fail(m, err);
    }
}

/* --- what is asked ------------------------------------------------------------------------------------------------------ */
static void check_next(compose *m);

static const char *given(const compose *m, size_t i)
{
    yyjson_val *list = abx_json_get(yyjson_doc_get_root(m->request), "source_paths");
    const char *text = yyjson_get_str(yyjson_arr_get(list, i));
    return text ? text : "";
}

static void on_source(void *arg, yyjson_val *file, const abx_error *err)
{
    compose *m = arg;
    const char *name = given(m, m->at);
    const char *type = abx_json_str(file, "targetType", abx_json_str(file, "type", ""));
    if (err && err->id == ABX_ERR_FILE_NOT_FOUND) {
        refuse(m, 404, "source file not found: ", name);
    } else if (err) {
        fail(m, err);
    } else if (strcmp(type, "file") != 0) {
        refuse(m, 400, "source path is not a regular file: ", name);
    } else {
        m->at++;
        check_next(m);
    }
}

static void check_next(compose *m)
{
    yyjson_mut_val *root = NULL;
    if (m->at == m->count) {
        write_begin(m);
        return;
    }
    if (strcmp(m->sources[m->at], m->target) == 0) {
        ABX_AUTO_FREE char *text =
            abx_format("\"%s\" cannot be the same as destination", given(m, m->at));
        refuse(m, 400, "source path ", text);
        return;
    }
    e2b_run(m->task->data, ABX_OP_FS_STAT, params_of(m, m->sources[m->at], &root), on_source, m);
}

/* The paths as absolute ones. */
static void resolve_all(compose *m)
{
    yyjson_val *q = yyjson_doc_get_root(m->request);
    const char *user = m->user ? m->user : "";
    abx_e2b_fault f = {0};
    m->target = e2b_filling.resolve(m->task->data, abx_json_str(q, "destination", ""), user, &f);
    size_t n = yyjson_arr_size(abx_json_get(q, "source_paths"));
    m->sources = abx_alloc_array(n + 1, sizeof(*m->sources));
    for (size_t i = 0; i < n && f.status == 0; i++) {
        char *path = e2b_filling.resolve(m->task->data, given(m, i), user, &f);
        if (path)
            m->sources[m->count++] = path;
    }
    if (f.status != 0)
        refuse(m, f.status, "", f.text);
    else
        check_next(m);
}

static void on_home(void *arg, yyjson_val *file, const abx_error *err)
{
    compose *m = arg;
    if (err && (err->id == ABX_ERR_USAGE || err->id == ABX_ERR_START_FAILED)) {
        ABX_AUTO_FREE char *text = abx_format("'%s': user: unknown user %s", m->user, m->user);
        refuse(m, 401, "error looking up user ", text);
        return;
    }
    e2b_plane_know(m->task->data, m->user, abx_json_str(file, "path", NULL));
    resolve_all(m);
}

void e2b_rpc_compose(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    const char *destination = abx_json_str(q, "destination", "");
    const char *user = abx_json_str(q, "username", "");
    if (yyjson_arr_size(abx_json_get(q, "source_paths")) == 0) {
        abx_e2b_refuse(c, 400, "source_paths must not be empty");
        return;
    }
    if (!*destination) {
        abx_e2b_refuse(c, 400, "destination is required");
        return;
    }
    if (abx_json_has_nul(q)) {
        abx_e2b_refuse(c, 400, "a path holds a NUL");
        return;
    }
    compose *m = ABX_NEW(compose);
    m->task = e2b_task_new(d, c, q);
    m->request = abx_json_copy(q);
    m->user = *user ? abx_strdup(user) : NULL;
    if (!*user || e2b_plane_home(d, user)) {
        resolve_all(m);
        return;
    }
    yyjson_mut_val *root = NULL;
    e2b_run(d, ABX_OP_FS_STAT, params_of(m, ".", &root), on_home, m);
}
