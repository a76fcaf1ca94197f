#include "local/envd/code_inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void next_run(abx__context *c);

/* --- the table -------------------------------------------------------------------------------------------- */
abx__code *abx__code_of(abx_envd *e)
{
    if (!e->code) {
        e->code = ABX_NEW(abx__code);
        abx_link_init(&e->code->contexts);
        abx_link_init(&e->code->kernels);
    }
    return e->code;
}

abx__context *abx__context_find(abx_envd *e, const char *id)
{
    if (!e->code)
        return NULL;
    for (abx_link *n = e->code->contexts.next; n != &e->code->contexts; n = n->next) {
        abx__context *c = ABX_OF(n, abx__context, node);
        if (strcmp(c->id, id) == 0)
            return c;
    }
    return NULL;
}

abx__context *abx__context_new(abx_envd *e, const abx__language *l, const abx__user *u,
                               const char *id, const char *cwd, yyjson_val *env)
{
    abx__code *code = abx__code_of(e);
    abx__context *c = ABX_NEW(abx__context);
    c->envd = e;
    if (id)
        (void)snprintf(c->id, sizeof(c->id), "%s", id);
    else
        (void)snprintf(c->id, sizeof(c->id), "c%llu", (unsigned long long)++code->next_id);
    c->language = l;
    c->user = *u;
    c->cwd = abx_strdup(cwd);
    c->env = env ? abx_json_copy(env) : NULL;
    abx_link_init(&c->runs);
    for (size_t i = 0; i < 2; i++)
        abx_buf_init(&c->late[i], ABX__MAX_LATE);
    ABX_CHECK(uv_timer_init(e->loop, &c->timer) == 0);
    c->timer.data = c;
    e->handles++;
    abx_link_append(&code->contexts, &c->node);
    code->context_count++;
    return c;
}

static void context_free(uv_handle_t *timer)
{
    abx__context *c = timer->data;
    abx_envd *e = c->envd;
    for (size_t i = 0; i < 2; i++)
        abx_buf_clear(&c->late[i]);
    yyjson_doc_free(c->env);
    free(c->cwd);
    free(c->fresh);
    free(c);
    abx__envd_released(e);
}

/* --- runs --------------------------------------------------------------------------------------------------- */
static abx__run *current(abx__context *c)
{
    return c->busy ? ABX_OF(c->runs.next, abx__run, node) : NULL;
}

static void run_free(abx__run *r)
{
    abx__context *c = r->context;
    abx_link_remove(&r->node);
    c->run_count--;
    free(r);
}

static void on_timer(uv_timer_t *t);

static void set_timer(abx__context *c, int what, uint64_t in_ms)
{
    c->timer_is = what;
    ABX_CHECK(uv_timer_start(&c->timer, on_timer, in_ms, 0) == 0);
}

/* The run that has begun is over. */
static void end_run(abx__context *c)
{
    abx__run *r = current(c);
    if (r->call) {
        ABX_AUTO_FREE char *fresh = r->sent ? ABX_TAKE(c->fresh) : NULL;
        abx__line_tails(r);
        abx__line_end(r, fresh);
        abx_e2b_end(r->call);
    }
    c->busy = false;
    c->timer_is = ABX__CONTEXT_IDLE;
    (void)uv_timer_stop(&c->timer);
    run_free(r);
}

static void stop_kernel(abx__context *c, const char *why)
{
    c->ended = why;
    if (c->kernel)
        abx__kernel_kill(c->kernel);
}

/* It was interrupted: once more in the middle of this time, KILL at its end. */
static void insist(abx__context *c, uint64_t in_ms)
{
    c->stop_ms = in_ms / 2;
    set_timer(c, ABX__CONTEXT_AGAIN, in_ms / 2);
}

static void on_timer(uv_timer_t *t)
{
    abx__context *c = t->data;
    abx__run *r = current(c);
    int what = c->timer_is;
    c->timer_is = ABX__CONTEXT_IDLE;
    if (!r)
        return;
    if (what == ABX__CONTEXT_DEADLINE) {
        r->timed_out = r->interrupted = true;
        if (c->kernel && r->begun)
            abx__kernel_interrupt(c->kernel);
        insist(c, ABX__STOP_MS);
    } else if (what == ABX__CONTEXT_AGAIN) {
        if (c->kernel && r->begun)
            abx__kernel_interrupt(c->kernel);
        set_timer(c, ABX__CONTEXT_KILL, c->stop_ms);
    } else if (what == ABX__CONTEXT_KILL) {
        stop_kernel(c, "did not stop when its code was interrupted, so it was ended");
    }
}

int abx__context_interrupt(abx__context *c)
{
    abx__run *r = current(c);
    if (!r)
        return 0;
    if (r->interrupted) {
        stop_kernel(c, "did not stop when its code was interrupted, so it was ended");
        return 2;
    }
    r->interrupted = true;
    if (c->kernel && r->begun)
        abx__kernel_interrupt(c->kernel);
    return 1;
}

/* --- the client's side of a run --------------------------------------------------------------------------------- */
static void run_writable(abx_e2b_call *call, void *data)
{
    (void)call;
    abx__run *r = data;
    if (r == current(r->context) && r->context->kernel)
        abx__kernel_resume(r->context->kernel);
}

/* Nobody waits for it any more: out of the queue, or interrupted. */
static void run_closed(abx_e2b_call *call, bool expired, void *data)
{
    (void)call;
    (void)expired;
    abx__run *r = data;
    abx__context *c = r->context;
    r->call = NULL;
    r->code = NULL;
    r->env = NULL;
    if (r != current(c)) {
        run_free(r);
        return;
    }
    if (!r->sent) {
        end_run(c);
        next_run(c);
        return;
    }
    if (!r->interrupted)
        (void)abx__context_interrupt(c);
    insist(c, ABX__ABANDONED_MS);
    if (c->kernel && c->kernel->held)
        abx__kernel_resume(c->kernel);
}

static const abx_e2b_call_handlers RUN_HANDLERS = {.on_writable = run_writable,
                                                   .on_close = run_closed};

void abx__context_run(abx__context *c, abx__run *r)
{
    r->context = c;
    abx_link_append(&c->runs, &r->node);
    c->run_count++;
    abx_e2b_call_handle(r->call, &RUN_HANDLERS, r);
    next_run(c);
}

/* Let the kernel go; a run that has begun ends with this error. */
static void drop_kernel(abx__context *c, const char *name, const char *text)
{
    abx__run *r = current(c);
    if (c->kernel)
        abx__kernel_drop(ABX_TAKE(c->kernel));
    c->ended = NULL;
    free(ABX_TAKE(c->fresh));
    for (size_t i = 0; i < 2; i++)
        abx_buf_clear(&c->late[i]);
    if (!r)
        return;
    r->state_lost = true;
    abx__line_error(r, name, text, -1);
    end_run(c);
}

/* --- from the queue to the kernel ---------------------------------------------------------------------------------- */
static void send_env(abx__kernel *k, yyjson_val *env)
{
    yyjson_obj_iter it = yyjson_obj_iter_with(env);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&it));) {
        const char *value = yyjson_get_str(yyjson_obj_iter_get_val(key));
        ABX_AUTO_FREE char *pair = abx_format("%s=%s", yyjson_get_str(key), value ? value : "");
        abx__kernel_send(k, "__abx_env", pair, strlen(pair));
    }
}

static void send_run(abx__context *c)
{
    abx__run *r = current(c);
    r->sent = true;
    for (size_t i = 0; i < 2; i++) {
        if (c->late[i].len > 0 && abx__line_output(r, i, c->late[i].data, c->late[i].len) == 0)
            c->kernel->held = true;
        abx_buf_clear(&c->late[i]);
    }
    send_env(c->kernel, r->env);
    abx__kernel_send(c->kernel, r->abx ? "__abx_run" : "__abx_run_e2b", r->code, r->code_len);
    if (c->language->commands)
        abx__kernel_command(c->kernel, c->language->commands, strlen(c->language->commands));
}

static void next_run(abx__context *c)
{
    while (!c->busy && !c->gone && c->runs.next != &c->runs) {
        abx__run *r = ABX_OF(c->runs.next, abx__run, node);
        int status = 0;
        char text[1024];
        if (c->kernel && c->kernel->broken)
            drop_kernel(c, "", "");
        if (!c->kernel && abx__kernel_start(c, &status, text) < 0) {
            abx_e2b_call *call = r->call;
            run_free(r);
            abx_e2b_refuse(call, status, "%s", text);
            continue;
        }
        c->busy = true;
        if (r->timeout_ms != ABX_FOREVER)
            set_timer(c, ABX__CONTEXT_DEADLINE, r->timeout_ms);
        if (c->kernel->ready)
            send_run(c);
    }
}

/* --- what the kernel tells ------------------------------------------------------------------------------------------ */
void abx__context_ready(abx__context *c)
{
    abx__run *r = current(c);
    if (!r || r->sent)
        return;
    send_run(c);
}

bool abx__context_is_beginning(const abx__context *c)
{
    const abx__run *r = c->busy ? ABX_OF(c->runs.next, abx__run, node) : NULL;
    return r && r->sent && !r->begun;
}

/* The newest of what comes while nothing runs is kept for the next run. */
static void keep_late(abx_buf *late, const uint8_t *bytes, size_t n)
{
    if (n > ABX__MAX_LATE) {
        bytes += n - ABX__MAX_LATE;
        n = ABX__MAX_LATE;
    }
    if (late->len + n > ABX__MAX_LATE)
        abx_buf_drop(late, late->len + n - ABX__MAX_LATE);
    ABX_CHECK(abx_buf_add(late, bytes, n) == 0);
}

int abx__context_output(abx__context *c, size_t stream, const uint8_t *bytes, size_t n)
{
    abx__run *r = current(c);
    if (r && r->sent)
        return abx__line_output(r, stream, bytes, n);
    if (c->kernel && c->kernel->ready) /* what it says while it starts is not the user's */
        keep_late(&c->late[stream], bytes, n);
    return 1;
}

int abx__context_line(abx__context *c, uint8_t *bytes, size_t n, bool last)
{
    abx__run *r = current(c);
    if (!r || !r->sent)
        return 1;
    if (!r->begun) {
        r->begun = true;
        if (r->interrupted) /* before there was anything to interrupt */
            abx__kernel_interrupt(c->kernel);
    }
    if (!r->call)
        return 1;
    for (size_t i = 0; i < n; i++) /* a line of its own for each frame, whatever is in it */
        if (bytes[i] < 0x20)
            bytes[i] = ' ';
    if (!r->in_line)
        abx__line_tails(r);
    r->in_line = !last;
    int rc = abx_e2b_send_lines(r->call, bytes, n);
    return last ? abx_e2b_send_lines(r->call, "\n", 1) : rc;
}

void abx__context_done(abx__context *c, int status)
{
    abx__run *r = current(c);
    if (!r || !r->sent)
        return;
    char text[64];
    if (status != 0 && r->interrupted) {
        abx__line_error(r, "Interrupted", "the code was interrupted", -1);
    } else if (status != 0) {
        (void)snprintf(text, sizeof(text), "exit status %d", status);
        abx__line_error(r, "CommandFailed", text, status & 0xff);
    }
    end_run(c);
    next_run(c);
}

static char *end_text(const abx__context *c, int status)
{
    static const char lost[] = "; its state is lost, the next run starts a fresh one";
    const char *name = c->language->name;
    char sig[16];
    if (c->ended)
        return abx_format("the %s kernel %s%s", name, c->ended, lost);
    if (WIFSIGNALED(status))
        return abx_format("the %s kernel was ended by %s%s", name,
                          abx__signal_name(WTERMSIG(status), sig), lost);
    return abx_format("the %s kernel ended with exit status %d%s", name, WEXITSTATUS(status), lost);
}

void abx__context_died(abx__context *c, int status)
{
    abx__run *r = current(c);
    bool was_ready = c->kernel && c->kernel->ready;
    bool by_itself = WIFEXITED(status) && !c->ended;
    ABX_AUTO_FREE char *text = end_text(c, status);
    c->kernel = NULL;
    c->ended = NULL;
    for (size_t i = 0; i < 2; i++)
        abx_buf_clear(&c->late[i]);
    if (!r) {
        free(c->fresh);
        c->fresh = ABX_TAKE(text);
    } else {
        r->state_lost = true;
        if (!was_ready)
            abx__line_error(r, "KernelNotStarted", text, -1);
        else if (by_itself && WEXITSTATUS(status) != 0)
            abx__line_error(r, "KernelExited", text, WEXITSTATUS(status));
        else if (!by_itself)
            abx__line_error(r, "KernelDied", text, -1);
        if (!r->call) {
            free(c->fresh);
            c->fresh = ABX_TAKE(text);
        }
        end_run(c);
    }
    next_run(c);
}

/* --- restart, removal --------------------------------------------------------------------------------------------- */
void abx__context_restart(abx__context *c)
{
    drop_kernel(c, "ContextRestarting", "the context was restarted while the code ran");
    next_run(c);
}

void abx__context_remove(abx__context *c, const char *name, const char *text)
{
    c->gone = true;
    drop_kernel(c, name, text);
    while (c->runs.next != &c->runs) {
        abx__run *r = ABX_OF(c->runs.next, abx__run, node);
        abx_e2b_call *call =
            r->call; /* NOLINT(clang-analyzer-unix.Malloc): freed ones have left the list */
        run_free(r);
        abx_e2b_refuse(call, 404, "%s", text);
    }
    abx_link_remove(&c->node);
    c->envd->code->context_count--;
    uv_close((uv_handle_t *)&c->timer, context_free);
}

void abx__code_hold(abx_envd *e, bool on)
{
    if (!e->code)
        return;
    for (abx_link *n = e->code->contexts.next; n != &e->code->contexts; n = n->next) {
        abx__context *c = ABX_OF(n, abx__context, node);
        if (c->timer_is == ABX__CONTEXT_IDLE)
            continue;
        if (on) {
            c->held_ms = uv_timer_get_due_in(&c->timer);
            (void)uv_timer_stop(&c->timer);
        } else {
            set_timer(c, (int)c->timer_is, c->held_ms);
        }
    }
}

void abx__code_close(abx_envd *e)
{
    if (!e->code)
        return;
    while (e->code->contexts.next != &e->code->contexts)
        abx__context_remove(ABX_OF(e->code->contexts.next, abx__context, node), "ContextRemoved",
                            "the server is closing");
    abx__kernels_close(e);
}
