/* sandbox.metrics and sandbox.logs. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

/* --- metrics ------------------------------------------------------------------------------------------------ */
static void put_number(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v, const char *name,
                       bool whole)
{
    yyjson_val *n = abx_json_get(v, name);
    if (whole ? yyjson_is_uint(n) || (yyjson_is_sint(n) && yyjson_get_sint(n) >= 0)
              : yyjson_is_num(n) && yyjson_get_num(n) >= 0)
        abx_mut_val(d, root, name, n);
}

static void on_metrics(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    static const char *const numbers[] = {"cpuCount", "memUsed",  "memTotal",
                                          "memCache", "diskUsed", "diskTotal"};
    if (!err && !yyjson_is_arr(answer->root))
        err = abx__ctl_misfit(job->route, "it is not a list");
    yyjson_val *last = err ? NULL : yyjson_arr_get_last(answer->root);
    if (!err && !last) {
        err = abx_error_new(ABX_ERR_BACKEND, "the service has no metrics of sandbox '%s' yet",
                            job->sandbox);
        (void)abx_hint(&err, "try again in some seconds");
    } else if (!err && !yyjson_is_obj(last)) {
        err = abx__ctl_misfit(job->route, "an item is not an object");
    }
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    int64_t ms;
    if (abx_parse_rfc3339(abx_json_str(last, "timestamp", ""), &ms) == 0)
        abx_mut_val(d, root, "timestamp", abx_json_get(last, "timestamp"));
    put_number(d, root, last, "cpuUsedPct", false);
    for (size_t i = 0; i < ABX_COUNT(numbers); i++)
        put_number(d, root, last, numbers[i], true);
    abx__svc_job_end(job, d);
}

int abx__svc_metrics(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_METRICS, "GET", "/sandboxes/{id}/metrics", NULL, true,
                 on_metrics);
    return 0;
}

/* --- logs ---------------------------------------------------------------------------------------------------- */
static void put_entry(abx__svc_job *job, yyjson_val *v)
{
    yyjson_mut_val *entry = yyjson_mut_arr_add_obj(job->result, job->items);
    const char *message = abx_json_str(v, "message", NULL);
    abx_mut_str(job->result, entry, "timestamp", abx_json_str(v, "timestamp", NULL));
    abx_mut_str(job->result, entry, "level", abx_json_str(v, "level", NULL));
    abx_mut_str(job->result, entry, "message", message ? message : abx_json_str(v, "line", NULL));
    yyjson_val *fields = abx_json_get(v, "fields");
    if (yyjson_is_obj(fields) && yyjson_obj_size(fields) > 0)
        abx_mut_val(job->result, entry, "fields", fields);
}

static void on_logs(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    yyjson_val *list = err ? NULL : abx_json_get(answer->root, "logEntries"), *item;
    size_t i, n;
    if (!err && yyjson_arr_size(list) == 0) /* older ones have lines only */
        list = abx_json_get(answer->root, "logs");
    if (!err && list && !yyjson_is_arr(list))
        err = abx__ctl_misfit(job->route, "'logs' is not a list");
    if (err) {
        abx__svc_job_fail(job, err);
        return;
    }
    yyjson_mut_val *root;
    job->result = abx_mut_new(&root);
    job->items = abx_mut_arr(job->result, root, "entries");
    yyjson_arr_foreach(list, i, n, item)
    {
        if (yyjson_is_obj(item))
            put_entry(job, item);
    }
    abx__svc_job_end(job, ABX_TAKE(job->result));
}

int abx__svc_logs(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    yyjson_val *params = abx_call_params(call);
    const char *since = abx_json_str(params, "since", NULL);
    int64_t limit = abx_json_int(params, "limit", 0), ms = 0;
    if (since && abx_parse_rfc3339(since, &ms) < 0)
        return abx_fail(err, ABX_ERR_USAGE, "'since' is no time: '%s'", since);
    ABX_AUTO_FREE char *from = since ? abx_format("start=%lld", (long long)ms) : abx_strdup("");
    ABX_AUTO_FREE char *most =
        limit > 0 ? abx_format("limit=%lld", (long long)limit) : abx_strdup("");
    ABX_AUTO_FREE char *path = abx_format("/sandboxes/{id}/logs%s%s%s%s", *from || *most ? "?" : "",
                                          from, *from && *most ? "&" : "", most);
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_LOGS, "GET", path, NULL, true, on_logs);
    return 0;
}
