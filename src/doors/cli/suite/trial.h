/* One conformance case while it runs: its sandbox, its steps, its calls, its cleaning up. Driven by turns: whoever runs
 * it turns the loop, and calls abx_trial_turn after each turn. */
#ifndef ABX_SUITE_TRIAL_H
#define ABX_SUITE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "doors/cli/suite/suite.h"
#include "doors/cli/suite/trace.h"
#include "doors/cli/suite/vars.h"

typedef enum abx_outcome { ABX_PASSED, ABX_FAILED, ABX_NOT_APPLICABLE, ABX_STOPPED } abx_outcome;

/* What all cases of a run have in common; borrowed. */
typedef struct abx_trial_place {
    const abx_suite *suite;
    abx_host *host;
    uv_loop_t *loop;
    const char *provider;
    yyjson_val *features; /* of the provider: name → state */
} abx_trial_place;

/* The sandbox that the cases of a lane share; both NULL: not made yet. */
typedef struct abx_shared_box {
    char *sandbox; /* id */
    char *home;    /* its user's home, once a case has asked */
} abx_shared_box;

struct abx_strand;

typedef struct abx_trial {
    const abx_trial_place *place;
    const abx_suite_case *item;
    abx_outcome outcome; /* once abx_trial_turn has answered true */
    char *why;           /* of what has not passed */
    char *exchange; /* of what has failed: the calls that were not over (exchange.h), or NULL */
    char *rule;     /* … and where it is written how it should be, or NULL */
    uint64_t started_ms, took_ms;
    char *sandbox; /* id, NULL: none */
    char unique[11];
    abx_vars vars;

    /* private from here */
    int _phase;
    bool _stop, _entered;
    abx_shared_box *_shared;
    abx_trace *_traces;
    abx_trace *_one; /* the call of the phase */
    struct abx_strand *_strand;
    const abx_trace *_failed; /* the call of the step that failed; NULL: none */
    char *_kills[64];
    size_t _kill_count;
} abx_trial;

/* shared: what is known of the shared sandbox (the trial makes it if need be); valid until the end. */
abx_trial *abx_trial_new(const abx_trial_place *place, const abx_suite_case *item,
                         abx_shared_box *shared);
/* What the provider lacks for this case ("pty", "process.detach"): what it needs, or an operation of its steps. NULL: nothing. */
const char *abx_trial_lacks(const abx_trial_place *place, const abx_suite_case *item);
/* Go on as far as it goes. True when all is over. */
bool abx_trial_turn(abx_trial *t);
/* Leave the steps, clean up. */
void abx_trial_stop(abx_trial *t);
void abx_trial_free(abx_trial *t); /* only when it is over; NULL allowed */

/* True when the provider has this feature or operation. */
bool abx_trial_has(const abx_trial_place *place, const char *name);
/* When a call failed with E8004 because of a parameter that a provider is free not to have: the sentence that says so (owned). */
char *abx_trial_refusal(const abx_trial *t);

/* --- for strands ----------------------------------------------------------------------------------------- */
/* A call of the case, with the sandbox put in where the operation takes one and params (NULL: none) do not name one. */
abx_trace *abx_trial_call(abx_trial *t, const char *method, const char *name, yyjson_val *params,
                          uint64_t deadline_ms, bool paused);
/* This call is why the step fails. */
void abx_trial_note_failed(abx_trial *t, const abx_trace *trace);
abx_trace *abx_trial_find(const abx_trial *t,
                          const char *name); /* the last one of this name, or NULL */
/* Forget a call that has ended. */
void abx_trial_drop(abx_trial *t, abx_trace *trace);

#endif
