/* The table of sandboxes. */
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/data.h"
#include "doors/e2b/life.h"

#define MADE_DIGITS 24 /* of an id that is made from the provider's */

static e2b_box **bucket(e2b_door *door, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *p = id; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    return &door->boxes[hash % E2B_BUCKETS];
}

e2b_box *e2b_door_box(e2b_door *door, const char *id)
{
    for (e2b_box *box = *bucket(door, id); box; box = box->next)
        if (strcmp(box->id, id) == 0)
            return box;
    return NULL;
}

/* Ours are ids of the same form; the first letter tells nothing, so a foreign id of that form could meet a made one only by
 * knowing a hash that fits it. */
char *e2b_id_of(const e2b_door *door, const char *host_id)
{
    if (abx_is_id(host_id))
        return abx_strdup(host_id);
    char digest[65];
    ABX_AUTO_FREE char *text = abx_format("%s\n%s", door->provider, host_id);
    abx_sha_of(text, strlen(text), digest);
    return abx_format("x%.*s", MADE_DIGITS, digest);
}

e2b_box *e2b_door_box_of(e2b_door *door, const char *host_id)
{
    ABX_AUTO_FREE char *id = e2b_id_of(door, host_id);
    return e2b_door_box(door, id);
}

static char *token_of(const e2b_door *door, const char *prefix, const char *id)
{
    ABX_AUTO_FREE char *text = abx_format("%s%s", prefix, id);
    char *token = abx_alloc(E2B_TOKEN_SIZE + 1);
    e2b_token(door, text, token);
    return token;
}

void e2b_box_read_notes(e2b_box *box)
{
    yyjson_val *notes = yyjson_doc_get_root(box->notes);
    free(box->token);
    free(box->traffic_token);
    box->token = box->traffic_token = NULL;
    if (abx_json_bool(notes, "secure", true))
        box->token = token_of(box->door, "", box->id);
    yyjson_val *open = abx_json_get(notes, "publicTraffic");
    if (open && !yyjson_is_true(open))
        box->traffic_token = token_of(box->door, "sandbox-traffic-", box->id);
    box->env = abx_json_get(notes, "env");
    box->started_ms = abx_json_int(notes, "startedAtMs", box->started_ms);
}

e2b_box *e2b_box_add(e2b_door *door, const char *host_id, yyjson_doc *notes)
{
    e2b_box *box = ABX_NEW(e2b_box);
    box->door = door;
    box->refs = 1; /* the table's */
    box->id = e2b_id_of(door, host_id);
    box->host_id = abx_strdup(host_id);
    box->notes = notes ? notes : e2b_box_unread_notes(box);
    e2b_box **at = bucket(door, box->id);
    box->next = *at;
    *at = box;
    door->box_count++;
    door->box_structs++;
    e2b_box_read_notes(box);
    return box;
}

void e2b_box_ref(e2b_box *box)
{
    box->refs++;
}

static void free_box(void *data)
{
    e2b_box *box = data;
    yyjson_doc_free(box->notes);
    yyjson_doc_free(box->seen);
    e2b_samples_free(box->samples);
    free(box->token);
    free(box->traffic_token);
    free(box->host_id);
    free(box->id);
    e2b_door *door = box->door;
    free(box);
    door->box_structs--;
    e2b_life_part_gone(door);
}

void e2b_box_unref(e2b_box *box)
{
    if (--box->refs > 0)
        return;
    if (box->data)
        e2b_data_close(box, free_box, box);
    else
        free_box(box);
}

/* Who waits for a look at it is answered before the others are broken off. */
static void break_off(e2b_box *box)
{
    if (box->looked_at)
        box->break_wanted = true;
    else if (box->data)
        e2b_data_break(box);
}

void e2b_box_looked_at(e2b_box *box, bool begins)
{
    box->looked_at = begins;
    if (!begins && box->break_wanted && box->data)
        e2b_data_break(box);
    box->break_wanted = false;
}

static void leave_table(e2b_box *box)
{
    for (e2b_box **at = bucket(box->door, box->id); *at; at = &(*at)->next)
        if (*at == box) {
            *at = box->next;
            box->door->box_count--;
            break;
        }
    break_off(box);
    e2b_box_unref(box);
}

void e2b_box_forget(e2b_box *box)
{
    if (box->state == E2B_GONE)
        return;
    box->state = E2B_GONE;
    abx_logf(box->door->log, ABX_LOG_DEBUG, "e2b: sandbox '%s' is gone", box->id);
    e2b_box_drop_notes(box);
    leave_table(box);
}

static void on_undone(void *data, yyjson_val *result, const abx_error *err)
{
    const e2b_door *door = data;
    (void)result;
    if (err)
        abx_logf(door->log, ABX_LOG_WARN, "e2b: a sandbox that must not be: %s",
                 abx_error_text(err));
}

void e2b_box_undo(e2b_box *box)
{
    yyjson_mut_val *root;
    e2b_ask(box->door, ABX_OP_SANDBOX_KILL, e2b_box_params(box, &root), on_undone, box->door);
    e2b_box_forget(box);
}

void e2b_box_let_go(e2b_box *box)
{
    box->state = E2B_GONE;
    leave_table(box);
}

void e2b_box_paused(e2b_box *box)
{
    if (box->state != E2B_RUNNING)
        return;
    box->state = E2B_PAUSED;
    break_off(box);
}

static int64_t time_of(yyjson_val *object, const char *name, int64_t otherwise)
{
    const char *text = abx_json_str(object, name, NULL);
    int64_t ms;
    return text && abx_parse_rfc3339(text, &ms) == 0 ? ms : otherwise;
}

void e2b_box_see(e2b_box *box, yyjson_val *object)
{
    if (box->state == E2B_GONE)
        return;
    yyjson_doc *seen = abx_json_copy(object);
    yyjson_doc_free(box->seen);
    box->seen = seen;
    object = yyjson_doc_get_root(seen);
    if (box->started_ms == 0)
        box->started_ms = time_of(object, "createdAt", 0);
    if (abx_str_eq(abx_json_str(object, "state", "running"), "paused")) {
        e2b_box_paused(box);
        box->ends_ms = time_of(object, "pausedAt", box->ends_ms);
        return;
    }
    box->state = E2B_RUNNING;
    int64_t ends = time_of(object, "expiresAt", INT64_MAX);
    if (ends != box->ends_ms) {
        box->ends_ms = ends;
        e2b_expiry_arm(box->door);
    }
}
