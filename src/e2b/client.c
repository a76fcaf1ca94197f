#include "e2b/client_inner.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* What goes into a header line must not end it. */
static bool is_line(const char *s)
{
    for (; s && *s; s++)
        if (iscntrl((unsigned char)*s))
            return false;
    return true;
}

static char *without_slash(const char *url)
{
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        n--;
    return abx_strndup(url, n);
}

/* "HOST:PORT" */
static int check_place(const char *place, abx_error **err)
{
    const char *colon = place ? strrchr(place, ':') : NULL;
    uint64_t port = 0;
    if (!place || (colon && colon > place && abx_parse_uint(colon + 1, 65535, &port) == 0 && port))
        return 0;
    return abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "'%s' is no HOST:PORT to connect to", place);
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void abx_envd_client_tokens(abx_envd_client *c, const char *token, const char *traffic_token)
{
    free_secret(c->token);
    free_secret(c->traffic_token);
    c->token = abx_strdup(token);
    c->traffic_token = abx_strdup(traffic_token);
}

static void client_free(abx_envd_client *c)
{
    free(c->base_url);
    free(c->code_url);
    free(c->sandbox_id);
    free_secret(c->token);
    free_secret(c->traffic_token);
    free(c->default_user);
    free(c);
}

int abx_envd_client_open(const abx_envd_client_options *o, abx_envd_client **out, abx_error **err)
{
    const char *id = o->sandbox_id ? o->sandbox_id : "";
    const char *const lines[] = {id,          o->token,    o->traffic_token,
                                 o->base_url, o->code_url, o->connect_to};
    for (size_t i = 0; i < ABX_COUNT(lines); i++)
        if (!is_line(lines[i]))
            return abx_fail(err, ABX_ERR_PROVIDER_CONFIG,
                            "the token or the address of sandbox '%s' has control characters", id);
    if (abx__envd_check_user(o->default_user, err) < 0 || check_place(o->connect_to, err) < 0)
        return -1;
    abx_envd_client *c = ABX_NEW(abx_envd_client);
    c->loop = o->loop;
    c->base_url = without_slash(o->base_url);
    c->code_url = without_slash(o->code_url ? o->code_url : o->base_url);
    c->sandbox_id = abx_strdup(id);
    c->token = abx_strdup(o->token);
    c->traffic_token = abx_strdup(o->traffic_token);
    c->default_user = o->default_user && *o->default_user ? abx_strdup(o->default_user) : NULL;
    c->version = o->version ? abx__envd_version(o->version) : ABX__ENVD_ANY;
    c->upload = o->upload;
    c->stream_input = o->abx || o->stream_input;
    c->poll_watch = o->poll_watch;
    c->codec = o->codec;
    c->abx = o->abx;
    c->local = o->dial != NULL;
    c->dial = o->dial;
    c->alive = o->alive;
    c->explain = o->explain;
    c->explain_data = o->explain_data;
    c->look = o->look;
    c->look_data = o->look_data;
    c->dial_data = o->dial_data;
    c->log = o->log;
    abx_http_options http = {.dial = o->dial,
                             .dial_data = o->dial_data,
                             .connect_to = o->connect_to,
                             .max_head_bytes = ABX__ENVD_MAX_HEAD,
                             .log = o->log};
    if (abx_http_open(o->loop, &http, &c->http, err) < 0) {
        client_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

static void on_http_closed(void *data)
{
    abx_envd_client *c = data;
    if (c->close_cb)
        c->close_cb(c->close_data);
    client_free(c);
}

/* End all that runs, each call with an error like this one (taken over). */
static void fail_jobs(abx_envd_client *c, abx_error *why)
{
    while (c->jobs) {
        abx__envd_job *job = c->jobs;
        c->jobs = job->next;
        abx__envd_job_end_with(job, abx_error_copy(why)); /* nobody is asked any more */
        job->client = NULL;
        job->at = NULL;
        job->next = NULL;
    }
    abx_error_free(why);
}

void abx_envd_client_gone(abx_envd_client *c)
{
    fail_jobs(c, abx_error_new(ABX_ERR_SANDBOX_ENDED, "sandbox '%s' ended while the call ran",
                               c->sandbox_id));
}

void abx_envd_client_told(abx_envd_client *c, const abx_error *why)
{
    abx__envd_job *next;
    c->looking = false;
    for (abx__envd_job *job = c->jobs; job; job = next) {
        next = job->next;
        abx__envd_job_settle(job, why);
    }
}

void abx_envd_client_close(abx_envd_client *c, void (*cb)(void *data), void *data)
{
    ABX_CHECK(!c->closing);
    c->closing = true;
    c->close_cb = cb;
    c->close_data = data;
    fail_jobs(c, abx_error_new(ABX_ERR_CANCELLED, "the client was closed"));
    abx_http_close(c->http, on_http_closed, c);
}

static const abx__envd_op *op_of(abx_op_id id)
{
    switch (id) {
    case ABX_OP_PROCESS_START: return &abx__envd_process_start;
    case ABX_OP_PROCESS_ATTACH: return &abx__envd_process_attach;
    case ABX_OP_PROCESS_DETACH: return &abx__envd_process_detach;
    case ABX_OP_PROCESS_SIGNAL: return &abx__envd_process_signal;
    case ABX_OP_PROCESS_LIST: return &abx__envd_process_list;
    case ABX_OP_PROCESS_STDIN: return &abx__envd_process_stdin;
    case ABX_OP_PROCESS_CLOSE_STDIN: return &abx__envd_process_close_stdin;
    case ABX_OP_FS_READ: return &abx__envd_fs_read;
    case ABX_OP_FS_WRITE: return &abx__envd_fs_write;
    case ABX_OP_FS_STAT: return &abx__envd_fs_stat;
    case ABX_OP_FS_LIST: return &abx__envd_fs_list;
    case ABX_OP_FS_MAKE_DIR: return &abx__envd_fs_make_dir;
    case ABX_OP_FS_RENAME: return &abx__envd_fs_rename;
    case ABX_OP_FS_REMOVE: return &abx__envd_fs_remove;
    case ABX_OP_FS_WATCH: return &abx__envd_fs_watch;
    case ABX_OP_SANDBOX_METRICS: return &abx__envd_metrics;
    case ABX_OP_SANDBOX_TUNNEL: return &abx__envd_tunnel;
    case ABX_OP_PTY_OPEN: return &abx__envd_pty_open;
    case ABX_OP_PTY_WRITE: return &abx__envd_pty_write;
    case ABX_OP_PTY_RESIZE: return &abx__envd_pty_resize;
    case ABX_OP_PTY_CLOSE: return &abx__envd_pty_close;
    case ABX_OP_CODE_RUN: return &abx__envd_code_run;
    case ABX_OP_CODE_INTERRUPT: return &abx__envd_code_interrupt;
    case ABX_OP_CODE_CONTEXT_CREATE: return &abx__envd_context_create;
    case ABX_OP_CODE_CONTEXT_LIST: return &abx__envd_context_list;
    case ABX_OP_CODE_CONTEXT_RESTART: return &abx__envd_context_restart;
    case ABX_OP_CODE_CONTEXT_REMOVE: return &abx__envd_context_remove;
    default: return NULL;
    }
}

int abx_envd_client_start(abx_envd_client *c, abx_call *call, abx_error **err)
{
    const abx_op_row *row = abx_call_op(call);
    const abx__envd_op *op = op_of(row->id);
    if (!op)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING, "a sandbox does not answer '%s' itself",
                        row->method);
    if (c->closing)
        return abx_fail(err, ABX_ERR_CANCELLED, "the client was closed");
    return abx__envd_job_run(c, call, op, err);
}
