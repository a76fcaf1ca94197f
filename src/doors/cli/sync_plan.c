#include "doors/cli/sync_plan.h"

#include <stdlib.h>

#include "base/mem.h"

#define BOTH_CHANGED  "both sides have changed it since the last run"
#define BOTH_NEW      "both sides have it, and they differ"
#define GONE_HERE     "changed in the sandbox, removed on this machine"
#define GONE_THERE    "changed on this machine, removed in the sandbox"
#define FOLDER_IN_WAY "a folder with something in it is in the way"
#define IGNORED_THERE "the folder in the way holds what is ignored"

typedef struct planner {
    const abx_sync_input *in;
    abx_sync_plan *out;
    const char *covered[2]; /* below this path all is decided on that side */
} planner;

/* One path: what each side has, and the state; NULL: nothing. */
typedef struct place {
    const abx_sync_entry *side[2], *state;
} place;

void abx_sync_plan_clear(abx_sync_plan *p)
{
    free(p->actions);
    *p = (abx_sync_plan){0};
}

static void add(planner *p, abx_sync_kind kind, int to, const abx_sync_entry *e, const char *reason)
{
    abx_sync_plan *out = p->out;
    if (out->count == out->_cap) {
        out->_cap = out->_cap ? out->_cap * 2 : 64;
        out->actions = abx_realloc(out->actions, out->_cap * sizeof *out->actions);
    }
    out->actions[out->count++] = (abx_sync_action){kind, to, e, reason};
    out->conflicts += kind == ABX_SYNC_CONFLICT;
}

/* A conflict keeps all that lies below it as it is. */
static void conflict(planner *p, const abx_sync_entry *e, const char *reason)
{
    add(p, ABX_SYNC_CONFLICT, 0, e, reason);
    p->covered[0] = p->covered[1] = e->path;
}

static void remove_whole(planner *p, int side, const abx_sync_entry *e)
{
    add(p, ABX_SYNC_DELETE, side, e, NULL);
    p->covered[side] = e->path;
}

/* Has nothing below this folder of a side changed since the last run? */
static bool is_untouched_below(const planner *p, int side, const abx_sync_entry *folder)
{
    const abx_sync_list *l = p->in->side[side];
    for (const abx_sync_entry *e = folder + 1;
         e < l->entries + l->count && abx_sync_is_below(e->path, folder->path); e++) {
        const abx_sync_entry *s = abx_sync_list_find(p->in->state, e->path);
        if (!s || s->in_flight || !abx_sync_same(e, s))
            return false;
    }
    return true;
}

static bool has_children(const planner *p, int side, const abx_sync_entry *folder)
{
    const abx_sync_list *l = p->in->side[side];
    return folder + 1 < l->entries + l->count && abx_sync_is_below(folder[1].path, folder->path);
}

/* e goes to the side `to`, where `old` (or nothing) is. may_remove: a folder in the way may go with what is in it. */
static void put(planner *p, const abx_sync_entry *e, int to, const abx_sync_entry *old,
                bool may_remove)
{
    if (old && old->type == ABX_SYNC_DIR && e->type != ABX_SYNC_DIR) {
        if (old->keep) {
            conflict(p, e, IGNORED_THERE);
            return;
        }
        if (!may_remove && has_children(p, to, old)) {
            conflict(p, e, FOLDER_IN_WAY);
            return;
        }
        remove_whole(p, to, old);
    } else if (old && old->type != ABX_SYNC_DIR && e->type == ABX_SYNC_DIR) {
        add(p, ABX_SYNC_DELETE, to, old, NULL);
    }
    add(p, ABX_SYNC_COPY, to, e, NULL);
}

static void one_way(planner *p, const place *at)
{
    const abx_sync_entry *source = at->side[0], *target = at->side[1];
    if (source && (!target || !abx_sync_same(source, target)))
        put(p, source, 1, target, p->in->delete_extra);
    else if (!source && target && p->in->delete_extra && !target->keep)
        remove_whole(p, 1, target);
}

/* --- two ways ------------------------------------------------------------------------------------------- */

static void both_there(planner *p, const place *at)
{
    const abx_sync_entry *here = at->side[0], *there = at->side[1], *state = at->state;
    if (abx_sync_same(here, there))
        return;
    bool changed[2] = {!state || !abx_sync_same(here, state),
                       !state || !abx_sync_same(there, state)};
    if (state && state->in_flight)
        changed[1] = false; /* half of what we sent, at worst */
    bool folders = here->type == ABX_SYNC_DIR && there->type == ABX_SYNC_DIR;
    if (changed[0] && changed[1]) {
        if (!folders) /* the mode of a folder is no reason to stop */
            conflict(p, here, state ? BOTH_CHANGED : BOTH_NEW);
        return;
    }
    int to = changed[1] ? 0 : 1;
    const abx_sync_entry *new = at->side[!to], *old = at->side[to];
    bool replaced = old->type == ABX_SYNC_DIR && new->type != ABX_SYNC_DIR;
    if (replaced && !is_untouched_below(p, to, old))
        conflict(p, new, BOTH_CHANGED);
    else if (changed[0] || changed[1] || (state && state->in_flight))
        put(p, new, to, old, true);
}

/* Only one side has it. */
static void one_there(planner *p, const place *at, int side)
{
    const abx_sync_entry *e = at->side[side], *state = at->state;
    bool known = state && state->type != ABX_SYNC_NONE;
    if (!known || (state->in_flight && side == 0)) {
        put(p, e, !side, NULL, true);
        return;
    }
    /* The other side has removed it. */
    bool changed = e->type != state->type || !abx_sync_same(e, state);
    if (e->type == ABX_SYNC_DIR && state->type == ABX_SYNC_DIR) {
        if (e->keep)
            return; /* it stays for what is ignored in it */
        if (is_untouched_below(p, side, e))
            remove_whole(p, side, e);
        else
            put(p, e, !side, NULL, true); /* what is new in it needs it */
    } else if (changed) {
        conflict(p, e, side == 0 ? GONE_THERE : GONE_HERE);
    } else {
        remove_whole(p, side, e);
    }
}

static void two_way(planner *p, const place *at)
{
    if (at->side[0] && at->side[1])
        both_there(p, at);
    else if (at->side[0])
        one_there(p, at, 0);
    else if (at->side[1])
        one_there(p, at, 1);
}

/* --- the walk ------------------------------------------------------------------------------------------- */

static const abx_sync_entry *head(const abx_sync_list *l, size_t i)
{
    return l && i < l->count ? &l->entries[i] : NULL;
}

void abx_sync_plan_make(const abx_sync_input *in, abx_sync_plan *out)
{
    *out = (abx_sync_plan){0};
    planner p = {in, out, {NULL, NULL}};
    size_t i[3] = {0, 0, 0};
    for (;;) {
        const abx_sync_entry *heads[3] = {head(in->side[0], i[0]), head(in->side[1], i[1]),
                                          head(in->two_way ? in->state : NULL, i[2])};
        const abx_sync_entry *first = NULL;
        for (int k = 0; k < 3; k++)
            if (heads[k] && (!first || abx_sync_path_order(heads[k]->path, first->path) < 0))
                first = heads[k];
        if (!first)
            return;
        for (int k = 0; k < 3; k++) {
            if (heads[k] && abx_sync_path_order(heads[k]->path, first->path) == 0)
                i[k]++;
            else
                heads[k] = NULL;
        }
        place at = {{heads[0], heads[1]}, heads[2]};
        bool done = true;
        for (int side = 0; side < 2; side++) {
            bool covered = p.covered[side] && abx_sync_is_below(first->path, p.covered[side]);
            if (covered)
                at.side[side] = NULL;
            else if (at.side[side])
                done = false;
        }
        if (done)
            continue;
        if (in->two_way)
            two_way(&p, &at);
        else
            one_way(&p, &at);
    }
}
