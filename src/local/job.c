/* The asking end of a job: a started abx that works, tells, answers and ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/folder.h"
#include "local/plan.h"
#include "local/starter.h"
#include "local/starter_message.h"
#include "local/state.h"
#include "local/template/stack.h"

struct abx_local_job {
    void (*on_event)(void *data, yyjson_val *event);
    void (*on_done)(void *data, yyjson_val *result, const abx_error *err);
    void *data;
    abx_child *child;
    int pair;
    abx_buf out, in;
    size_t sent;
    uv_poll_t poll;
    bool closed, ended, is_cancelled;
    yyjson_doc *answer;
    abx_error *error;
};

static void job_free(abx_local_job *j)
{
    if (j->child)
        abx_child_release(j->child);
    abx_close_fd(&j->pair);
    abx_buf_clear(&j->out);
    abx_buf_clear(&j->in);
    yyjson_doc_free(j->answer);
    abx_error_free(j->error);
    free(j);
}

static void finish(abx_local_job *j)
{
    yyjson_val *root = j->answer ? yyjson_doc_get_root(j->answer) : NULL;
    yyjson_val *result = abx_json_get(root, "result"), *why = abx_json_get(root, "error");
    if (!j->error && !result && !why && j->is_cancelled)
        j->error = abx_error_new(ABX_ERR_CANCELLED, "cancelled");
    if (!j->error && !result)
        j->error =
            why ? abx_error_from_json(why)
                : abx_error_new(ABX_ERR_LOCAL_STATE, "the program that works on templates ended "
                                                     "without an answer");
    j->on_done(j->data, j->error ? NULL : result, j->error);
    job_free(j);
}

static void on_closed(uv_handle_t *handle)
{
    abx_local_job *j = (abx_local_job *)handle->data;
    j->closed = true;
    if (!j->child)
        finish(j);
}

static void on_child_end(abx_child *child, int status, void *data)
{
    abx_local_job *j = (abx_local_job *)data;
    (void)child;
    (void)status;
    j->child = NULL; /* its answer, or the end of the socket, says the rest */
    if (j->closed)
        finish(j);
}

static void end(abx_local_job *j, abx_error *why)
{
    if (j->ended) {
        abx_error_free(why);
        return;
    }
    j->ended = true;
    j->error = why;
    if (j->child)
        abx_child_signal(j->child, SIGKILL);
    uv_close((uv_handle_t *)&j->poll, on_closed);
}

/* What it has finished it still tells: it puts the signal off while it does that (abx_work_finishing). */
void abx_local_job_cancel(abx_local_job *j)
{
    if (j->ended || j->is_cancelled)
        return;
    j->is_cancelled = true;
    if (j->child)
        abx_child_signal(j->child, SIGTERM);
}

/* Whole frames at the start of what came. 1: the answer is there. */
static int take_frames(abx_local_job *j, abx_error **err)
{
    for (;;) {
        yyjson_doc *doc = NULL;
        int rc = abx_starter_parse(&j->in, &doc, err);
        if (rc <= 0)
            return rc;
        size_t n = 4;
        for (size_t i = 0; i < 4; i++)
            n += (size_t)j->in.data[i] << (24 - 8 * i);
        memmove(j->in.data, j->in.data + n, j->in.len - n);
        j->in.len -= n;
        yyjson_val *event = abx_json_get(yyjson_doc_get_root(doc), "event");
        if (!event) {
            j->answer = doc;
            return 1;
        }
        if (j->on_event && !j->is_cancelled)
            j->on_event(j->data, event);
        yyjson_doc_free(doc);
        if (j->ended)
            return 0;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    abx_local_job *j = (abx_local_job *)poll->data;
    (void)status;
    (void)events;
    if (j->sent < j->out.len) {
        ssize_t n = send(j->pair, j->out.data + j->sent, j->out.len - j->sent, MSG_NOSIGNAL);
        if (n > 0)
            j->sent += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            end(j, NULL);
        if (j->sent == j->out.len)
            uv_poll_start(poll, UV_READABLE, on_poll);
        return;
    }
    uint8_t *room = abx_buf_room(&j->in, 16384);
    ssize_t n = room ? recv(j->pair, room, 16384, 0) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        abx_buf_grow(&j->in, (size_t)n);
    abx_error *err = NULL;
    int rc = take_frames(j, &err);
    if (rc != 0 || n <= 0)
        end(j, err);
}

static int make_request(abx_local *local, const abx_local_job_options *o, abx_ids ids, abx_ids kind,
                        abx_buf *out, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "home", local->home);
    abx_mut_str(d, root, "job", o->job);
    abx_mut_int(d, root, "ids", ids);
    yyjson_mut_val *params = yyjson_val_mut_copy(d, o->params);
    abx_mut_int(d, params, "for", kind);
    abx_mut_put(d, root, "params", params);
    return abx_starter_frame(root, out) < 0
               ? abx_fail(err, ABX_ERR_TOO_LARGE, "the parameters are over 8 MiB")
               : 0;
}

/* The ids of a sandbox (abx_ids); -1: it does not live. */
static int ids_of_sandbox(abx_local *local, const char *id)
{
    ABX_AUTO_FD folder = abx_folder_open(local, id);
    ABX_AUTO_STATE state = {0};
    return folder < 0 || abx_state_read(folder, &state, NULL) != 0 ? -1 : state.ids;
}

/* Which ids the work needs: those of the sandboxes that the files are for; and of a snapshot's sandbox, whatever they are. */
static abx_ids ids_of(abx_local *local, const abx_local_job_options *o, abx_ids kind)
{
    abx_store s;
    if (strcmp(o->job, "snapshot_create") == 0) {
        int of_sandbox = ids_of_sandbox(local, abx_json_str(o->params, "sandboxId", ""));
        return of_sandbox < 0 ? kind : (abx_ids)of_sandbox;
    }
    const char *word = abx_json_str(o->params, "template", NULL);
    abx_ids ids = kind;
    if (abx_has_suffix(
            o->job,
            "_remove")) /* as the caller himself: what is of the range is removed by range_remove.h */
        return ABX_IDS_SLOT;
    if (strcmp(o->job, "template_prepare") != 0 || !word ||
        abx_store_open(local, false, &s, NULL) < 0)
        return ids;
    abx_stack *stack = abx_stack_find(&s, word, NULL, kind, NULL);
    if (stack && stack->range_only)
        ids = ABX_IDS_RANGE;
    abx_stack_free(stack);
    abx_store_close(&s);
    return ids;
}

int abx_local_job_start(abx_local *local, const abx_local_job_options *o, abx_local_job **out,
                        abx_error **err)
{
    int ends[2] = {-1, -1};
    abx_local_job *j = ABX_NEW(abx_local_job);
    abx_ids kind = abx_ids_wanted(o->with_root);
    j->on_event = o->on_event;
    j->on_done = o->on_done;
    j->data = o->data;
    j->pair = -1;
    abx_buf_init(&j->out, ABX_STARTER_MAX + 4);
    abx_buf_init(&j->in, ABX_STARTER_MAX + 4 + 16384);
    int rc = make_request(local, o, ids_of(local, o, kind), kind, &j->out, err);
    if (rc == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        rc = abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a socket");
    if (rc == 0) {
        j->pair = ends[0];
        rc = abx_starter_spawn(local, ends[1], on_child_end, j, &j->child, err);
    }
    abx_close_fd(&ends[1]);
    if (rc == 0 && (fcntl(j->pair, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
                    uv_poll_init(local->loop, &j->poll, j->pair) < 0))
        rc = abx_fail(err, ABX_ERR_LOCAL_STATE, "cannot watch the program that works on templates");
    if (rc < 0) {
        job_free(j);
        return -1;
    }
    j->poll.data = j;
    uv_poll_start(&j->poll, UV_WRITABLE, on_poll);
    *out = j;
    return 0;
}
