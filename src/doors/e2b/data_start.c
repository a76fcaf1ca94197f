/* Start and Connect; and how a process from before this door is found again. */
#include "doors/e2b/data_inner.h"

#include <errno.h>
#include <string.h>

/* --- Start --------------------------------------------------------------------------------------------------- */
static void put_words(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *config)
{
    yyjson_mut_val *cmd = abx_mut_arr(d, root, "cmd");
    yyjson_mut_arr_add_strcpy(d, cmd, abx_json_str(config, "cmd", ""));
    size_t i = 0, n = 0;
    yyjson_val *word = NULL;
    yyjson_arr_foreach(abx_json_get(config, "args"), i, n, word)
    {
        yyjson_mut_arr_append(cmd, yyjson_val_mut_copy(d, word));
    }
}

static void read_size(e2b_proc *p, yyjson_val *pty)
{
    yyjson_val *size = abx_json_get(pty, "size");
    p->cols = abx_json_int(size, "cols", 0) & 0xffff;
    p->rows = abx_json_int(size, "rows", 0) & 0xffff;
}

static yyjson_mut_doc *start_params(e2b_proc *p)
{
    yyjson_val *config = yyjson_doc_get_root(p->config), *envs = abx_json_get(config, "envs");
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(p->data, NULL, &root);
    put_words(d, root, config);
    yyjson_mut_val *env = abx_mut_obj(d, root, "env");
    yyjson_obj_iter pairs = yyjson_obj_iter_with(envs);
    for (yyjson_val *k; (k = yyjson_obj_iter_next(&pairs));)
        abx_mut_val(d, env, yyjson_get_str(k), yyjson_obj_iter_get_val(k));
    e2b_env_put(p->data, d, env);
    const char *cwd = abx_json_str(config, "cwd", NULL);
    abx_mut_str(d, root, "cwd", cwd && *cwd ? cwd : NULL);
    abx_mut_str(d, root, "user", p->user);
    if (p->timeout_ms != ABX_FOREVER)
        abx_mut_int(d, root, "timeoutMs", (int64_t)p->timeout_ms);
    if (p->asked_detach)
        abx_mut_str(d, root, "onDisconnect", "detach");
    if (p->tty && p->cols > 0)
        abx_mut_int(d, root, "cols", p->cols);
    if (p->tty && p->rows > 0)
        abx_mut_int(d, root, "rows", p->rows);
    if (p->tty)
        abx_mut_str(d, root, "term", abx_json_str(envs, "TERM", NULL));
    else if (p->has_stdin)
        abx_mut_str(d, root, "stdin", "stream");
    return d;
}

static void launch(e2b_proc *p)
{
    ABX_AUTO_ERROR err = NULL;
    e2b_proc_ref(p);
    p->own_call = !p->asked_detach;
    if (e2b_launch(p->data, p->tty ? ABX_OP_PTY_OPEN : ABX_OP_PROCESS_START, start_params(p),
                   &e2b_proc_follow, p, &p->call, &err) == 0)
        return;
    if (!e2b_start_again(p, err)) {
        e2b_proc_leave(p);
        e2b_start_failed(p, err);
    }
    e2b_proc_unref(p);
}

/* A process lives on without us where the provider knows how; without that it ends with the door. */
bool e2b_start_again(e2b_proc *p, const abx_error *err)
{
    if (p->started || !p->asked_detach || p->data->closing || err->id != ABX_ERR_FEATURE_MISSING)
        return false;
    p->data->no_detach = true;
    p->asked_detach = false;
    launch(p);
    return true;
}

void e2b_rpc_start(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    yyjson_val *config = abx_json_get(q, "process"), *in = abx_json_get(q, "stdin");
    if (abx_json_has_nul(config)) { /* it would cut a word off */
        abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "error starting process: a word of it holds a NUL");
        return;
    }
    e2b_proc *p = e2b_proc_new(d);
    p->tag = abx_strdup(abx_json_str(q, "tag", NULL));
    p->config = abx_json_copy(config);
    p->tty = abx_json_get(q, "pty") != NULL;
    p->has_stdin = !p->tty && (!in || yyjson_get_bool(in));
    p->asked_detach = !d->no_detach;
    p->user = abx_strdup(abx_e2b_call_user(c));
    p->timeout_ms = abx_e2b_call_timeout_ms(c);
    read_size(p, abx_json_get(q, "pty"));
    e2b_sub *s = e2b_sub_add(p, c);
    s->limited = p->timeout_ms != ABX_FOREVER;
    launch(p);
}

/* --- a start that failed ----------------------------------------------------------------------------------------- */
/* E2B runs a command through a shell, so that one that is not there, or no program, ends as in a shell. */
static void end_as_shell(e2b_proc *p, const abx_error *err)
{
    const char *cmd = abx_json_str(yyjson_doc_get_root(p->config), "cmd", "");
    ABX_AUTO_FREE char *text = abx_format("%s\n", *cmd ? err->message : "the command is empty");
    p->started = p->ended = true;
    p->pid = p->data->next_pid++;
    p->exit_code = err->sys_errno == ENOENT || !*cmd ? 127 : 126;
    while (p->subs.next != &p->subs) {
        e2b_sub *s = ABX_OF(p->subs.next, e2b_sub, node);
        e2b_sub_send_start(s);
        (void)abx_e2b_send_data(s->call, p->tty ? ABX_E2B_PTY : ABX_E2B_STDERR, text, strlen(text));
        e2b_sub_send_end(s);
    }
}

typedef struct failed {
    e2b_proc *proc;
    abx_error *err;
} failed;

/* "cwd '/root': permission denied" in E2B's words. */
static abx_error *folder_error(const e2b_proc *p, const abx_error *err)
{
    yyjson_val *config = yyjson_doc_get_root(p->config);
    const char *cause = strrchr(err->message, ':');
    ABX_AUTO_BUF words = ABX_BUF((size_t)64 * 1024);
    int rc = abx_buf_add_str(&words, abx_json_str(config, "cmd", ""));
    size_t i = 0, n = 0;
    yyjson_val *word = NULL;
    yyjson_arr_foreach(abx_json_get(config, "args"), i, n, word)
    {
        rc = rc < 0 ? rc : abx_buf_addf(&words, " %s", yyjson_get_str(word));
    }
    if (rc < 0 || !cause)
        return abx_error_copy(err);
    return abx_error_new(ABX_ERR_START_FAILED, "error starting process '%s': fork/exec /bin/sh%s",
                         abx_buf_cstr(&words), cause);
}

static void on_folder(void *arg, yyjson_val *file, const abx_error *err)
{
    failed *f = arg;
    e2b_proc *p = f->proc;
    const char *cwd = abx_json_str(yyjson_doc_get_root(p->config), "cwd", "");
    ABX_AUTO_ERROR told = NULL;
    if (err && err->id == ABX_ERR_FILE_NOT_FOUND)
        told = abx_error_new(ABX_ERR_START_FAILED, "cwd '%s' does not exist", cwd);
    else if (file && abx_str_eq(abx_json_str(file, "type", NULL),
                                "file")) /* not every provider says what was wrong */
        told = abx_error_new(ABX_ERR_START_FAILED, "cwd '%s' is not a directory", cwd);
    else if (abx_str_eq(f->err->about, "cwd"))
        told = folder_error(p, f->err);
    else if (f->err->about)
        told = abx_error_copy(f->err);
    if (told)
        e2b_subs_fail(p, E2B_ABOUT_START, told);
    else
        end_as_shell(p, f->err);
    abx_error_free(f->err);
    free(f);
    e2b_proc_unref(p);
}

void e2b_start_failed(e2b_proc *p, const abx_error *err)
{
    const char *cmd = abx_json_str(yyjson_doc_get_root(p->config), "cmd", "");
    bool empty = err->id == ABX_ERR_USAGE && !*cmd;
    if ((err->id != ABX_ERR_START_FAILED && !empty) || p->subs.next == &p->subs) {
        e2b_subs_fail(p, E2B_ABOUT_START, err);
        return;
    }
    failed *f = ABX_NEW(failed);
    f->proc = p;
    f->err = abx_error_copy(err);
    e2b_proc_ref(p);
    const char *cwd = abx_json_str(yyjson_doc_get_root(p->config), "cwd", NULL);
    if (!cwd || !*cwd) {
        on_folder(f, NULL, NULL);
        return;
    }
    yyjson_mut_val *root = NULL;
    const e2b_sub *s = ABX_OF(p->subs.next, e2b_sub, node);
    yyjson_mut_doc *d = e2b_params(p->data, s->call, &root);
    abx_mut_str(d, root, "path", cwd);
    e2b_run(p->data, ABX_OP_FS_STAT, d, on_folder, f);
}

/* --- processes from before this door ------------------------------------------------------------------------------ */
/* A request that waits for its process. */
typedef struct waiter {
    abx_link node; /* of the process that is being attached to */
    e2b_data *data;
    abx_e2b_call *call; /* NULL: its client is gone */
    yyjson_val *request;
    yyjson_doc *own; /* that holds the request; or NULL */
    e2b_proc_cb cb;
} waiter;

static void waiter_gone(abx_e2b_call *c, bool expired, void *data)
{
    (void)c;
    (void)expired;
    ((waiter *)data)->call = NULL;
}

static void say_not_found(abx_e2b_call *c, yyjson_val *selector)
{
    const char *tag = abx_json_str(selector, "tag", NULL);
    if (tag)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "process with tag %s not found", tag);
    else
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "process with pid %lld not found",
                     (long long)abx_json_int(selector, "pid", 0));
}

/* Go on, or not. */
static void waiter_end(waiter *w, e2b_proc *p, const abx_error *err)
{
    e2b_data *d = w->data;
    abx_e2b_call *c = w->call;
    yyjson_val *q = w->request;
    e2b_proc_cb cb = w->cb;
    ABX_AUTO_JSON own = w->own;
    (void)own; /* held until the end */
    abx_link_remove(&w->node);
    free(w);
    if (c) {
        abx_e2b_call_handle(c, NULL, NULL);
        if (p)
            cb(d, c, q, p);
        else if (err && err->id != ABX_ERR_PROCESS_NOT_FOUND)
            e2b_fail(d, c, E2B_ABOUT_PROCESS, err);
        else
            say_not_found(c, abx_json_get(q, "process"));
    }
    e2b_plane_release(d);
}

void e2b_adopted(e2b_proc *p, const abx_error *err)
{
    e2b_proc_ref(p);
    while (p->waiters.next != &p->waiters)
        /* counted references: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        waiter_end(ABX_OF(p->waiters.next, waiter, node), err ? NULL : p, err);
    e2b_proc_unref(p);
}

static e2b_proc *find_by_id(e2b_data *d, const char *id)
{
    for (abx_link *n = d->procs.next; n != &d->procs; n = n->next) {
        e2b_proc *p = ABX_OF(n, e2b_proc, node);
        if (abx_str_eq(p->id, id))
            return p;
    }
    return NULL;
}

yyjson_doc *e2b_config_of(yyjson_val *process)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_val *words = abx_json_get(process, "cmd");
    if (yyjson_is_arr(words) && yyjson_arr_size(words) > 0) {
        abx_mut_str(d, root, "cmd", yyjson_get_str(yyjson_arr_get_first(words)));
        yyjson_mut_val *args = yyjson_arr_size(words) > 1 ? abx_mut_arr(d, root, "args") : NULL;
        for (size_t i = 1; i < yyjson_arr_size(words); i++)
            yyjson_mut_arr_append(args, yyjson_val_mut_copy(d, yyjson_arr_get(words, i)));
    } else {
        abx_mut_str(d, root, "cmd", yyjson_get_str(words));
    }
    abx_mut_str(d, root, "cwd", abx_json_str(process, "cwd", NULL));
    return abx_json_freeze(d);
}

int64_t e2b_pid_of(yyjson_val *process)
{
    uint64_t number = 0;
    int64_t pid = abx_json_int(process, "pid", 0);
    if (pid <= 0 && abx_parse_uint(abx_json_str(process, "id", ""), UINT32_MAX, &number) == 0)
        pid = (int64_t)number;
    return pid;
}

/* Follow it from now on. */
static void adopt(e2b_data *d, yyjson_val *process, waiter *w)
{
    const char *id = abx_json_str(process, "id", "");
    e2b_proc *p = find_by_id(d, id);
    if (!p) {
        p = e2b_proc_new(d);
        p->id = abx_strdup(id);
        p->pid = e2b_pid_of(process);
        p->config = e2b_config_of(process);
        p->tty = abx_json_bool(process, "tty", false);
        p->has_stdin = !p->tty;
        yyjson_mut_val *root = NULL;
        yyjson_mut_doc *params = e2b_params(d, NULL, &root);
        abx_mut_str(params, root, "processId", id);
        ABX_AUTO_ERROR err = NULL;
        e2b_proc_ref(p);
        if (e2b_launch(d, ABX_OP_PROCESS_ATTACH, params, &e2b_proc_follow, p, &p->call, &err) < 0) {
            waiter_end(w, NULL, err);
            e2b_proc_leave(p);
            e2b_proc_unref(p);
            return;
        }
    }
    if (p->started)
        waiter_end(w, p, NULL);
    else
        abx_link_append(&p->waiters, &w->node);
}

static void on_list(void *arg, yyjson_val *result, const abx_error *err)
{
    waiter *w = arg;
    int64_t pid = w->call ? abx_json_int(abx_json_get(w->request, "process"), "pid", -1) : -1;
    size_t i = 0, n = 0;
    yyjson_val *process = NULL, *found = NULL;
    yyjson_arr_foreach(err ? NULL : abx_json_get(result, "processes"), i, n, process)
    {
        if (pid > 0 && e2b_pid_of(process) == pid &&
            strcmp(abx_json_str(process, "state", ""), "running") == 0)
            found = process;
    }
    if (found && !w->data->closing)
        adopt(w->data, found, w);
    else
        waiter_end(w, NULL, err && err->id != ABX_ERR_FEATURE_MISSING ? err : NULL);
}

/* own is taken over. */
static void look_for(e2b_data *d, abx_e2b_call *c, yyjson_val *q, yyjson_doc *own, bool ended,
                     e2b_proc_cb cb)
{
    static const abx_e2b_call_handlers on = {.on_close = waiter_gone};
    ABX_AUTO_JSON mine = own;
    yyjson_val *selector = abx_json_get(q, "process");
    if (!abx_json_get(selector, "tag") && !abx_json_get(selector, "pid")) {
        abx_e2b_fail(c, ABX_E2B_CODE_UNIMPLEMENTED, "invalid input type *process.ProcessSelector");
        return;
    }
    e2b_proc *p = e2b_proc_find(d, selector, ended);
    if (p) {
        cb(d, c, q, p);
        return;
    }
    if (abx_json_get(selector, "tag") || e2b_proc_find(d, selector, true)) {
        say_not_found(c, selector);
        return;
    }
    waiter *w = ABX_NEW(waiter);
    abx_link_init(&w->node);
    w->data = d;
    w->call = c;
    w->request = q;
    w->own = ABX_TAKE(mine);
    w->cb = cb;
    e2b_plane_hold(d);
    abx_e2b_call_handle(c, &on, w);
    yyjson_mut_val *root = NULL;
    e2b_run(d, ABX_OP_PROCESS_LIST, e2b_params(d, NULL, &root), on_list, w);
}

void e2b_select(e2b_data *d, abx_e2b_call *c, yyjson_val *q, bool ended, e2b_proc_cb cb)
{
    look_for(d, c, q, NULL, ended, cb);
}

void e2b_select_doc(e2b_data *d, abx_e2b_call *c, yyjson_doc *q, e2b_proc_cb cb)
{
    look_for(d, c, yyjson_doc_get_root(q), q, false, cb);
}

/* --- Connect ------------------------------------------------------------------------------------------------------------ */
static void connect_to(e2b_data *d, abx_e2b_call *c, yyjson_val *q, e2b_proc *p)
{
    (void)d;
    (void)q;
    e2b_sub *s = e2b_sub_add(p, c);
    e2b_sub_send_start(s);
    if (p->ended)
        e2b_sub_send_end(s);
}

void e2b_rpc_connect(e2b_data *d, abx_e2b_call *c, yyjson_val *q)
{
    e2b_select(d, c, q, true, connect_to);
}
