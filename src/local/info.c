/* The sandbox object, as all doors show it. */
#include "base/clock.h"
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

static void add_limits(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_state *s)
{
    yyjson_mut_val *limits = abx_mut_obj(d, o, "limits");
    if (!(s->weakened & ABX_LAYER_BIT(ABX_LAYER_LIMITS))) {
        abx_mut_int(d, limits, "processes", ABX_MAX_PROCESSES);
        abx_mut_int(d, limits, "openFiles", ABX_HARD_FILES);
    }
    abx_mut_int(d, limits, "shmBytes", (int64_t)ABX_SHM_BYTES);
}

yyjson_mut_val *abx_state_object(yyjson_mut_doc *d, const abx_state *s)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    char text[ABX_RFC3339_SIZE];
    abx_mut_str(d, o, "id", s->id);
    abx_mut_str(d, o, "provider", "local");
    abx_mut_str(d, o, "name", s->name);
    abx_mut_str(d, o, "state", "running");
    abx_mut_str(d, o, "template", "host");
    abx_format_rfc3339(s->created_wall_ms, text);
    abx_mut_str(d, o, "createdAt", text);
    if (s->expires_wall_ms != INT64_MAX) {
        abx_format_rfc3339(s->expires_wall_ms, text);
        abx_mut_str(d, o, "expiresAt", text);
    }
    if (s->metadata)
        abx_mut_val(d, o, "metadata", yyjson_doc_get_root(s->metadata));
    else
        abx_mut_obj(d, o, "metadata");
    abx_local_features(d, abx_mut_obj(d, o, "features"));
    abx_mut_str(d, o, "network", "none");
    abx_mut_int(d, o, "pid", s->pid);
    abx_mut_bool(d, o, "tied", s->tied);
    add_layers(d, o, s);
    add_limits(d, o, s);
    return o;
}

yyjson_doc *abx_local_info(abx_local *local, const char *id, abx_error **err)
{
    ABX_AUTO_FD fd = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    int rc = fd < 0 || !abx_folder_alive(fd) ? 1 : abx_state_read(fd, &s, err);
    if (rc < 0)
        return NULL;
    if (rc == 1) {
        abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
        return NULL;
    }
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, abx_state_object(d, &s));
    yyjson_doc *out = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return out;
}

int abx_local_note_deadline(abx_local *local, const char *id, int64_t expires_wall_ms,
                            abx_error **err)
{
    ABX_AUTO_FD fd = abx_folder_open(local, id);
    ABX_AUTO_STATE s = {0};
    int rc = fd < 0 ? 1 : abx_state_read(fd, &s, err);
    if (rc == 1)
        return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", id);
    if (rc < 0)
        return -1;
    int64_t left = expires_wall_ms - abx_now_wall_ms();
    s.expires_wall_ms = expires_wall_ms;
    s.expires_boot_ms = abx_now_boot_ms() + (uint64_t)(left > 0 ? left : 0);
    return abx_state_write(fd, &s, err);
}
