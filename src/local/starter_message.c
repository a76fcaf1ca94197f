#include "local/starter_message.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

int abx_starter_frame(yyjson_mut_val *v, abx_buf *out)
{
    static const uint8_t no_length[4] = {0};
    size_t at = out->len;
    if (abx_buf_add(out, no_length, 4) < 0 || abx_json_write_mut(v, out) < 0)
        return -1;
    size_t n = out->len - at - 4;
    if (n > ABX_STARTER_MAX)
        return -1;
    for (int i = 0; i < 4; i++)
        out->data[at + (size_t)i] = (uint8_t)(n >> (24 - 8 * i));
    return 0;
}

int abx_starter_parse(const abx_buf *in, yyjson_doc **doc, abx_error **err)
{
    if (in->len < 4)
        return 0;
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        n = n << 8 | in->data[i];
    if (n > ABX_STARTER_MAX)
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "a message of the starter is too long");
    if (in->len < n + 4)
        return 0;
    *doc = abx_json_parse(in->data + 4, n, ABX_ERR_LOCAL_STATE, "a message of the starter", err);
    return *doc ? 1 : -1;
}

yyjson_mut_val *abx_starter_spec(yyjson_mut_doc *d, const abx_local_spec *spec)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "id", spec->id);
    abx_mut_str(d, o, "name", spec->name);
    abx_mut_str(d, o, "idempotencyKey", spec->idempotency_key);
    if (spec->metadata)
        abx_mut_val(d, o, "metadata", spec->metadata);
    if (spec->env)
        abx_mut_val(d, o, "env", spec->env);
    if (spec->timeout_ms <= INT64_MAX)
        abx_mut_int(d, o, "timeoutMs", (int64_t)spec->timeout_ms);
    abx_mut_int(d, o, "idleMs", (int64_t)spec->idle_ms);
    abx_mut_bool(d, o, "pauseOnLimit", spec->pause_on_limit);
    abx_mut_str(d, o, "template", spec->template_name);
    abx_mut_str(d, o, "snapshot", spec->snapshot);
    abx_mut_str(d, o, "network", spec->network);
    abx_mut_bool(d, o, "withRoot", spec->with_root);
    abx_mut_bool(d, o, "tied", spec->tied);
    const abx_local_sizes *z = &spec->sizes;
    abx_mut_int(d, o, "memoryBytes", (int64_t)z->memory_bytes);
    abx_mut_int(d, o, "diskBytes", (int64_t)z->disk_bytes);
    abx_mut_int(d, o, "cpuMillis", z->cpu_millis);
    abx_mut_int(d, o, "processes", z->processes);
    abx_mut_int(d, o, "openFiles", z->open_files);
    abx_mut_bool(d, o, "diskInMemory", z->disk_in_memory);
    yyjson_mut_val *weaker = abx_mut_arr(d, o, "weaker");
    for (size_t i = 0; i < spec->weaker_count; i++)
        yyjson_mut_arr_add_strcpy(d, weaker, spec->weaker[i]);
    return o;
}

void abx_starter_read_spec(yyjson_val *v, abx_local_spec *spec, const char ***weaker)
{
    memset(spec, 0, sizeof(*spec));
    spec->id = abx_json_str(v, "id", NULL);
    spec->name = abx_json_str(v, "name", NULL);
    spec->idempotency_key = abx_json_str(v, "idempotencyKey", NULL);
    spec->metadata = abx_json_get(v, "metadata");
    spec->env = abx_json_get(v, "env");
    int64_t timeout = abx_json_int(v, "timeoutMs", -1);
    spec->timeout_ms = timeout < 0 ? ABX_FOREVER : (uint64_t)timeout;
    spec->idle_ms = (uint64_t)abx_json_int(v, "idleMs", 0);
    spec->pause_on_limit = abx_json_bool(v, "pauseOnLimit", false);
    spec->template_name = abx_json_str(v, "template", NULL);
    spec->snapshot = abx_json_str(v, "snapshot", NULL);
    spec->network = abx_json_str(v, "network", NULL);
    spec->with_root = abx_json_bool(v, "withRoot", false);
    spec->tied = abx_json_bool(v, "tied", false);
    spec->sizes = (abx_local_sizes){
        .memory_bytes = (uint64_t)abx_json_int(v, "memoryBytes", 0),
        .disk_bytes = (uint64_t)abx_json_int(v, "diskBytes", 0),
        .cpu_millis = (uint32_t)abx_json_int(v, "cpuMillis", 0),
        .processes = (uint32_t)abx_json_int(v, "processes", 0),
        .open_files = (uint32_t)abx_json_int(v, "openFiles", 0),
        .disk_in_memory = abx_json_bool(v, "diskInMemory", false),
    };
    yyjson_val *list = abx_json_get(v, "weaker"), *item;
    const char **names = (const char **)abx_alloc_array(yyjson_arr_size(list) + 1, sizeof(*names));
    size_t i, max;
    yyjson_arr_foreach(list, i, max, item)
    {
        if (yyjson_is_str(item))
            names[spec->weaker_count++] = yyjson_get_str(item);
    }
    spec->weaker = *weaker = names;
}
