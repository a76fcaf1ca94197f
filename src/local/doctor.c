/* Trying each layer: the real set-up runs in a child, up to the point where it would serve. A layer that is refused is
 * left out and the rest tried again, so that everything which needs a fix is named at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/create.h"

typedef struct finding {
    bool ok, tried;
    int error;
    char step[104];
    char *fix;
} finding;

typedef struct checkup {
    abx_local local; /* a view of the backend with a loop of its own */
    finding layers[ABX_LAYER_COUNT];
    bool copied_root, plain_usr;
    abx_ids ids;
    const char *network; /* wanted in a try; NULL: none */
    abx_error *error;    /* of the last try, when it was no layer */
} checkup;

static void on_tried(void *data, yyjson_val *info, int first_fd, const abx_error *err)
{
    abx_error **out = (abx_error **)data;
    *out = err ? abx_error_copy(err) : NULL;
}

/* One run of the whole sequence. 0: it went through; else *layer was refused (-1: something else, see c->error). */
static int try_once(checkup *c, uint32_t weaker, bool range, abx_attempt *attempt, int *layer)
{
    char id[ABX_ID_LEN + 1];
    uv_loop_t loop;
    abx_error *err = NULL;
    *layer = -1;
    memset(attempt, 0, sizeof(*attempt));
    abx_error_free(ABX_TAKE(c->error));
    abx_random_id(id, ABX_ID_LEN);
    abx_local_spec spec = {
        .id = id, .timeout_ms = 60000, .tied = true, .with_root = range, .network = c->network};
    abx_plan *plan = abx_plan_new(&c->local, &spec, &c->error);
    if (!plan)
        return -1;
    int loop_rc = uv_loop_init(&loop);
    if (loop_rc < 0) {
        abx_plan_free(plan);
        return abx_fail_errno(&c->error, ABX_ERR_LOCAL_STATE, -loop_rc,
                              "cannot open an event loop");
    }
    plan->weaker = weaker;
    plan->only_try = true;
    c->ids = plan->ids;
    c->local.loop = &loop;
    int rc = abx_create_planned(&c->local, plan, &spec, attempt, on_tried, &err, &c->error);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    if (rc < 0)
        attempt->report.kind = ABX_REPORT_REFUSED;
    if (err)
        c->error = err;
    if (!c->error)
        return 0;
    if (attempt->report.magic == ABX_REPORT_MAGIC && attempt->report.kind == ABX_REPORT_REFUSED)
        *layer = attempt->report.layer;
    return -1;
}

/* The layer that an error names in quotes, for what was refused before there was a child to report it. */
static int layer_of(const abx_error *err)
{
    const char *at = strstr(abx_error_text(err), "layer '");
    if (!at)
        return -1;
    ABX_AUTO_FREE char *name = abx_strdup(at + 7);
    name[strcspn(name, "'")] = 0;
    return abx_layer_find(name);
}

static void note_refused(checkup *c, int layer, const abx_attempt *attempt)
{
    finding *f = &c->layers[layer];
    f->tried = true;
    f->ok = false;
    f->error = c->error->sys_errno;
    if (attempt->report.magic == ABX_REPORT_MAGIC)
        snprintf(f->step, sizeof(f->step), "%.56s: %.40s", attempt->report.step,
                 strerror(attempt->report.error));
    else
        snprintf(f->step, sizeof(f->step), "%.100s", abx_error_text(c->error));
    const char *hint = c->error->hint;
    f->fix = abx_strdup(hint);
}

/* Layers without which the others still can be tried. */
static bool can_go_on(int layer)
{
    return abx_layer_row_of((abx_layer)layer)->weaker || layer == ABX_LAYER_MASKS ||
           layer == ABX_LAYER_KEYS || layer == ABX_LAYER_DEV || layer == ABX_LAYER_UTS;
}

/* All layers before `layer` (or all) were passed. */
static void note_passed(checkup *c, int layer)
{
    for (int i = 0; i < ABX_LAYER_COUNT && i != layer; i++) {
        finding *f = &c->layers[i];
        if (i != ABX_LAYER_RANGE && !f->tried)
            f->tried = f->ok = true;
    }
}

static void try_layers(checkup *c)
{
    uint32_t weaker = 0;
    for (int run = 0; run < ABX_LAYER_COUNT; run++) {
        abx_attempt attempt;
        int layer;
        if (try_once(c, weaker, false, &attempt, &layer) == 0) {
            c->copied_root = attempt.copied_root;
            c->plain_usr = attempt.report.plain_usr != 0;
            note_passed(c, -1);
            return;
        }
        if (layer < 0)
            layer = layer_of(c->error);
        if (layer < 0)
            return;
        note_passed(c, layer);
        note_refused(c, layer, &attempt);
        if (!can_go_on(layer) || (weaker & ABX_LAYER_BIT(layer)))
            return;
        weaker |= ABX_LAYER_BIT(layer);
    }
}

static uint32_t refused_layers(const checkup *c)
{
    uint32_t refused = 0;
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        if (c->layers[i].tried && !c->layers[i].ok)
            refused |= ABX_LAYER_BIT(i);
    return refused;
}

static void try_range(checkup *c)
{
    finding *f = &c->layers[ABX_LAYER_RANGE];
    abx_attempt attempt;
    int layer;
    uint32_t weaker = refused_layers(c);
    f->tried = true;
    f->ok = try_once(c, weaker, true, &attempt, &layer) == 0;
    if (!f->ok)
        note_refused(c, ABX_LAYER_RANGE, &attempt);
}

/* --- the answer -------------------------------------------------------------------------------------- */

static char *detail_of(const checkup *c, int layer)
{
    const finding *f = &c->layers[layer];
    if (!f->tried)
        return abx_strdup("not tried: a layer before it is refused");
    if (!f->ok)
        return abx_strdup(f->step);
    if (layer == ABX_LAYER_OVERLAY && c->copied_root)
        return abx_format("refused where '%s' lies: a prepared root is copied for each sandbox",
                          c->local.base);
    if (layer == ABX_LAYER_USR && c->ids == ABX_IDS_SLOT && c->plain_usr)
        return abx_strdup("read-only: its file system has no id-mapped mounts here");
    return abx_strdup(abx_layer_row_of((abx_layer)layer)->text);
}

static void add_layer(yyjson_mut_doc *d, yyjson_mut_val *list, const checkup *c, int layer)
{
    const finding *f = &c->layers[layer];
    if (layer == ABX_LAYER_RANGE && !f->tried)
        return; /* a root caller has the slots */
    ABX_AUTO_FREE char *detail = detail_of(c, layer);
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", abx_layer_row_of((abx_layer)layer)->name);
    abx_mut_bool(d, o, "ok", f->ok);
    if (layer == ABX_LAYER_RANGE) /* a sandbox does well without it */
        abx_mut_bool(d, o, "optional", true);
    abx_mut_str(d, o, "detail", detail);
    if (layer == ABX_LAYER_OVERLAY && f->ok && c->copied_root)
        abx_mut_str(d, o, "fix", "set ABX_HOME to a folder on ext4, xfs, btrfs or tmpfs");
    else
        abx_mut_str(d, o, "fix", f->fix);
}

/* Groups of a sandbox that is not made. A sandbox does well without them: then its limits are watched. */
static void add_groups(yyjson_mut_doc *d, yyjson_mut_val *list, const checkup *c)
{
    static const abx_cgroup_want want = {.memory_bytes = 64 << 20, .cpu_millis = 1000};
    char id[ABX_ID_LEN + 1];
    abx_cgroup_map map;
    abx_cgroups g;
    abx_random_id(id, ABX_ID_LEN);
    abx_cgroups_init(&g);
    ABX_AUTO_FD fd = mkdirat(c->local.trash_fd, id, 0700) < 0
                         ? -1
                         : openat(c->local.trash_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    abx_cgroup_map_read(&map);
    bool made = fd >= 0 && abx_cgroups_make(&g, &map, id, fd, &want, NULL) == 0 && g.memory;
    abx_cgroup_map_clear(&map);
    ABX_AUTO_FREE char *detail =
        made ? abx_format("memory: cgroup v%d; processors: %s; freezer: %s", g.memory,
                          g.cpu ? "capped" : "by affinity", g.freezer ? "yes" : "no")
             : abx_format("limits of memory and processors are watched, not enforced: %s",
                          g.why[0] ? g.why : "no control group can be made");
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", "cgroups");
    abx_mut_bool(d, o, "ok", made);
    abx_mut_bool(d, o, "optional", true);
    abx_mut_str(d, o, "detail", detail);
    if (!made && geteuid() != 0)
        abx_mut_str(d, o, "fix", "systemd-run --user --scope -p Delegate=yes abx ...");
    abx_cgroups_clear(&g);
    if (fd < 0)
        return;
    (void)abx_cgroup_remove(fd);
    (void)unlinkat(fd, "cgroup", 0);
    (void)unlinkat(c->local.trash_fd, id, AT_REMOVEDIR);
}

/* A sandbox with a network, made and ended. One without is a sandbox too. */
static void add_network(yyjson_mut_doc *d, yyjson_mut_val *list, checkup *c)
{
    abx_attempt attempt;
    abx_uplink_choice choice = {0};
    int layer;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", "network");
    uint32_t refused = refused_layers(c) & ~ABX_LAYER_BIT(ABX_LAYER_RANGE);
    if (refused & ABX_LAYER_BIT(ABX_LAYER_NET) || !c->layers[ABX_LAYER_ENVD].tried) {
        abx_mut_bool(d, o, "ok", false);
        abx_mut_bool(d, o, "optional", true);
        abx_mut_str(d, o, "detail", "not tried: a layer before it is refused");
        return;
    }
    c->network = "internet";
    bool ok =
        try_once(c, refused, false, &attempt, &layer) == 0 && abx_uplink_choose(&choice, NULL) == 0;
    c->network = NULL;
    abx_mut_bool(d, o, "ok", ok);
    abx_mut_bool(d, o, "optional", true);
    ABX_AUTO_FREE char *detail =
        ok ? abx_format("--network internet: by %s", choice.name)
           : abx_strdup(c->error ? abx_error_text(c->error) : "no --network internet");
    abx_mut_str(d, o, "detail", detail);
    if (!ok && c->error)
        abx_mut_str(d, o, "fix", c->error->hint);
    free(choice.path);
}

/* Hard limits of the caller go with each sandbox, and nobody can raise them. Nothing is said where there are none. */
static void add_caller_limits(yyjson_mut_doc *d, yyjson_mut_val *list)
{
    static const struct {
        __rlimit_resource_t what;
        const char *name, *unit;
    } limits[] = {{RLIMIT_CPU, "processor time of a process", "s"},
                  {RLIMIT_FSIZE, "size of a file", "bytes"},
                  {RLIMIT_AS, "address space", "bytes"},
                  {RLIMIT_DATA, "data", "bytes"},
                  {RLIMIT_RTTIME, "real-time processor time", "us"}};
    ABX_AUTO_BUF detail = ABX_BUF(4096);
    for (size_t i = 0; i < ABX_COUNT(limits); i++) {
        struct rlimit now;
        if (getrlimit(limits[i].what, &now) == 0 && now.rlim_max != RLIM_INFINITY)
            ABX_CHECK(abx_buf_addf(&detail, "%s%s: %llu %s", detail.len ? "; " : "", limits[i].name,
                                   (unsigned long long)now.rlim_max, limits[i].unit) == 0);
    }
    if (detail.len == 0)
        return;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
    abx_mut_str(d, o, "name", "unlimited");
    abx_mut_bool(d, o, "ok", false);
    abx_mut_bool(d, o, "optional", true);
    ABX_AUTO_FREE char *text =
        abx_format("limits of the caller hold inside too: %s", abx_buf_cstr(&detail));
    abx_mut_str(d, o, "detail", text);
    abx_mut_str(d, o, "fix", "call abx where 'ulimit -Ha' shows these as unlimited");
}

static yyjson_doc *answer(checkup *c)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *layers = abx_mut_arr(d, root, "layers");
    static const char *const ids[] = {"single", "range", "slot"};
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        add_layer(d, layers, c, i);
    add_groups(d, layers, c);
    add_network(d, layers, c);
    add_caller_limits(d, layers);
    abx_mut_str(d, root, "caller", geteuid() == 0 ? "root" : "user");
    abx_mut_str(d, root, "ids", ids[c->ids]);
    return abx_json_freeze(d);
}

yyjson_doc *abx_local_doctor(abx_local *local, abx_error **err)
{
    if (abx_local_prepare(local, err) < 0)
        return NULL;
    checkup c = {.local = *local};
    yyjson_doc *doc = NULL;
    try_layers(&c);
    abx_ids ids = c.ids;
    if (ids == ABX_IDS_SINGLE && geteuid() != 0)
        try_range(&c);
    c.ids = ids;
    bool any = false;
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        any = any || c.layers[i].tried;
    if (any)
        doc = answer(&c);
    else
        abx_error_take(err, ABX_TAKE(c.error));
    for (int i = 0; i < ABX_LAYER_COUNT; i++)
        free(c.layers[i].fix);
    abx_error_free(c.error);
    return doc;
}
