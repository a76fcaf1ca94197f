/* sandbox.list: all pages of GET /v2/sandboxes, running and paused ones. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

#define PAGE "100"

/* --- the filter --------------------------------------------------------------------------------------------- */
/* Keys and values are escaped, then the form they make, then the query's value: three layers. Owned, or NULL without labels. */
static char *filter(yyjson_val *labels)
{
    ABX_AUTO_BUF form = ABX_BUF(SIZE_MAX);
    yyjson_val *key, *value;
    size_t i, n;
    yyjson_obj_foreach(labels, i, n, key, value)
    {
        ABX_AUTO_FREE char *k = abx_percent_encode(yyjson_get_str(key), "");
        ABX_AUTO_FREE char *v = abx_percent_encode(yyjson_get_str(value), "");
        ABX_AUTO_FREE char *k2 = abx_percent_encode(k, "");
        ABX_AUTO_FREE char *v2 = abx_percent_encode(v, "");
        ABX_CHECK(abx_buf_addf(&form, "%s%s=%s", form.len ? "&" : "", k2, v2) == 0);
    }
    return form.len > 0 ? abx_percent_encode(abx_buf_cstr(&form), "") : NULL;
}

/* Does a sandbox have all these labels? Asked here too: not every service can be relied on. */
static bool has_labels(yyjson_val *sandbox, yyjson_val *labels)
{
    yyjson_val *metadata = abx_json_get(sandbox, "metadata"), *key, *value;
    size_t i, n;
    yyjson_obj_foreach(labels, i, n, key, value)
    {
        const char *have = abx_json_str(metadata, yyjson_get_str(key), NULL);
        if (!abx_str_eq(have, yyjson_get_str(value)))
            return false;
    }
    return true;
}

/* --- pages --------------------------------------------------------------------------------------------------- */
static void send_page(abx__svc_job *job, const char *cursor);

static int take_page(abx__svc_job *job, yyjson_val *page, abx_error **err)
{
    yyjson_val *labels = job->call ? abx_json_get(abx_call_params(job->call), "metadata") : NULL;
    yyjson_val *item;
    size_t i, n;
    if (!yyjson_is_arr(page))
        return abx_error_take(err, abx__ctl_misfit(job->route, "it is not a list"));
    yyjson_arr_foreach(page, i, n, item)
    {
        if (abx__svc_check_sandbox(job->route, item, err) < 0)
            return -1;
        if (!has_labels(item, labels))
            continue;
        yyjson_mut_val *box = yyjson_mut_arr_add_obj(job->result, job->items);
        abx__svc_put_sandbox(job->result, box, item);
    }
    return 0;
}

static void on_page(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (!err)
        (void)take_page(job, answer->root, &err);
    const char *next = abx__svc_next_page(job, answer, &err);
    if (err)
        abx__svc_job_fail(job, err);
    else if (next)
        send_page(job, next);
    else
        abx__svc_job_end(job, ABX_TAKE(job->result));
}

static void send_page(abx__svc_job *job, const char *cursor)
{
    const abx_e2b_dialect *dialect = job->service->dialect;
    yyjson_val *params = abx_call_params(job->call);
    ABX_AUTO_FREE char *labels =
        dialect->no_filter ? NULL : filter(abx_json_get(params, "metadata"));
    ABX_AUTO_FREE char *from = cursor ? abx_percent_encode(cursor, "") : NULL;
    const char *method = "GET";
    ABX_AUTO_FREE char *route =
        abx__svc_route(job->service, ABX_OP_SANDBOX_LIST, "/v2/sandboxes", NULL, &method);
    char *path =
        abx_format("%s%sstate=running,paused%s%s%s%s%s", route, strchr(route, '?') ? "&" : "?",
                   dialect->no_cursor ? "" : "&limit=" PAGE, labels ? "&metadata=" : "",
                   labels ? labels : "", from ? "&nextToken=" : "", from ? from : "");
    abx__svc_send send = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_SERVICE,
                          .then = on_page};
    abx__svc_job_send(job, &send);
}

int abx__svc_list(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    abx__svc_job *job = abx__svc_job_new(s, call);
    yyjson_mut_val *root;
    job->result = abx_mut_new(&root);
    job->items = abx_mut_arr(job->result, root, "sandboxes");
    send_page(job, NULL);
    return 0;
}
