/* What sync tells: the actions of a dry run, or the sum of what was done. */
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"
#include "doors/cli/sync_inner.h"

static const char *const kinds[] = {"copy", "delete", "conflict"};
static const char *const places[] = {"local", "sandbox"};

abx_sync_done abx__sync_measure(const abx_sync_plan *plan)
{
    abx_sync_done d = {0};
    for (size_t i = 0; i < plan->count; i++) {
        const abx_sync_action *a = &plan->actions[i];
        if (a->kind == ABX_SYNC_COPY) {
            d.files++;
            d.bytes += a->entry->size;
        }
        d.deleted += a->kind == ABX_SYNC_DELETE;
    }
    return d;
}

static void put_actions(const abx_sync *s, const abx_sync_plan *plan, yyjson_mut_doc *d,
                        yyjson_mut_val *root)
{
    yyjson_mut_val *list = abx_mut_arr(d, root, "actions");
    for (size_t i = 0; i < plan->count; i++) {
        const abx_sync_action *a = &plan->actions[i];
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, o, "action", kinds[a->kind]);
        if (a->kind != ABX_SYNC_CONFLICT)
            abx_mut_str(d, o, "to", places[abx__sync_place(s, a->to)]);
        abx_mut_str(d, o, "path", a->entry->path);
        abx_mut_str(d, o, "type",
                    a->entry->type == ABX_SYNC_DIR    ? "dir"
                    : a->entry->type == ABX_SYNC_LINK ? "symlink"
                                                      : "file");
        if (a->kind == ABX_SYNC_COPY && a->entry->type == ABX_SYNC_FILE)
            abx_mut_int(d, o, "size", a->entry->size);
        abx_mut_str(d, o, "reason", a->reason);
    }
}

static int print_json(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    abx_sync_done done = s->dry_run ? abx__sync_measure(plan) : s->done;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "files", done.files);
    abx_mut_int(d, root, "bytes", done.bytes);
    abx_mut_int(d, root, "deleted", done.deleted);
    abx_mut_int(d, root, "conflicts", (int64_t)plan->conflicts);
    if (s->dry_run)
        abx_mut_bool(d, root, "dryRun", true);
    put_actions(s, plan, d, root);
    return abx_print_json_mut(s->cli, root, err);
}

static int print_table(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    static const char *const headers[] = {"ACTION", "TO", "SIZE", "PATH", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    for (size_t i = 0; i < plan->count; i++) {
        const abx_sync_action *a = &plan->actions[i];
        char size[32] = "";
        if (a->kind == ABX_SYNC_COPY && a->entry->type == ABX_SYNC_FILE)
            snprintf(size, sizeof size, "%lld", (long long)a->entry->size);
        ABX_AUTO_FREE char *path =
            abx_format("%s%s", a->entry->path, a->entry->type == ABX_SYNC_DIR ? "/" : "");
        const char *cells[] = {
            kinds[a->kind], a->kind == ABX_SYNC_CONFLICT ? "" : places[abx__sync_place(s, a->to)],
            size, path};
        abx_table_add(&t, cells);
    }
    return abx_print_table(s->cli, &t, err);
}

static int print_names(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    for (size_t i = 0; i < plan->count; i++)
        if (abx_print_name(s->cli, plan->actions[i].entry->path, err) < 0)
            return -1;
    return 0;
}

static void note_sum(abx_sync *s, const abx_sync_plan *plan)
{
    char bytes[32];
    abx_format_size((uint64_t)s->done.bytes, bytes);
    if (s->done.files == 0 && s->done.deleted == 0) {
        if (!s->watch && plan->conflicts == 0)
            abx_cli_note(s->cli, "abx: nothing to do");
        return;
    }
    abx_cli_note(s->cli, "abx: copied %lld (%s), deleted %lld", (long long)s->done.files, bytes,
                 (long long)s->done.deleted);
}

int abx__sync_print(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].kind == ABX_SYNC_CONFLICT)
            abx_cli_warn(s->cli, "conflict: '%s': %s", plan->actions[i].entry->path,
                         plan->actions[i].reason);
    if (abx_cli_json(s->cli))
        return print_json(s, plan, err);
    if (s->cli->format == ABX_OUT_NAME)
        return print_names(s, plan, err);
    if (s->dry_run)
        return print_table(s, plan, err);
    note_sum(s, plan);
    return 0;
}
