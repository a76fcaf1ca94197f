/* The sandbox object, as all doors show it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "local/create.h"
#include "local/folder.h"
#include "local/trash.h"

static void add_layers(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_state *s)
{
    static const char *const ids[] = {"single", "range", "slot"};
    yyjson_mut_val *isolation = abx_mut_obj(d, o, "isolation");
    abx_mut_str(d, isolation, "ids", ids[s->ids]);
    abx_mut_str(d, isolation, "root", s->copied_root ? "copy" : "overlay");
    abx_mut_str(d, isolation, "usr", s->plain_usr ? "read-only" : "overlay");
    yyjson_mut_val *layers = abx_mut_arr(d, isolation, "layers");
    yyjson_mut_val *weakened = abx_mut_arr(d, isolation, "weakened");
    for (int i = 0; i < ABX_LAYER_COUNT; i++) {
        const char *name = abx_layer_row_of((abx_layer)i)->name;
        if (i == ABX_LAYER_RANGE && s->ids != ABX_IDS_RANGE)
            continue;
        if (s->weakened & ABX_LAYER_BIT(i))
            yyjson_mut_arr_add_strcpy(d, weakened, name);
        else
            yyjson_mut_arr_add_strcpy(d, layers, name);
    }
    if (s->upper)
        abx_mut_str(d, isolation, "upper", s->upper);
}

typedef struct limit_row {
    const char *title; /* in /proc/PID/limits */
    const char *name;
    uint64_t from; /* told where the hard limit is below this */
} limit_row;

enum { OPEN_FILES = 1 }; /* pid 1 itself keeps more of them */

static const limit_row limit_rows[] = {
    {"Max processes ", "processes", UINT64_MAX},
    {"Max open files ", "openFiles", UINT64_MAX},
    {"Max cpu time ", "cpuSeconds", UINT64_MAX}, /* of one process */
    {"Max file size ", "fileBytes", UINT64_MAX},
    {"Max address space ", "addressSpaceBytes", UINT64_MAX},
    {"Max data size ", "dataBytes", UINT64_MAX},
    {"Max stack size ", "stackBytes", 8u << 20},
};

/* The hard limit behind the title: "Max cpu time    SOFT    HARD    seconds". UINT64_MAX: none. */
static uint64_t hard_limit(const char *text, const char *title)
{
    unsigned long long hard;
    const char *at = strstr(text, title);
    return at && sscanf(at + strlen(title), " %*s %llu", &hard) == 1 ? hard : UINT64_MAX;
}

/* As the kernel tells them of pid 1: a caller's low hard limits hold in its sandbox too. */
static void add_limits(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_state *s)
{
    yyjson_mut_val *limits = abx_mut_obj(d, o, "limits");
    ABX_AUTO_FREE char *path = abx_format("/proc/%d/limits", (int)s->pid);
    ABX_AUTO_BUF text = ABX_BUF(16384);
    if (abx_read_file(path, text.max, &text, NULL) == 0) {
        const char *lines = abx_buf_cstr(&text);
        for (size_t i = 0; i < ABX_COUNT(limit_rows); i++) {
            uint64_t hard = i == OPEN_FILES && s->limits.asked.open_files < ABX_HARD_FILES
                                ? s->limits.asked.open_files
                                : hard_limit(lines, limit_rows[i].title);
            if (hard < limit_rows[i].from)
                abx_mut_int(d, limits, limit_rows[i].name, (int64_t)hard);
        }
    }
    abx_limits_show(d, limits, &s->limits);
}

/* While it is paused no clock runs: what is left is told instead of the end. */
static void add_life(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_state *s)
{
    char text[ABX_RFC3339_SIZE];
    if (s->paused) {
        abx_format_rfc3339(s->paused_wall_ms, text);
        abx_mut_str(d, o, "pausedAt", text);
        abx_mut_str(d, o, "pausedBy", s->pause_way == ABX_PAUSE_FREEZER ? "freezer" : "SIGSTOP");
        if (s->left_ms <= (uint64_t)INT64_MAX)
            abx_mut_int(d, o, "timeoutLeftMs", (int64_t)s->left_ms);
    } else if (s->expires_wall_ms != INT64_MAX) {
        abx_format_rfc3339(s->expires_wall_ms, text);
        abx_mut_str(d, o, "expiresAt", text);
    }
    if (s->idle_ms > 0)
        abx_mut_int(d, o, "idleMs", (int64_t)s->idle_ms);
    abx_mut_str(d, o, "onTimeout", s->pause_on_limit ? "pause" : "kill");
}

/* What it was made from, and what that says of its commands. */
static void add_origin(yyjson_mut_doc *d, yyjson_mut_val *o, yyjson_val *origin)
{
    yyjson_val *config = abx_json_get(origin, "config");
    const char *name = abx_json_str(origin, "name", NULL),
               *id = abx_json_str(origin, "templateId", NULL);
    abx_mut_str(d, o, "template", name ? name : id ? id : "host");
    abx_mut_str(d, o, "templateId", id);
    abx_mut_str(d, o, "snapshot", abx_json_str(origin, "snapshot", NULL));
    if (abx_json_get(config, "command"))
        abx_mut_val(d, o, "command", abx_json_get(config, "command"));
}

static void add_network(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_state *s)
{
    abx_mut_str(d, o, "network", abx_network_name(s->network));
    if (s->network == ABX_NETWORK_NONE)
        return;
    yyjson_mut_val *helper = abx_mut_obj(d, o, "networkHelper");
    abx_mut_str(d, helper, "name", s->helper.name);
    abx_mut_int(d, helper, "pid", s->helper.pid);
    abx_mut_bool(d, helper, "alive", abx_uplink_alive(&s->helper, s->boot_id));
}

yyjson_mut_val *abx_state_object(yyjson_mut_doc *d, const abx_state *s)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    char text[ABX_RFC3339_SIZE];
    abx_mut_str(d, o, "id", s->id);
    abx_mut_str(d, o, "provider", "local");
    abx_mut_str(d, o, "name", s->name);
    abx_mut_str(d, o, "state", s->paused ? "paused" : "running");
    add_origin(d, o, s->origin ? yyjson_doc_get_root(s->origin) : NULL);
    abx_format_rfc3339(s->created_wall_ms, text);
    abx_mut_str(d, o, "createdAt", text);
    add_life(d, o, s);
    if (s->metadata)
        abx_mut_val(d, o, "metadata", yyjson_doc_get_root(s->metadata));
    else
        abx_mut_obj(d, o, "metadata");
    abx_local_features(d, abx_mut_obj(d, o, "features"));
    add_network(d, o, s);
    abx_mut_int(d, o, "pid", s->pid);
    abx_mut_bool(d, o, "tied", s->tied);
    add_layers(d, o, s);
    add_limits(d, o, s);
    return o;
}

void abx_local_add_metrics(abx_local *local, const char *id, yyjson_mut_doc *d,
                           yyjson_mut_val *metrics)
{
    abx_cgroup_usage u;
    ABX_AUTO_FD folder = abx_folder_open(local, id);
    if (folder < 0 || abx_cgroup_usage_read(folder, &u) != 0 || u.memory_bytes < 0)
        return;
    yyjson_mut_obj_put(metrics, yyjson_mut_str(d, "memUsed"), yyjson_mut_sint(d, u.memory_bytes));
    yyjson_mut_obj_put(metrics, yyjson_mut_str(d, "memCache"), yyjson_mut_sint(d, u.cache_bytes));
}

yyjson_doc *abx_local_info(abx_local *local, const char *id, abx_error **err)
{
    ABX_AUTO_FD fd = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    int rc = fd < 0                  ? abx_folder_not_there(id, err)
             : !abx_folder_alive(fd) ? 1
                                     : abx_state_read(fd, &s, err);
    if (rc < 0)
        return NULL;
    if (rc == 1) {
        abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
        return NULL;
    }
    abx_state_add_record(&s, fd);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, abx_state_object(d, &s));
    yyjson_doc *out = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return out;
}
