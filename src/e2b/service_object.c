/* Sandbox objects of a service as ours. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

#define MAX_ID 256

/* It goes into paths, hosts and headers, and from the output of one command into the arguments of another. */
static bool is_id(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n <= MAX_ID && s[n] == 0 && s[0] != '.' && s[0] != '-';
}

int abx__svc_check_sandbox(const char *route, yyjson_val *v, abx_error **err)
{
    yyjson_val *id = yyjson_obj_get(v, "sandboxID");
    if (!yyjson_is_obj(v))
        return abx_error_take(err, abx__ctl_misfit(route, "a sandbox is not an object"));
    if (!yyjson_is_str(id))
        return abx_error_take(err, abx__ctl_misfit(route, id ? "'sandboxID' is not a text"
                                                             : "'sandboxID' is missing"));
    if (!is_id(yyjson_get_str(id)) || strlen(yyjson_get_str(id)) != yyjson_get_len(id))
        return abx_error_take(err, abx__ctl_misfit(route, "'sandboxID' is no id"));
    return 0;
}

/* A time of the service as one of ours; what is no time, or the zero time of "never", is left out. */
static void put_time(yyjson_mut_doc *d, yyjson_mut_val *root, const char *name, const char *text)
{
    int64_t ms;
    char out[ABX_RFC3339_SIZE];
    if (!text || abx_parse_rfc3339(text, &ms) < 0 || ms <= 0)
        return;
    abx_format_rfc3339(ms, out);
    abx_mut_str(d, root, name, out);
}

static void put_labels(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *metadata)
{
    yyjson_mut_val *labels = abx_mut_obj(d, root, "metadata");
    yyjson_val *key, *value;
    size_t i, n;
    yyjson_obj_foreach(metadata, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (yyjson_is_str(value) && strcmp(name, ABX__SVC_NAME_LABEL) != 0)
            abx_mut_val(d, labels, name, value);
    }
}

static void put_size(yyjson_mut_doc *d, yyjson_mut_val *limits, const char *name, yyjson_val *v,
                     int64_t unit)
{
    int64_t n = yyjson_is_int(v) ? yyjson_get_sint(v) : 0;
    if (n > 0 && n <= INT64_MAX / unit)
        abx_mut_int(d, limits, name, n * unit);
}

static void put_limits(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v)
{
    yyjson_mut_val *limits = yyjson_mut_obj(d);
    put_size(d, limits, "cpus", abx_json_get(v, "cpuCount"), 1);
    put_size(d, limits, "memoryBytes", abx_json_get(v, "memoryMB"), 1024 * 1024);
    put_size(d, limits, "diskBytes", abx_json_get(v, "diskSizeMB"), 1024 * 1024);
    if (yyjson_mut_obj_size(limits) > 0)
        abx_mut_put(d, root, "limits", limits);
}

bool abx__svc_is_paused(yyjson_val *v)
{
    const char *state = abx_json_str(v, "state", "running");
    bool wakes = abx_json_bool(abx_json_get(v, "lifecycle"), "autoResume", false);
    return !wakes && (strcmp(state, "paused") == 0 || strcmp(state, "pausing") == 0);
}

void abx__svc_put_sandbox(yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v)
{
    yyjson_val *metadata = abx_json_get(v, "metadata");
    const char *state = abx_json_str(v, "state", NULL);
    const char *template_id = abx_json_str(v, "templateID", NULL);
    const char *alias = abx_json_str(v, "alias", NULL);
    abx_mut_str(d, root, "id", abx_json_str(v, "sandboxID", ""));
    abx_mut_str(d, root, "name", abx_json_str(metadata, ABX__SVC_NAME_LABEL, NULL));
    /* what is between the two is on its way to them; a sandbox that an answer of connect tells of runs */
    if (abx_str_eq(state, "pausing"))
        state = "paused";
    abx_mut_str(d, root, "state", abx_str_eq(state, "paused") ? state : "running");
    abx_mut_str(d, root, "template", alias && *alias ? alias : template_id);
    if (alias && *alias)
        abx_mut_str(d, root, "templateId", template_id);
    put_time(d, root, "createdAt", abx_json_str(v, "startedAt", NULL));
    /* the end of a paused one is the time of its pause */
    put_time(d, root, abx_str_eq(state, "paused") ? "pausedAt" : "expiresAt",
             abx_json_str(v, "endAt", NULL));
    abx_mut_str(d, root, "onTimeout",
                abx_json_str(abx_json_get(v, "lifecycle"), "onTimeout", NULL));
    if (yyjson_is_obj(metadata))
        put_labels(d, root, metadata);
    put_limits(d, root, v);
}
