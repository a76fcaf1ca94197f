#include "doors/cli/suite/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/suite/strand.h"

#define LIMIT_MS   60000  /* of a case that names none */
#define CLEAN_MS   30000  /* for its own cleaning up, and again for ending its sandboxes */
#define LIFE_MS    900000 /* of its sandboxes: what ends them when nobody is left to do it */
#define UNIQUE_LEN 10

enum { SANDBOX, PROGRAMS, STEPS, DRAIN, CLEANUP, DRAIN_AGAIN, KILL, OVER };

/* Nothing is remembered about what changed: the trial looks anew at each turn. */
static void changed(void *data)
{
    (void)data;
}

abx_trial *abx_trial_new(const abx_trial_place *place, const abx_suite_case *item, char **shared)
{
    abx_trial *t = ABX_NEW(abx_trial);
    t->place = place;
    t->item = item;
    t->_shared = shared;
    t->started_ms = abx_now_mono_ms();
    char unique[UNIQUE_LEN + 1];
    abx_random_id(unique, UNIQUE_LEN);
    ABX_AUTO_FREE char *dir = abx_format("/tmp/%s-%s", item->name, unique);
    abx_vars_init(&t->vars, NULL);
    abx_vars_set_str(&t->vars, "unique", unique);
    abx_vars_set_str(&t->vars, "dir", dir);
    return t;
}

void abx_trial_free(abx_trial *t)
{
    if (!t)
        return;
    ABX_CHECK(t->_phase == OVER && !t->_traces);
    for (size_t i = 0; i < t->_kill_count; i++)
        free(t->_kills[i]);
    abx_vars_clear(&t->vars);
    free(t->sandbox);
    free(t->why);
    free(t);
}

/* --- calls ------------------------------------------------------------------------------------------------- */

static bool takes_sandbox(const abx_trial *t, const char *method)
{
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(t->place->suite->without, i, n, item)
    {
        if (abx_str_eq(yyjson_get_str(item), method))
            return false;
    }
    return true;
}

abx_trace *abx_trial_call(abx_trial *t, const char *method, const char *name, yyjson_val *params,
                          uint64_t deadline_ms, bool paused)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = params ? yyjson_val_mut_copy(d, params) : yyjson_mut_obj(d);
    if (takes_sandbox(t, method) && t->sandbox && !yyjson_mut_obj_get(root, "sandboxId"))
        abx_mut_str(d, root, "sandboxId", t->sandbox);
    abx_trace_options options = {.method = method,
                                 .name = name,
                                 .params = root,
                                 .deadline_ms = deadline_ms,
                                 .paused = paused,
                                 .changed = changed,
                                 .data = t};
    abx_trace *trace =
        abx_trace_start(t->place->host, t->place->loop, t->place->provider, &options);
    trace->next = t->_traces;
    t->_traces = trace;
    return trace;
}

abx_trace *abx_trial_find(const abx_trial *t, const char *name)
{
    for (abx_trace *trace = t->_traces; trace; trace = trace->next)
        if (abx_str_eq(trace->name, name))
            return trace;
    return NULL;
}

static void will_kill(abx_trial *t, const char *id)
{
    if (id && t->_kill_count < ABX_COUNT(t->_kills))
        t->_kills[t->_kill_count++] = abx_strdup(id);
}

void abx_trial_drop(abx_trial *t, abx_trace *trace)
{
    abx_trace **at = &t->_traces;
    while (*at != trace)
        at = &(*at)->next;
    *at = trace->next;
    const char *method = trace->op ? trace->op->method : NULL;
    if (abx_str_eq(method, "sandbox.create") || abx_str_eq(method, "sandbox.fork"))
        will_kill(t, abx_json_str(yyjson_doc_get_root(trace->result), "id", NULL));
    abx_trace_free(trace);
}

/* --- the phases: each answers true when it is over -------------------------------------------------------- */

static void conclude(abx_trial *t, abx_outcome outcome, char *why)
{
    if (t->why || t->outcome != ABX_PASSED) {
        free(why);
        return;
    }
    t->outcome = t->_stop ? ABX_STOPPED : outcome;
    t->why = why;
}

static bool wants_own(const abx_trial *t)
{
    return yyjson_is_obj(yyjson_obj_get(t->item->data, "sandbox"));
}

static yyjson_doc *create_params(const abx_trial *t)
{
    yyjson_val *own = yyjson_obj_get(t->item->data, "sandbox");
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_ERROR err = NULL;
    if (wants_own(t)) {
        root = abx_vars_fill(&t->vars, d, own, &err);
        ABX_CHECK(root != NULL);
        yyjson_mut_doc_set_root(d, root);
    }
    if (!yyjson_mut_obj_get(root, "timeoutMs"))
        abx_mut_int(d, root, "timeoutMs", LIFE_MS);
    return abx_json_freeze(d);
}

static void have_sandbox(abx_trial *t, const char *id)
{
    t->sandbox = abx_strdup(id);
    abx_vars_set_str(&t->vars, "sandbox", id);
}

static bool turn_sandbox(abx_trial *t)
{
    if (abx_str_eq(abx_json_str(t->item->data, "sandbox", NULL), "none"))
        return true;
    if (!wants_own(t) && *t->_shared) {
        have_sandbox(t, *t->_shared);
        return true;
    }
    if (!t->_one) {
        if (t->_stop) {
            conclude(t, ABX_STOPPED, abx_strdup("interrupted"));
            return true;
        }
        ABX_AUTO_JSON params = create_params(t);
        t->_one = abx_trial_call(t, "sandbox.create", NULL, yyjson_doc_get_root(params),
                                 ABX_FOREVER, false);
    }
    if (!t->_one->ended)
        return false;
    const char *id = abx_json_str(yyjson_doc_get_root(t->_one->result), "id", NULL);
    if (!id) {
        conclude(t, ABX_FAILED,
                 abx_format("no sandbox could be made: %s", abx_error_text(t->_one->err)));
    } else {
        have_sandbox(t, id);
        if (wants_own(t))
            will_kill(t, id);
        else
            *t->_shared = abx_strdup(id);
    }
    /* Not by abx_trial_drop: a shared sandbox lives on. */
    t->_traces = t->_one->next;
    abx_trace_free(ABX_TAKE(t->_one));
    return true;
}

/* Asks the sandbox which of the programs it has not. */
static bool turn_programs(abx_trial *t)
{
    yyjson_val *programs = yyjson_obj_get(t->item->data, "programs");
    if (!programs || !t->sandbox || t->why)
        return true;
    if (!t->_one) {
        static const char script[] =
            "for p do command -v \"$p\" >/dev/null || { printf %s \"$p\"; exit 1; }; done";
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        yyjson_mut_val *cmd = abx_mut_arr(d, root, "cmd");
        const char *const head[] = {"sh", "-c", script, "sh"};
        for (size_t i = 0; i < ABX_COUNT(head); i++)
            yyjson_mut_arr_add_str(d, cmd, head[i]);
        size_t i, n;
        yyjson_val *program;
        yyjson_arr_foreach(programs, i, n, program)
        {
            yyjson_mut_arr_append(cmd, yyjson_val_mut_copy(d, program));
        }
        ABX_AUTO_JSON params = abx_json_freeze(d);
        t->_one = abx_trial_call(t, "process.start", NULL, yyjson_doc_get_root(params), ABX_FOREVER,
                                 false);
    }
    if (!t->_one->ended)
        return false;
    ABX_AUTO_JSON all = abx_trace_json(t->_one);
    yyjson_val *root = yyjson_doc_get_root(all);
    if (t->_one->err)
        conclude(t, ABX_FAILED, abx_strdup(abx_error_text(t->_one->err)));
    else if (abx_json_int(yyjson_obj_get(root, "result"), "exitCode", -1) != 0)
        conclude(t, ABX_NOT_APPLICABLE,
                 abx_format("the sandbox has no '%s'", abx_json_str(root, "stdout", "?")));
    abx_trial_drop(t, ABX_TAKE(t->_one));
    return true;
}

static bool is_late(const abx_trial *t, uint64_t limit_ms)
{
    return abx_now_mono_ms() - t->started_ms > limit_ms;
}

static bool turn_steps(abx_trial *t)
{
    if (t->why)
        return true;
    if (!t->_strand)
        t->_strand = abx_strand_new(t, yyjson_obj_get(t->item->data, "steps"), &t->vars);
    char *why = NULL;
    int rc = abx_strand_turn(t->_strand, &why);
    uint64_t limit = (uint64_t)abx_json_int(t->item->data, "limitMs", LIMIT_MS);
    if (rc < 0)
        conclude(t, ABX_FAILED, why);
    else if (rc == 0 && t->_stop)
        conclude(t, ABX_STOPPED, abx_strdup("interrupted"));
    else if (rc == 0 && is_late(t, limit))
        conclude(t, ABX_FAILED, abx_format("not done after %llu ms", (unsigned long long)limit));
    else if (rc == 0)
        return false;
    abx_strand_free(ABX_TAKE(t->_strand));
    return true;
}

/* Cancels what still runs and waits for its end. */
static bool turn_drain(abx_trial *t)
{
    if (!t->_entered) {
        t->_entered = true;
        for (abx_trace *trace = t->_traces; trace; trace = trace->next)
            abx_trace_cancel(trace);
    }
    for (abx_trace *trace = t->_traces; trace; trace = trace->next)
        if (!trace->ended)
            return false;
    while (t->_traces)
        abx_trial_drop(t, t->_traces);
    return true;
}

/* Its failures say nothing about the case: mostly there is nothing left to remove. */
static bool turn_cleanup(abx_trial *t)
{
    yyjson_val *steps = yyjson_obj_get(t->item->data, "cleanup");
    if (!steps || t->outcome == ABX_NOT_APPLICABLE)
        return true;
    if (!t->_strand) {
        t->_entered = true;
        t->started_ms = abx_now_mono_ms();
        t->_strand = abx_strand_new(t, steps, &t->vars);
    }
    ABX_AUTO_FREE char *why = NULL;
    if (abx_strand_turn(t->_strand, &why) == 0 && !is_late(t, CLEAN_MS))
        return false;
    abx_strand_free(ABX_TAKE(t->_strand));
    return true;
}

static bool turn_kill(abx_trial *t)
{
    if (!t->_entered) {
        t->_entered = true;
        /* What a case that failed did to the shared sandbox is not the next one's matter. */
        if (t->outcome == ABX_FAILED && t->sandbox && abx_str_eq(*t->_shared, t->sandbox)) {
            will_kill(t, t->sandbox);
            free(ABX_TAKE(*t->_shared));
        }
        for (size_t i = 0; i < t->_kill_count; i++) {
            yyjson_mut_val *root = NULL;
            ABX_AUTO_MUT d = abx_mut_new(&root);
            abx_mut_str(d, root, "sandboxId", t->_kills[i]);
            ABX_AUTO_JSON params = abx_json_freeze(d);
            abx_trial_call(t, "sandbox.kill", NULL, yyjson_doc_get_root(params), CLEAN_MS, false);
        }
    }
    for (abx_trace *trace = t->_traces; trace; trace = trace->next)
        if (!trace->ended)
            return false;
    while (t->_traces)
        abx_trial_drop(t, t->_traces);
    return true;
}

bool abx_trial_turn(abx_trial *t)
{
    static bool (*const turns[OVER])(abx_trial *) = {
        [SANDBOX] = turn_sandbox, [PROGRAMS] = turn_programs, [STEPS] = turn_steps,
        [DRAIN] = turn_drain,     [CLEANUP] = turn_cleanup,   [DRAIN_AGAIN] = turn_drain,
        [KILL] = turn_kill,
    };
    while (t->_phase < OVER) {
        if (!turns[t->_phase](t))
            return false;
        if (t->_phase == STEPS)
            t->took_ms = abx_now_mono_ms() - t->started_ms;
        t->_entered = false;
        t->_phase++;
    }
    return true;
}

void abx_trial_stop(abx_trial *t)
{
    t->_stop = true;
    if (t->_one)
        abx_trace_cancel(t->_one);
}
