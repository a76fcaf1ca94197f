#include "doors/cli/suite/suite_run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#define TICK_MS   10 /* for what waits by the clock: sleeps, tries, limits */
#define LANES_MAX 16
#define WAKE_MS   15000 /* for a provider to start and answer once */

typedef struct lane {
    abx_trial *trial;
    size_t index; /* of its result */
    abx_shared_box shared;
} lane;

typedef struct suite_run {
    abx_cli *cli;
    const abx_suite_options *options;
    abx_suite_report *report;
    abx_trial_place place;
    lane lanes[LANES_MAX];
    size_t lane_count, next, done;
    bool stop, out_of_time;
    uv_timer_t tick;
    bool tick_closed;
} suite_run;

/* --- which cases ------------------------------------------------------------------------------------------- */

bool abx_suite_wants(const abx_suite_case *item, const abx_suite_options *options)
{
    return (!options->only || strcmp(item->group, options->only) == 0) &&
           (!options->name || strcmp(item->name, options->name) == 0);
}

static int fail_unknown(const abx_suite *suite, const abx_suite_options *options, abx_error **err)
{
    ABX_AUTO_FREE const char **words = abx_alloc_array(suite->count + 1, sizeof *words);
    bool by_name = options->name != NULL;
    for (size_t i = 0; i < suite->count; i++)
        words[i] = by_name ? suite->cases[i].name : suite->cases[i].group;
    const char *word = by_name ? options->name : options->only;
    abx_fail(err, ABX_ERR_USAGE, "there is no %s '%s'%s%s%s", by_name ? "case" : "group", word,
             by_name && options->only ? " in group '" : "",
             by_name && options->only ? options->only : "", by_name && options->only ? "'" : "");
    const char *near = abx_nearest(word, words, suite->count);
    return near ? abx_hint(err, "did you mean '%s'?", near)
                : abx_hint(err, "'abx provider test ID --dry-run' lists the cases");
}

int abx_suite_check_choice(const abx_suite *suite, const abx_suite_options *options,
                           abx_error **err)
{
    for (size_t i = 0; i < suite->count; i++)
        if (abx_suite_wants(&suite->cases[i], options))
            return 0;
    return fail_unknown(suite, options, err);
}

static void choose(const abx_suite *suite, const abx_suite_options *options,
                   abx_suite_report *report)
{
    report->results = abx_alloc_array(suite->count + 1, sizeof *report->results);
    for (size_t i = 0; i < suite->count; i++)
        if (abx_suite_wants(&suite->cases[i], options))
            report->results[report->count++].item = &suite->cases[i];
}

/* --- lanes --------------------------------------------------------------------------------------------------- */

static void note_result(suite_run *run, size_t index, abx_outcome outcome, char *why,
                        uint64_t took_ms)
{
    abx_suite_report *report = run->report;
    abx_suite_result *result = &report->results[index];
    result->outcome = outcome;
    result->why = why ? abx_host_blank(run->place.host, run->place.provider, why) : NULL;
    free(why);
    result->took_ms = took_ms;
    report->passed += outcome == ABX_PASSED;
    report->failed += outcome == ABX_FAILED;
    report->not_applicable += outcome == ABX_NOT_APPLICABLE;
    run->done++;
    if (run->options->on_case)
        run->options->on_case(result, run->done, report->count, run->options->data);
}

/* The next case of a lane that is free; false when there is none. */
static bool next_trial(suite_run *run, lane *l)
{
    while (run->next < run->report->count) {
        size_t index = run->next++;
        const abx_suite_case *item = run->report->results[index].item;
        const char *missing = abx_trial_lacks(&run->place, item);
        if (run->stop) {
            note_result(run, index, ABX_STOPPED, abx_strdup("interrupted"), 0);
        } else if (missing) {
            note_result(run, index, ABX_NOT_APPLICABLE,
                        abx_format("the provider has no '%s'", missing), 0);
        } else {
            l->index = index;
            l->trial = abx_trial_new(&run->place, item, &l->shared);
            return true;
        }
    }
    return false;
}

/* True while the lane has work. */
static bool turn_lane(suite_run *run, lane *l)
{
    while (l->trial || next_trial(run, l)) {
        if (!abx_trial_turn(l->trial))
            return true;
        abx_suite_result *result = &run->report->results[l->index];
        if (l->trial->exchange)
            result->exchange =
                abx_host_blank(run->place.host, run->place.provider, l->trial->exchange);
        result->rule = ABX_TAKE(l->trial->rule);
        note_result(run, l->index, l->trial->outcome, ABX_TAKE(l->trial->why), l->trial->took_ms);
        abx_trial_free(ABX_TAKE(l->trial));
    }
    return false;
}

static bool turn_lanes(suite_run *run)
{
    bool working = false;
    for (size_t i = 0; i < run->lane_count; i++)
        working = turn_lane(run, &run->lanes[i]) || working;
    return working;
}

/* --- the end of the shared sandboxes --------------------------------------------------------------------- */

static void nothing(void *data)
{
    (void)data;
}

static void kill_shared(suite_run *run)
{
    abx_trace *traces[LANES_MAX] = {0};
    for (size_t i = 0; i < run->lane_count; i++) {
        if (!run->lanes[i].shared.sandbox)
            continue;
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT params = abx_cli_params(run->lanes[i].shared.sandbox, &root);
        (void)params; /* root is a part of it */
        abx_trace_options options = {
            .method = "sandbox.kill", .params = root, .deadline_ms = 30000, .changed = nothing};
        traces[i] =
            abx_trace_start(run->place.host, run->place.loop, run->place.provider, &options);
        free(ABX_TAKE(run->lanes[i].shared.sandbox));
        free(ABX_TAKE(run->lanes[i].shared.home));
    }
    for (size_t i = 0; i < run->lane_count; i++) {
        while (traces[i] && !traces[i]->ended)
            abx_cli_turn(run->cli);
        abx_trace_free(traces[i]);
    }
}

/* --- the run ------------------------------------------------------------------------------------------------- */

static void stop(suite_run *run)
{
    run->stop = true;
    for (size_t i = 0; i < run->lane_count; i++)
        if (run->lanes[i].trial)
            abx_trial_stop(run->lanes[i].trial);
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    suite_run *run = data;
    if (sig == SIGWINCH)
        return;
    abx_cli_interrupt(cli, sig);
    stop(run);
}

static void on_tick(uv_timer_t *timer)
{
    suite_run *run = timer->data;
    if (run->cli->deadline == ABX_FOREVER || abx_now_mono_ms() < run->cli->deadline || run->stop)
        return;
    run->out_of_time = true;
    stop(run);
}

static void on_tick_closed(uv_handle_t *handle)
{
    ((suite_run *)handle->data)->tick_closed = true;
}

static void turn_until_done(suite_run *run)
{
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(run->cli, on_signal, run, &former_data);
    uv_timer_init(run->place.loop, &run->tick);
    run->tick.data = run;
    uv_timer_start(&run->tick, on_tick, TICK_MS, TICK_MS);
    while (turn_lanes(run))
        abx_cli_turn(run->cli);
    kill_shared(run);
    uv_close((uv_handle_t *)&run->tick, on_tick_closed);
    while (!run->tick_closed)
        abx_cli_turn(run->cli);
    abx_cli_take_signals(run->cli, former, former_data, NULL);
}

/* What a provider really has is known when it has been asked something: a sandbox that nobody has. 0, or -1 and *err when it
 * cannot be asked at all. */
static int wake_provider(abx_cli *cli, const char *provider, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT params = abx_cli_params("nosuchsandbox00", &root);
    (void)params; /* root is a part of it */
    abx_trace_options options = {
        .method = "sandbox.info", .params = root, .deadline_ms = WAKE_MS, .changed = nothing};
    abx_trace *trace = abx_trace_start(cli->_host, &cli->_loop, provider, &options);
    while (!trace->ended)
        abx_cli_turn(cli);
    int rc = 0;
    if (trace->err && (strncmp(abx_error_code(trace->err), "E8", 2) == 0 ||
                       strncmp(abx_error_code(trace->err), "E1", 2) == 0 ||
                       strncmp(abx_error_code(trace->err), "E2", 2) == 0))
        rc = abx_error_take(err, ABX_TAKE(trace->err));
    abx_trace_free(trace);
    return rc;
}

/* The states that cases ask for: those of the provider, and whether it holds back one stream without the others. */
static yyjson_doc *features_of(yyjson_doc *provider)
{
    yyjson_val *root = yyjson_doc_get_root(provider);
    bool builtin = abx_str_eq(abx_json_str(root, "kind", NULL), "builtin");
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *features = yyjson_val_mut_copy(d, abx_json_get(root, "features"));
    yyjson_mut_doc_set_root(d, features);
    abx_mut_str(d, features, "flow",
                abx_json_bool(root, "flow", builtin) ? "native" : "unsupported");
    yyjson_doc *doc = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return doc;
}

int abx_suite_run(abx_cli *cli, const abx_suite *suite, const abx_suite_options *options,
                  abx_suite_report *out, abx_error **err)
{
    memset(out, 0, sizeof *out);
    if (abx_cli_open(cli, err) < 0)
        return -1;
    choose(suite, options, out);
    if (wake_provider(cli, options->provider, err) < 0)
        return -1;
    out->provider = abx_host_describe(cli->_host, options->provider, err);
    if (!out->provider)
        return -1;
    out->features = features_of(out->provider);
    uint64_t started = abx_now_mono_ms();
    suite_run run = {.cli = cli, .options = options, .report = out};
    run.place = (abx_trial_place){suite, cli->_host, &cli->_loop, options->provider,
                                  yyjson_doc_get_root(out->features)};
    run.lane_count = options->lanes < LANES_MAX ? options->lanes : LANES_MAX;
    cli->remote = true;
    turn_until_done(&run);
    out->took_ms = abx_now_mono_ms() - started;
    if (abx_cli_interrupted(cli))
        return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
    if (run.out_of_time)
        return abx_fail(err, ABX_ERR_TIMEOUT,
                        "the time limit of the call passed after %zu of %zu "
                        "cases",
                        run.report->passed + run.report->failed, out->count);
    return 0;
}

void abx_suite_report_clear(abx_suite_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->results[i].why);
        free(r->results[i].exchange);
        free(r->results[i].rule);
    }
    free(r->results);
    yyjson_doc_free(r->provider);
    yyjson_doc_free(r->features);
    memset(r, 0, sizeof *r);
}

int abx_suite_score(const abx_suite_report *r)
{
    size_t apply = r->passed + r->failed;
    return apply == 0 ? 0 : (int)(100 * r->passed / apply);
}
