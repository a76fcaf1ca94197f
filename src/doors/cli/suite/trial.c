#include "doors/cli/suite/trial.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/suite/exchange.h"
#include "doors/cli/suite/strand.h"

#define LIMIT_MS   60000  /* of a case that names none */
#define CLEAN_MS   30000  /* for its own cleaning up, and again for ending its sandboxes */
#define LIFE_MS    900000 /* of its sandboxes: what ends them when nobody is left to do it */
#define UNIQUE_LEN 10
#define SHOWN_MAX  8 /* calls of a case that failed */

enum { SANDBOX, PROGRAMS, HOME, STEPS, DRAIN, CLEANUP, DRAIN_AGAIN, KILL, OVER };

/* Nothing is remembered about what changed: the trial looks anew at each turn. */
static void changed(void *data)
{
    (void)data;
}

abx_trial *abx_trial_new(const abx_trial_place *place, const abx_suite_case *item,
                         abx_shared_box *shared)
{
    abx_trial *t = ABX_NEW(abx_trial);
    t->place = place;
    t->item = item;
    t->_shared = shared;
    t->started_ms = abx_now_mono_ms();
    static_assert(sizeof t->unique == UNIQUE_LEN + 1, "room for it");
    abx_random_id(t->unique, UNIQUE_LEN);
    abx_vars_init(&t->vars, NULL);
    abx_vars_set_str(&t->vars, "unique", t->unique);
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
    free(t->exchange);
    free(t->rule);
    free(t);
}

/* --- what the provider has -------------------------------------------------------------------------------------- */

bool abx_trial_has(const abx_trial_place *place, const char *name)
{
    const abx_op_row *op = abx_op_find(name);
    const char *state = abx_json_str(place->features, name, NULL);
    const char *feature = op ? abx_feature_name(op->feature) : name;
    if (!state)
        state = abx_json_str(place->features, feature, NULL);
    if (!state && strcmp(feature, abx_feature_name(ABX_FEATURE_SANDBOX)) == 0)
        return true;
    return state && strcmp(state, "unsupported") != 0;
}

/* True when the provider has an operation of this feature, although not all. */
static bool has_part(const abx_trial_place *place, const char *feature)
{
    for (int op = 0; op < ABX_OP_COUNT; op++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)op);
        const char *state = abx_json_str(place->features, row->method, NULL);
        if (state && strcmp(state, "unsupported") != 0 &&
            strcmp(abx_feature_name(row->feature), feature) == 0)
            return true;
    }
    return false;
}

/* The first operation of these steps that the provider lacks, or NULL. */
static const char *lacking_op(const abx_trial_place *place, yyjson_val *steps)
{
    size_t i, n, k, m;
    yyjson_val *step, *branch;
    yyjson_arr_foreach(steps, i, n, step)
    {
        const char *op = abx_json_str(step, "call", abx_json_str(step, "start", NULL));
        if (op && !abx_trial_has(place, op))
            return op;
        const char *inner = lacking_op(place, yyjson_obj_get(step, "steps"));
        yyjson_arr_foreach(yyjson_obj_get(step, "parallel"), k, m, branch)
        {
            if (!inner)
                inner = lacking_op(place, branch);
        }
        if (inner)
            return inner;
    }
    return NULL;
}

const char *abx_trial_lacks(const abx_trial_place *place, const abx_suite_case *item)
{
    size_t i, n;
    yyjson_val *need;
    yyjson_arr_foreach(yyjson_obj_get(item->data, "needs"), i, n, need)
    {
        const char *name = yyjson_get_str(need);
        /* which part: its steps tell. That ended processes are kept goes with the whole of its feature */
        bool whole = strcmp(name, abx_feature_name(ABX_FEATURE_PROCESS_REPLAY)) == 0;
        if (!abx_trial_has(place, name) && (whole || !has_part(place, name)))
            return name;
    }
    return lacking_op(place, yyjson_obj_get(item->data, "steps"));
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

/* The first of these parameters that a provider is free not to have, or NULL. */
static const char *may_refuse(const abx_trial *t, const char *method, yyjson_mut_val *params)
{
    size_t i, n;
    yyjson_val *name;
    yyjson_arr_foreach(yyjson_obj_get(t->place->suite->optional, method), i, n, name)
    {
        if (yyjson_mut_obj_get(params, yyjson_get_str(name)))
            return yyjson_get_str(name);
    }
    return NULL;
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
    trace->may_refuse = may_refuse(t, method, root);
    trace->next = t->_traces;
    t->_traces = trace;
    return trace;
}

void abx_trial_note_failed(abx_trial *t, const abx_trace *trace)
{
    t->_failed = trace;
}

abx_trace *abx_trial_find(const abx_trial *t, const char *name)
{
    for (abx_trace *trace = t->_traces; trace; trace = trace->next)
        if (abx_str_eq(trace->name, name))
            return trace;
    return NULL;
}

char *abx_trial_refusal(const abx_trial *t)
{
    for (abx_trace *trace = t->_traces; trace; trace = trace->next)
        if (trace->err && trace->err->id == ABX_ERR_FEATURE_MISSING && trace->may_refuse)
            return abx_format("the provider has no '%s' in %s", trace->may_refuse,
                              trace->op->method);
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
    if (t->_failed == trace)
        t->_failed = NULL;
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

/* The call that failed last, the others of the case before it. */
static void note_exchange(abx_trial *t, const abx_trace *failed)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (!failed || t->exchange)
        return;
    int shown = 0;
    for (const abx_trace *trace = t->_traces; trace && shown < SHOWN_MAX; trace = trace->next) {
        if (trace == failed)
            continue;
        ABX_AUTO_FREE char *one = abx_exchange_text(trace);
        ABX_CHECK(abx_buf_add_str(&text, one) == 0);
        shown++;
    }
    ABX_AUTO_FREE char *last = abx_exchange_text(failed);
    ABX_CHECK(abx_buf_add_str(&text, last) == 0);
    t->exchange = abx_buf_take(&text);
    t->rule = abx_exchange_rule(failed->op, t->why);
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
    if (!wants_own(t) && t->_shared->sandbox) {
        have_sandbox(t, t->_shared->sandbox);
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
    char *refused = id ? NULL : abx_trial_refusal(t);
    if (refused) {
        conclude(t, ABX_NOT_APPLICABLE, refused);
    } else if (!id) {
        conclude(t, ABX_FAILED,
                 abx_format("no sandbox could be made: %s", abx_error_text(t->_one->err)));
        note_exchange(t, t->_one);
    } else {
        have_sandbox(t, id);
        if (wants_own(t))
            will_kill(t, id);
        else
            t->_shared->sandbox = abx_strdup(id);
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

/* Where the case's files go: below the home of the sandbox's user, which is asked of the sandbox. */
static void have_home(abx_trial *t, const char *home)
{
    ABX_AUTO_FREE char *dir =
        abx_format("%s/%s-%s", strcmp(home, "/") == 0 ? "" : home, t->item->name, t->unique);
    abx_vars_set_str(&t->vars, "home", home);
    abx_vars_set_str(&t->vars, "dir", dir);
}

static bool names_home(const abx_trial *t)
{
    ABX_AUTO_FREE char *text = abx_json_text(t->item->data);
    return strstr(text, "{{home}}") || strstr(text, "{{dir}}");
}

static abx_trace *ask_home(abx_trial *t)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    bool files = abx_trial_has(t->place, "fs.stat");
    if (files) {
        abx_mut_str(d, root, "path", ".");
    } else {
        abx_mut_str(d, root, "cmd", "cd && printf %s \"$PWD\"");
        abx_mut_bool(d, root, "shell", true);
    }
    ABX_AUTO_JSON params = abx_json_freeze(d);
    return abx_trial_call(t, files ? "fs.stat" : "process.start", NULL, yyjson_doc_get_root(params),
                          ABX_FOREVER, false);
}

static bool turn_home(abx_trial *t)
{
    if (!t->sandbox || t->why)
        return true;
    bool own = !abx_str_eq(t->_shared->sandbox, t->sandbox);
    if (!t->_one && !own && t->_shared->home) {
        have_home(t, t->_shared->home);
        return true;
    }
    if (!t->_one) {
        if (!names_home(t))
            return true;
        t->_one = ask_home(t);
    }
    if (!t->_one->ended)
        return false;
    ABX_AUTO_JSON all = abx_trace_json(t->_one);
    yyjson_val *root = yyjson_doc_get_root(all);
    const char *home = abx_json_str(abx_json_get(root, "result"), "path", NULL);
    if (!home)
        home = abx_json_str(root, "stdout", "");
    if (t->_one->err || home[0] != '/') {
        conclude(t, ABX_FAILED,
                 abx_format("no absolute path of the home could be learned (%s): %s",
                            t->_one->op->method,
                            t->_one->err ? abx_error_text(t->_one->err) : home));
    } else {
        have_home(t, home);
        if (!own)
            t->_shared->home = abx_strdup(home);
    }
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
    char *refused = rc < 0 ? abx_trial_refusal(t) : NULL;
    if (refused)
        free(why);
    if (rc < 0)
        conclude(t, refused ? ABX_NOT_APPLICABLE : ABX_FAILED, refused ? refused : why);
    else if (rc == 0 && t->_stop)
        conclude(t, ABX_STOPPED, abx_strdup("interrupted"));
    else if (rc == 0 && is_late(t, limit))
        conclude(t, ABX_FAILED, abx_format("not done after %llu ms", (unsigned long long)limit));
    else if (rc == 0)
        return false;
    if (t->outcome == ABX_FAILED)
        note_exchange(t, t->_failed ? t->_failed : t->_traces);
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
        if (t->outcome == ABX_FAILED && t->sandbox && abx_str_eq(t->_shared->sandbox, t->sandbox)) {
            will_kill(t, t->sandbox);
            free(ABX_TAKE(t->_shared->sandbox));
            free(ABX_TAKE(t->_shared->home));
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
        [SANDBOX] = turn_sandbox,   [PROGRAMS] = turn_programs, [HOME] = turn_home,
        [STEPS] = turn_steps,       [DRAIN] = turn_drain,       [CLEANUP] = turn_cleanup,
        [DRAIN_AGAIN] = turn_drain, [KILL] = turn_kill,
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
