/* The objects of the control plane, made of what the provider says of a sandbox and what the door knows of it. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/secure.h"

#define CENTURY_MS ((int64_t)36525 * 24 * 3600 * 1000) /* where there is no end */
#define MIB        ((int64_t)1024 * 1024)

const char *e2b_box_template(const e2b_box *box)
{
    const char *own = abx_json_str(yyjson_doc_get_root(box->notes), "template", NULL);
    return own ? own : abx_json_str(yyjson_doc_get_root(box->seen), "template", "base");
}

yyjson_val *e2b_box_metadata(const e2b_box *box)
{
    yyjson_val *own = abx_json_get(yyjson_doc_get_root(box->notes), "metadata");
    return own ? own : abx_json_get(yyjson_doc_get_root(box->seen), "metadata");
}

static void add_time(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, int64_t ms)
{
    char text[ABX_RFC3339_SIZE];
    abx_format_rfc3339(ms, text);
    abx_mut_str(d, o, name, text);
}

/* Where its ports are names of their own. Without TLS: null, the client's own idea. */
static void add_domain(yyjson_mut_doc *d, yyjson_mut_val *o, const e2b_box *box)
{
    const char *domain = e2b_secure_domain(box->door);
    abx_mut_put(d, o, "domain", domain ? yyjson_mut_strcpy(d, domain) : yyjson_mut_null(d));
}

yyjson_mut_val *e2b_view_sandbox(yyjson_mut_doc *d, e2b_box *box)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    yyjson_mut_doc_set_root(d, o);
    abx_mut_str(d, o, "templateID", e2b_box_template(box));
    abx_mut_str(d, o, "alias", e2b_box_template(box));
    abx_mut_str(d, o, "sandboxID", box->id);
    abx_mut_str(d, o, "clientID", E2B_CLIENT_ID);
    abx_mut_str(d, o, "envdVersion", E2B_ENVD_VERSION);
    add_domain(d, o, box);
    abx_mut_str(d, o, "envdAccessToken", box->token);
    abx_mut_str(d, o, "trafficAccessToken", box->traffic_token);
    return o;
}

/* Sizes as far as they are known: its limits, else what was measured; 0: not known. */
static void add_sizes(yyjson_mut_doc *d, yyjson_mut_val *o, const e2b_box *box)
{
    yyjson_val *limits = abx_json_get(yyjson_doc_get_root(box->seen), "limits");
    yyjson_val *cpus = abx_json_get(limits, "cpus");
    int64_t count = yyjson_is_num(cpus) ? (int64_t)(yyjson_get_num(cpus) + 0.999) : 0;
    int64_t memory = abx_json_int(limits, "memoryBytes", 0) / MIB;
    int64_t disk = abx_json_int(limits, "diskBytes", 0) / MIB;
    e2b_samples_sizes(box, &count, &memory, &disk);
    abx_mut_int(d, o, "cpuCount", count);
    abx_mut_int(d, o, "memoryMB", memory);
    abx_mut_int(d, o, "diskSizeMB", disk);
}

yyjson_mut_val *e2b_view_listed(yyjson_mut_doc *d, e2b_box *box)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    int64_t ends = box->ends_ms;
    if (ends == 0 || ends == INT64_MAX)
        ends = box->started_ms + CENTURY_MS;
    abx_mut_str(d, o, "templateID", e2b_box_template(box));
    abx_mut_str(d, o, "alias", e2b_box_template(box));
    abx_mut_str(d, o, "sandboxID", box->id);
    abx_mut_str(d, o, "clientID", E2B_CLIENT_ID);
    add_time(d, o, "startedAt", box->started_ms);
    add_time(d, o, "endAt", ends);
    add_sizes(d, o, box);
    abx_mut_str(d, o, "state", box->state == E2B_PAUSED ? "paused" : "running");
    abx_mut_str(d, o, "envdVersion", E2B_ENVD_VERSION);
    if (e2b_box_metadata(box))
        abx_mut_val(d, o, "metadata", e2b_box_metadata(box));
    else
        abx_mut_obj(d, o, "metadata");
    abx_mut_arr(d, o, "volumeMounts");
    return o;
}

yyjson_mut_val *e2b_view_detail(yyjson_mut_doc *d, e2b_box *box)
{
    yyjson_val *notes = yyjson_doc_get_root(box->notes);
    yyjson_mut_val *o = e2b_view_listed(d, box);
    yyjson_mut_doc_set_root(d, o);
    abx_mut_str(d, o, "envdAccessToken", box->token);
    if (abx_json_get(notes, "internet"))
        abx_mut_val(d, o, "allowInternetAccess", abx_json_get(notes, "internet"));
    if (abx_json_get(notes, "network"))
        abx_mut_val(d, o, "network", abx_json_get(notes, "network"));
    add_domain(d, o, box);
    yyjson_mut_val *lifecycle = abx_mut_obj(d, o, "lifecycle");
    abx_mut_bool(d, lifecycle, "autoResume", abx_json_bool(notes, "autoResume", false));
    const char *on = abx_json_str(yyjson_doc_get_root(box->seen), "onTimeout",
                                  abx_json_bool(notes, "autoPause", false) ? "pause" : "kill");
    abx_mut_str(d, lifecycle, "onTimeout", on);
    return o;
}
