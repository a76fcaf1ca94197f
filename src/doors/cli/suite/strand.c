#include "doors/cli/suite/strand.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/suite/bytes.h"
#include "doors/cli/suite/match.h"

#define BRANCHES_MAX  256
#define AGAIN_MS      50    /* between two tries of `eventually` */
#define EVENTUALLY_MS 30000 /* how long these go on */

struct abx_strand {
    abx_trial *trial;
    yyjson_val *steps;
    abx_vars *vars;
    size_t at;

    /* of the step that is being done */
    bool entered;
    yyjson_doc *step; /* its members with the variables filled in, without nested steps */
    abx_trace *trace;
    uint64_t since_ms, again_ms;
    int64_t round;
    abx_strand **branches;
    abx_vars *branch_vars; /* one a branch of `parallel` */
    size_t branch_count;
};

abx_strand *abx_strand_new(abx_trial *trial, yyjson_val *steps, abx_vars *vars)
{
    abx_strand *s = ABX_NEW(abx_strand);
    s->trial = trial;
    s->steps = steps;
    s->vars = vars;
    return s;
}

static void leave_branches(abx_strand *s)
{
    for (size_t i = 0; i < s->branch_count; i++) {
        abx_strand_free(s->branches[i]);
        if (s->branch_vars)
            abx_vars_clear(&s->branch_vars[i]);
    }
    free(s->branches);
    free(s->branch_vars);
    s->branches = NULL;
    s->branch_vars = NULL;
    s->branch_count = 0;
}

static void leave_step(abx_strand *s)
{
    leave_branches(s);
    yyjson_doc_free(s->step);
    s->step = NULL;
    s->trace = NULL;
    s->entered = false;
    s->again_ms = 0;
    s->round = 0;
}

void abx_strand_free(abx_strand *s)
{
    if (!s)
        return;
    leave_step(s);
    free(s);
}

static yyjson_val *member(const abx_strand *s, const char *name)
{
    return yyjson_obj_get(yyjson_doc_get_root(s->step), name);
}

static int fail(char **why, abx_error *err)
{
    *why = abx_strdup(abx_error_text(err));
    return -1;
}

/* The step's members with their variables, but for nested steps: these are filled when they run. */
static int fill_step(abx_strand *s, yyjson_val *step, char **why)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(step, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (strcmp(name, "steps") == 0 || (strcmp(name, "parallel") == 0 && yyjson_is_arr(value)))
            continue;
        ABX_AUTO_ERROR err = NULL;
        yyjson_mut_val *filled = abx_vars_fill(s->vars, d, value, &err);
        if (!filled)
            return fail(why, err);
        abx_mut_put(d, root, name, filled);
    }
    s->step = abx_json_freeze(d);
    return 0;
}

/* {"save": {"name": "path"}}: from is where the paths begin. */
static int save(abx_strand *s, yyjson_val *from, char **why)
{
    size_t i, n;
    yyjson_val *key, *path;
    yyjson_obj_foreach(member(s, "save"), i, n, key, path)
    {
        const char *text = yyjson_get_str(path);
        yyjson_val *value = text ? abx_suite_at(from, text) : NULL;
        if (!value) {
            *why = abx_format("there is no '%s' to save", text ? text : "?");
            return -1;
        }
        abx_vars_set(s->vars, yyjson_get_str(key), value);
    }
    return 0;
}

/* --- calls ----------------------------------------------------------------------------------------------- */

static int feed(abx_strand *s, abx_trace *trace, bool ends, char **why)
{
    yyjson_val *input = member(s, "input");
    ABX_AUTO_BUF bytes = ABX_BUF(ABX_SUITE_BYTES_MAX);
    ABX_AUTO_ERROR err = NULL;
    if (input && abx_suite_bytes(input, &bytes, &err) < 0)
        return fail(why, err);
    abx_trace_feed(trace, bytes.data, bytes.len, ends);
    return 0;
}

static int start_call(abx_strand *s, bool to_its_end, char **why)
{
    const char *name = NULL;
    const char *method = yyjson_get_str(member(s, to_its_end ? "call" : "start"));
    if (!to_its_end && !(name = yyjson_get_str(member(s, "as")))) {
        *why = abx_strdup("'start' needs a name: 'as'");
        return -1;
    }
    yyjson_val *root = yyjson_doc_get_root(s->step);
    int64_t deadline = abx_json_int(root, "deadlineMs", -1);
    s->trace = abx_trial_call(s->trial, method ? method : "", name, member(s, "params"),
                              deadline < 0 ? ABX_FOREVER : (uint64_t)deadline,
                              abx_json_bool(root, "paused", false));
    if (to_its_end || member(s, "input"))
        return feed(s, s->trace, to_its_end, why);
    return 0;
}

static int end_of(abx_strand *s, abx_trace *trace, char **why)
{
    ABX_AUTO_JSON all = abx_trace_json(trace);
    int rc = save(s, yyjson_doc_get_root(all), why);
    abx_trial_drop(s->trial, trace);
    s->trace = NULL;
    return rc < 0 ? -1 : 1;
}

/* A call that is done again until it fits: the next try, or -1 when it has had its time. */
static int try_again(abx_strand *s, char **why)
{
    uint64_t now = abx_now_mono_ms();
    if (!abx_json_bool(yyjson_doc_get_root(s->step), "eventually", false) ||
        now - s->since_ms > EVENTUALLY_MS || abx_trial_refusal(s->trial))
        return -1;
    free(*why);
    *why = NULL;
    abx_trial_drop(s->trial, s->trace);
    s->trace = NULL;
    s->again_ms = now + AGAIN_MS;
    return 0;
}

static int do_call(abx_strand *s, char **why)
{
    if (!s->trace) {
        if (abx_now_mono_ms() < s->again_ms)
            return 0;
        if (start_call(s, true, why) < 0)
            return -1;
    }
    if (!s->trace->ended)
        return 0;
    if (!abx_trace_fits(s->trace, member(s, "expect"), why)) {
        abx_trial_note_failed(s->trial, s->trace);
        return try_again(s, why);
    }
    return end_of(s, s->trace, why);
}

static abx_trace *named(abx_strand *s, const char *kind, char **why)
{
    const char *name = yyjson_get_str(member(s, kind));
    abx_trace *trace = name ? abx_trial_find(s->trial, name) : NULL;
    if (!trace)
        *why = abx_format("no call is named '%s'", name ? name : "?");
    return trace;
}

static int do_end(abx_strand *s, char **why)
{
    abx_trace *trace = named(s, "end", why);
    if (!trace)
        return -1;
    if (!trace->ended)
        return 0;
    if (abx_trace_fits(trace, member(s, "expect"), why))
        return end_of(s, trace, why);
    abx_trial_note_failed(s->trial, trace);
    return -1;
}

static int do_await(abx_strand *s, char **why)
{
    abx_trace *trace = named(s, "await", why);
    if (!trace)
        return -1;
    ABX_AUTO_JSON event = NULL;
    ABX_AUTO_FREE char *missing = NULL;
    if (!abx_trace_has(trace, yyjson_doc_get_root(s->step), &event, &missing)) {
        if (!trace->ended)
            return 0;
        abx_trial_note_failed(s->trial, trace);
        *why = abx_format("the call ended before: %s%s%s", missing, trace->err ? ": " : "",
                          trace->err ? abx_error_text(trace->err) : "");
        return -1;
    }
    ABX_AUTO_JSON all = abx_trace_json(trace);
    ABX_AUTO_MUT d = yyjson_doc_mut_copy(all, NULL);
    if (event)
        abx_mut_val(d, yyjson_mut_doc_get_root(d), "event", yyjson_doc_get_root(event));
    ABX_AUTO_JSON with_event = abx_json_freeze(d);
    return save(s, yyjson_doc_get_root(with_event), why) < 0 ? -1 : 1;
}

/* feed, cancel, pause, resume: of a named call, done at once. */
static int do_named(abx_strand *s, abx_step_kind kind, char **why)
{
    abx_trace *trace = named(s, abx_step_kind_name(kind), why);
    if (!trace)
        return -1;
    if (kind == ABX_STEP_FEED) {
        bool close = abx_json_bool(yyjson_doc_get_root(s->step), "close", false);
        return feed(s, trace, close, why) < 0 ? -1 : 1;
    }
    if (kind == ABX_STEP_CANCEL)
        abx_trace_cancel(trace);
    else if (kind == ABX_STEP_PAUSE)
        abx_trace_pause(trace);
    else
        abx_trace_resume(trace);
    return 1;
}

/* --- steps in steps ----------------------------------------------------------------------------------------- */

static int do_repeat(abx_strand *s, yyjson_val *step, char **why)
{
    int64_t times = yyjson_get_sint(member(s, "repeat"));
    while (s->round < times) {
        if (!s->branches) {
            abx_vars_set_int(s->vars, "i", s->round);
            s->branches =
                abx_alloc_array(1, sizeof *s->branches); /* NOLINT(bugprone-sizeof-expression) */
            s->branches[0] = abx_strand_new(s->trial, yyjson_obj_get(step, "steps"), s->vars);
            s->branch_count = 1;
        }
        int rc = abx_strand_turn(s->branches[0], why);
        if (rc <= 0)
            return rc;
        leave_branches(s);
        s->round++;
    }
    return 1;
}

static int branch_out(abx_strand *s, yyjson_val *step, char **why)
{
    yyjson_val *lists = yyjson_obj_get(step, "parallel");
    size_t count =
        yyjson_is_arr(lists) ? yyjson_arr_size(lists) : yyjson_get_uint(member(s, "parallel"));
    if (count == 0 || count > BRANCHES_MAX) {
        *why = abx_format("there must be 1 to %d branches", BRANCHES_MAX);
        return -1;
    }
    s->branches = abx_alloc_array(count, sizeof(abx_strand *));
    s->branch_vars = abx_alloc_array(count, sizeof *s->branch_vars);
    s->branch_count = count;
    for (size_t i = 0; i < count; i++) {
        abx_vars_init(&s->branch_vars[i], s->vars);
        abx_vars_set_int(&s->branch_vars[i], "i", (int64_t)i);
        yyjson_val *steps =
            yyjson_is_arr(lists) ? yyjson_arr_get(lists, i) : yyjson_obj_get(step, "steps");
        s->branches[i] = abx_strand_new(s->trial, steps, &s->branch_vars[i]);
    }
    return 0;
}

static int do_parallel(abx_strand *s, yyjson_val *step, char **why)
{
    if (!s->branches && branch_out(s, step, why) < 0)
        return -1;
    bool all = true;
    for (size_t i = 0; i < s->branch_count; i++) {
        int rc = s->branches[i] ? abx_strand_turn(s->branches[i], why) : 1;
        if (rc < 0) {
            ABX_AUTO_FREE char *inner = *why;
            *why = abx_format("branch %zu, %s", i + 1, inner);
            return -1;
        }
        if (rc == 1) {
            abx_strand_free(s->branches[i]);
            s->branches[i] = NULL;
        }
        all = all && rc == 1;
    }
    return all;
}

/* --- a step ------------------------------------------------------------------------------------------------ */

static int do_check(abx_strand *s, char **why)
{
    return abx_suite_fits(member(s, "is"), member(s, "check"), "check", why) ? 1 : -1;
}

static int do_step(abx_strand *s, yyjson_val *step, char **why)
{
    abx_step_kind kind = abx_step_kind_of(step);
    switch (kind) {
    case ABX_STEP_CALL: return do_call(s, why);
    case ABX_STEP_START: return start_call(s, false, why) < 0 ? -1 : 1;
    case ABX_STEP_AWAIT: return do_await(s, why);
    case ABX_STEP_END: return do_end(s, why);
    case ABX_STEP_SLEEP:
        return abx_now_mono_ms() - s->since_ms >= yyjson_get_uint(member(s, "sleepMs"));
    case ABX_STEP_CHECK: return do_check(s, why);
    case ABX_STEP_REPEAT: return do_repeat(s, step, why);
    case ABX_STEP_PARALLEL: return do_parallel(s, step, why);
    default: return do_named(s, kind, why);
    }
}

static int turn_step(abx_strand *s, char **why)
{
    yyjson_val *step = yyjson_arr_get(s->steps, s->at);
    if (!s->entered) {
        if (fill_step(s, step, why) < 0)
            return -1;
        s->entered = true;
        s->since_ms = abx_now_mono_ms();
    }
    return do_step(s, step, why);
}

/* "step 3 (call process.start): …" */
static void name_step(const abx_strand *s, char **why)
{
    yyjson_val *step = yyjson_arr_get(s->steps, s->at);
    const char *kind = abx_step_kind_name(abx_step_kind_of(step));
    const char *what = yyjson_get_str(yyjson_obj_get(step, kind));
    ABX_AUTO_FREE char *inner = *why;
    *why = abx_format("step %zu (%s%s%s): %s", s->at + 1, kind, what ? " " : "", what ? what : "",
                      inner);
}

int abx_strand_turn(abx_strand *s, char **why)
{
    while (s->at < yyjson_arr_size(s->steps)) {
        int rc = turn_step(s, why);
        if (rc < 0)
            name_step(s, why);
        if (rc <= 0)
            return rc;
        leave_step(s);
        s->at++;
    }
    return 1;
}
