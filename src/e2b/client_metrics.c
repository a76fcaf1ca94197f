/* sandbox.metrics, as envd itself counts: of the machine that it runs in. */
#include "e2b/client_inner.h"

#include "base/clock.h"
#include "base/mem.h"

#define MAX_BODY ((size_t)64 * 1024)

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__envd_job_fail(job, err);
}

/* {"ts":…,"cpu_count":2,"cpu_used_pct":1.5,"mem_total":…} → the result; NULL and *err. */
static yyjson_mut_doc *result_of(const abx__envd_job *job, yyjson_val *answer, abx_error **err)
{
    static const char *const names[][2] = {{"cpu_count", "cpuCount"}, {"mem_used", "memUsed"},
                                           {"mem_total", "memTotal"}, {"mem_cache", "memCache"},
                                           {"disk_used", "diskUsed"}, {"disk_total", "diskTotal"}};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    int64_t now = abx_json_int(answer, "ts", -1);
    char text[ABX_RFC3339_SIZE];
    if (now < 0 || now > INT64_MAX / 1000 || !abx_json_get(answer, "mem_total")) {
        (void)abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the metrics have no time or no memory");
        return NULL;
    }
    abx_format_rfc3339(now * 1000, text);
    abx_mut_str(d, root, "timestamp", text);
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        int64_t n = abx_json_int(answer, names[i][0], -1);
        if (n >= 0)
            abx_mut_int(d, root, names[i][1], n);
    }
    yyjson_val *used = abx_json_get(answer, "cpu_used_pct");
    if (yyjson_is_num(used))
        abx_mut_val(d, root, "cpuUsedPct", used);
    return ABX_TAKE(d);
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    if (!abx__envd_job_left(job, x)) {
        abx_error *why = NULL;
        if (err) {
            abx__envd_job_broken(job, err, on_broken);
        } else if (!x->good) {
            abx__envd_job_fail(job, abx__envd_answer_error(job->client, ABX__ENVD_CONTROL, x));
        } else {
            ABX_AUTO_JSON doc =
                abx_json_parse(x->body.len > 0 ? (const char *)x->body.data : "", x->body.len,
                               ABX_ERR_BACKEND_ANSWER, "the answer", &why);
            yyjson_mut_doc *result = doc ? result_of(job, yyjson_doc_get_root(doc), &why) : NULL;
            if (result)
                abx__envd_job_end(job, result);
            else
                abx__envd_job_fail(job, abx__envd_stamp(job->client, x, why));
        }
    }
    abx__envd_job_unref(job);
}

static int metrics_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_hooks hooks = {.end = on_end};
    abx__envd_request r = {.method = "GET",
                           .path = "/metrics",
                           .answer_type = "application/json",
                           .timeout_ms = ABX__ENVD_UNARY_MS,
                           .max_body = MAX_BODY,
                           .safe = true};
    if (abx__envd_need(job->client, ABX__ENVD_V(0, 1, 5), "what a sandbox uses", err) < 0)
        return -1;
    return abx__envd_job_exchange(job, &job->main, &r, &hooks, err);
}

const abx__envd_op abx__envd_metrics = {.start = metrics_start};
