/* The started end: one request on descriptor 3, one sandbox, one answer. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/starter.h"
#include "local/starter_message.h"
#include "local/template/work.h"

#define PAIR 3

/* The answer, and the first connection with its first byte when the sandbox is tied to it. */
static void send_answer(yyjson_mut_doc *d, int first_fd)
{
    ABX_AUTO_BUF out = ABX_BUF(ABX_STARTER_MAX + 4);
    if (abx_starter_frame(yyjson_mut_doc_get_root(d), &out) < 0)
        return;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control));
    struct iovec io = {out.data, 1};
    struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1};
    if (first_fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &first_fd, sizeof(int));
    }
    if (sendmsg(PAIR, &msg, MSG_NOSIGNAL) == 1)
        (void)!abx_write_full(PAIR, out.data + 1, out.len - 1);
}

static void answer_error(const abx_error *err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_put(d, root, "error", abx_error_json(d, err));
    send_answer(d, -1);
}

typedef struct job {
    bool tied, failed;
} job;

static void on_created(void *data, yyjson_val *info, int first_fd, const abx_error *err)
{
    job *j = (job *)data;
    if (err) {
        j->failed = true;
        answer_error(err);
        return;
    }
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_val(d, root, "info", info);
    send_answer(d, j->tied ? first_fd : -1);
    abx_close_fd(&first_fd);
}

static yyjson_doc *read_request(abx_error **err)
{
    ABX_AUTO_BUF in = ABX_BUF(ABX_STARTER_MAX + 4);
    yyjson_doc *doc = NULL;
    for (;;) {
        int rc = abx_starter_parse(&in, &doc, err);
        if (rc != 0)
            return rc < 0 ? NULL : doc;
        uint8_t *room = abx_buf_room(&in, 4096);
        ssize_t n = room ? read(PAIR, room, 4096) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            abx_fail(err, ABX_ERR_USAGE, "this verb is called by abx itself only");
            return NULL;
        }
        abx_buf_grow(&in, (size_t)n);
    }
}

/* Look at the layers for a program that may not fork. */
static int examine(uv_loop_t *loop, yyjson_val *request, abx_error **err)
{
    abx_local *local = NULL;
    abx_local_options options = {
        .loop = loop, .home = abx_json_str(request, "home", NULL), .may_fork = true};
    if (abx_local_open(&options, &local, err) < 0)
        return -1;
    ABX_AUTO_JSON found = abx_local_doctor(local, err);
    abx_local_close(local);
    if (!found)
        return -1;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_val(d, root, "result", yyjson_doc_get_root(found));
    send_answer(d, -1);
    return 0;
}

static int serve(uv_loop_t *loop, yyjson_val *request, abx_error **err)
{
    abx_local_spec spec;
    ABX_AUTO_FREE const char **weaker = NULL;
    abx_local *local = NULL;
    abx_local_options options = {
        .loop = loop, .home = abx_json_str(request, "home", NULL), .may_fork = true};
    if (abx_local_open(&options, &local, err) < 0)
        return -1;
    abx_starter_read_spec(abx_json_get(request, "spec"), &spec, &weaker);
    job j = {spec.tied, false};
    int rc = abx_local_create(local, &spec, on_created, &j, err);
    uv_run(loop, UV_RUN_DEFAULT);
    abx_local_close(local);
    return rc;
}

int abx_local_starter_main(void)
{
    uv_loop_t loop;
    ABX_AUTO_ERROR err = NULL;
    if (fcntl(PAIR, F_SETFD, FD_CLOEXEC) < 0)
        return abx_err_row_of(ABX_ERR_USAGE)->exit_code;
    ABX_AUTO_JSON request = read_request(&err);
    if (!request || uv_loop_init(&loop) < 0) {
        answer_error(err);
        return 1;
    }
    const char *work = abx_json_str(yyjson_doc_get_root(request), "job", NULL);
    bool doctor = abx_str_eq(work, "doctor");
    if (work && !doctor)
        abx_work_main(yyjson_doc_get_root(request), PAIR);
    if ((doctor ? examine : serve)(&loop, yyjson_doc_get_root(request), &err) < 0)
        answer_error(err);
    uv_loop_close(&loop);
    return 0;
}
