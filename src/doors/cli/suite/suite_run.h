/* A run of the conformance suite against one provider: several cases at once, each with a sandbox that is shared by the
 * cases of its lane, or its own. */
#ifndef ABX_SUITE_RUN_H
#define ABX_SUITE_RUN_H

#include "doors/cli/cli.h"
#include "doors/cli/suite/suite.h"
#include "doors/cli/suite/trial.h"

typedef struct abx_suite_result {
    const abx_suite_case *item;
    abx_outcome outcome;
    char *why;      /* owned; NULL when it passed */
    char *exchange; /* owned; of what failed, or NULL */
    char *rule;     /* owned; where it is written how that should be, or NULL */
    uint64_t took_ms;
} abx_suite_result;

typedef struct abx_suite_options {
    const char *provider;
    const char *only, *name; /* only the cases of this group, only this one; NULL: all */
    size_t lanes;            /* cases at once */
    /* Called when a case has ended. */
    void (*on_case)(const abx_suite_result *result, size_t done, size_t total, void *data);
    void *data;
} abx_suite_options;

typedef struct abx_suite_report {
    yyjson_doc *provider;      /* what the host knows of it: {"id", "features", …} */
    yyjson_doc *features;      /* its features, and "flow" */
    abx_suite_result *results; /* in the order of the suite */
    size_t count;
    size_t passed, failed, not_applicable;
    uint64_t took_ms;
} abx_suite_report;

/* True when the options choose this case. */
bool abx_suite_wants(const abx_suite_case *item, const abx_suite_options *options);
/* 0 when they choose any, else -1 and USAGE. */
int abx_suite_check_choice(const abx_suite *suite, const abx_suite_options *options,
                           abx_error **err);

/* Run and wait for the end of all. 0 and *out (also when cases failed); -1 and *err: the provider cannot be opened,
 * or the run was interrupted or out of time (then *out holds what was done, and its sandboxes are ended). */
int abx_suite_run(abx_cli *cli, const abx_suite *suite, const abx_suite_options *options,
                  abx_suite_report *out, abx_error **err);
void abx_suite_report_clear(abx_suite_report *r);
/* passed of those that apply, in percent, rounded down. */
int abx_suite_score(const abx_suite_report *r);

#endif
