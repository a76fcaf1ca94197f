/* Metrics: the provider tells what a sandbox uses now; the door keeps samples of it. A box that is asked about is looked at every 5 s
 * from then on for a quarter of an hour, any other once a minute. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"

#define TICK_MS     5000
#define RARE_MS     60000
#define INTEREST_MS (15 * 60 * 1000)
#define KEPT        360
#define AT_ONCE     16
#define IDS_MOST    100
#define MIB         ((int64_t)1024 * 1024)

typedef struct sample {
    int64_t ms; /* wall clock */
    double cpu_pct;
    int64_t cpus, mem_used, mem_total, mem_cache, disk_used, disk_total;
} sample;

typedef struct e2b_samples {
    uint64_t asked_ms; /* monotonic: somebody wanted them; 0: nobody yet */
    uint64_t taken_ms; /* monotonic: of the last one */
    bool busy, unsupported;
    size_t count, at, room; /* a ring once room is KEPT */
    sample *items;
} e2b_samples;

void e2b_samples_free(e2b_samples *s)
{
    if (s)
        free(s->items);
    free(s);
}

static e2b_samples *samples_of(e2b_box *box)
{
    if (!box->samples)
        box->samples = ABX_NEW(e2b_samples);
    return box->samples;
}

/* The i-th, the oldest first. */
static const sample *sample_at(const e2b_samples *s, size_t i)
{
    return &s->items[(s->at + i) % s->room];
}

static void keep(e2b_samples *s, const sample *one)
{
    if (s->count == s->room && s->room < KEPT) { /* not a ring yet: at is 0 */
        s->room = s->room ? s->room * 2 : 8;
        s->room = s->room > KEPT ? KEPT : s->room;
        s->items = abx_realloc(s->items, s->room * sizeof *s->items);
    }
    s->items[(s->at + s->count) % s->room] = *one;
    if (s->count < s->room)
        s->count++;
    else
        s->at = (s->at + 1) % s->room;
}

static int64_t whole(yyjson_val *o, const char *name)
{
    yyjson_val *v = abx_json_get(o, name);
    double n = yyjson_is_num(v) ? yyjson_get_num(v) : 0;
    return n > 0 && n < 9e18 ? (int64_t)n : 0;
}

static void read_sample(yyjson_val *o, sample *out)
{
    yyjson_val *pct = abx_json_get(o, "cpuUsedPct");
    const char *time = abx_json_str(o, "timestamp", "");
    *out = (sample){.ms = abx_now_wall_ms(),
                    .cpu_pct = yyjson_is_num(pct) ? yyjson_get_num(pct) : 0,
                    .cpus = whole(o, "cpuCount"),
                    .mem_used = whole(o, "memUsed"),
                    .mem_total = whole(o, "memTotal"),
                    .mem_cache = whole(o, "memCache"),
                    .disk_used = whole(o, "diskUsed"),
                    .disk_total = whole(o, "diskTotal")};
    (void)abx_parse_rfc3339(time, &out->ms); /* else: now */
}

/* --- taking --------------------------------------------------------------------------------------------------------- */
typedef struct taking {
    e2b_box *box; /* referenced */
    void (*cb)(void *data, const abx_error *err);
    void *data;
} taking;

static void on_metrics(void *data, yyjson_val *result, const abx_error *err)
{
    taking t = *(taking *)data;
    e2b_samples *s = t.box->samples;
    free(data);
    s->busy = false;
    s->unsupported = err && err->id == ABX_ERR_FEATURE_MISSING;
    if (result) {
        sample one;
        read_sample(result, &one);
        keep(s, &one);
    } else if (err && err->id == ABX_ERR_SANDBOX_NOT_FOUND) {
        e2b_box_suspect(t.box);
    }
    t.box->door->sampling--;
    if (t.cb)
        t.cb(t.data, err);
    e2b_box_unref(t.box);
}

static void take(e2b_box *box, void (*cb)(void *data, const abx_error *err), void *data)
{
    e2b_samples *s = samples_of(box);
    taking *t = ABX_NEW(taking);
    *t = (taking){box, cb, data};
    e2b_box_ref(box);
    s->busy = true;
    s->taken_ms = abx_now_mono_ms();
    box->door->sampling++;
    yyjson_mut_val *root;
    e2b_ask(box->door, ABX_OP_SANDBOX_METRICS, e2b_box_params(box, &root), on_metrics, t);
}

void e2b_samples_watch(e2b_box *box)
{
    if (!box->samples)
        take(box, NULL, NULL);
}

static bool is_due(const e2b_samples *s, uint64_t now)
{
    bool wanted = s->asked_ms > 0 && now - s->asked_ms < INTEREST_MS;
    return !s->busy && !s->unsupported && now - s->taken_ms >= (wanted ? TICK_MS : RARE_MS);
}

void e2b_samples_tick(e2b_door *door)
{
    uint64_t now = abx_now_mono_ms();
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (e2b_box *box = door->boxes[i]; box && door->sampling < AT_ONCE; box = box->next)
            if (box->samples && box->state == E2B_RUNNING && is_due(box->samples, now))
                take(box, NULL, NULL);
}

void e2b_samples_sizes(const e2b_box *box, int64_t *cpus, int64_t *memory, int64_t *disk)
{
    const e2b_samples *s = box->samples;
    if (!s || s->count == 0)
        return;
    const sample *last = sample_at(s, s->count - 1);
    *cpus = *cpus ? *cpus : last->cpus;
    *memory = *memory ? *memory : last->mem_total / MIB;
    *disk = *disk ? *disk : last->disk_total / MIB;
}

/* --- telling --------------------------------------------------------------------------------------------------------- */
static yyjson_mut_val *view(yyjson_mut_doc *d, const sample *s)
{
    char time[ABX_RFC3339_SIZE];
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_format_rfc3339(s->ms, time);
    abx_mut_str(d, o, "timestamp", time);
    abx_mut_int(d, o, "timestampUnix", s->ms / 1000);
    abx_mut_int(d, o, "cpuCount", s->cpus);
    abx_mut_put(d, o, "cpuUsedPct", yyjson_mut_real(d, s->cpu_pct));
    abx_mut_int(d, o, "memUsed", s->mem_used);
    abx_mut_int(d, o, "memTotal", s->mem_total);
    abx_mut_int(d, o, "memCache", s->mem_cache);
    abx_mut_int(d, o, "diskUsed", s->disk_used);
    abx_mut_int(d, o, "diskTotal", s->disk_total);
    return o;
}

/* Whole seconds since 1970 of the query; -1: it is no such number. */
static int64_t read_second(e2b_request *r, const char *name, int64_t otherwise)
{
    uint64_t n;
    ABX_AUTO_FREE char *text = e2b_query(r, name);
    if (!text || !*text)
        return otherwise;
    return abx_parse_uint(text, INT64_MAX / 1000 - 1, &n) == 0 ? (int64_t)n : -1;
}

static void answer(e2b_request *r)
{
    int64_t start = read_second(r, "start", 0), end = read_second(r, "end", INT64_MAX / 1000 - 1);
    if (start < 0 || end < 0) {
        e2b_reply_refuse(r, 400, "validation error: 'start' and 'end' are seconds since 1970");
        return;
    }
    const e2b_samples *s = r->box->samples;
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, list);
    for (size_t i = 0; s && i < s->count; i++) {
        int64_t second = sample_at(s, i)->ms / 1000;
        if (second >= start && second <= end)
            yyjson_mut_arr_append(list, view(d, sample_at(s, i)));
    }
    e2b_reply(r, 200, list);
}

static void on_taken(void *data, const abx_error *err)
{
    e2b_request *r = data;
    if (err && err->id != ABX_ERR_SANDBOX_NOT_FOUND && r->box->samples->count == 0)
        e2b_reply_error(r, err);
    else
        answer(r);
    e2b_request_unref(r);
}

static void tell(e2b_request *r)
{
    e2b_samples *s = samples_of(r->box);
    uint64_t now = abx_now_mono_ms();
    s->asked_ms = now;
    bool fresh = s->count > 0 && now - s->taken_ms < TICK_MS;
    if (fresh || s->busy || r->box->state != E2B_RUNNING) {
        answer(r);
        return;
    }
    e2b_request_ref(r);
    take(r->box, on_taken, r);
}

bool e2b_samples_first(e2b_box *box, void (*cb)(void *data, const abx_error *err), void *data)
{
    const e2b_samples *s = samples_of(box);
    if (s->count > 0 || s->unsupported || box->state != E2B_RUNNING)
        return false;
    take(box, cb, data);
    return true;
}

void e2b_do_metrics(e2b_request *r)
{
    e2b_with_box(r, false, tell);
}

/* GET /sandboxes/metrics?sandbox_ids=A,B: the last one of each. */
void e2b_do_metrics_of_many(e2b_request *r)
{
    ABX_AUTO_FREE char *ids = e2b_query(r, "sandbox_ids");
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *all = abx_mut_obj(d, root, "sandboxes");
    size_t count = 0;
    char *rest = NULL;
    for (char *id = ids ? strtok_r(ids, ",", &rest) : NULL; id; id = strtok_r(NULL, ",", &rest)) {
        const e2b_box *box = e2b_door_box(r->door, id);
        if (++count > IDS_MOST) {
            e2b_reply_refuse(r, 400, "validation error: at most %d 'sandbox_ids'", IDS_MOST);
            return;
        }
        if (box && box->samples && box->samples->count > 0)
            abx_mut_put(d, all, box->id, view(d, sample_at(box->samples, box->samples->count - 1)));
    }
    e2b_reply(r, 200, root);
}
