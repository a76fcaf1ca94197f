/* pty.resize; a terminal is opened in client_process.c, written in client_stdin.c, closed in client_signal.c. */
#include "e2b/client_inner.h"

#include "base/mem.h"

static void on_done(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    if (err)
        abx__envd_job_fail(job, err);
    else
        abx__envd_job_end(job, NULL);
}

static int resize_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/process.Process/Update",
        .request = ABX_E2B_UPDATE_REQUEST,
        .answer = ABX_E2B_UPDATE_RESPONSE,
        .kind = ABX__ENVD_INPUT,
        .timeout_ms = ABX__ENVD_UNARY_MS,
        .safe = true,
    };
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx__envd_put_selector(job->client, d, root, abx__envd_param(job, "ptyId"), err) < 0)
        return -1;
    yyjson_mut_val *size = abx_mut_obj(d, abx_mut_obj(d, root, "pty"), "size");
    abx_mut_int(d, size, "cols", abx__envd_param_int(job, "cols", 80));
    abx_mut_int(d, size, "rows", abx__envd_param_int(job, "rows", 24));
    if (job->client->abx)
        abx_mut_bool(d, root, "abx", true);
    return abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_done, err);
}

const abx__envd_op abx__envd_pty_resize = {.start = resize_start};
