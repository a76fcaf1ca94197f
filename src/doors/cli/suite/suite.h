/* The conformance suite as data: the cases that are packed into this program, checked, in their order. */
#ifndef ABX_SUITE_SUITE_H
#define ABX_SUITE_SUITE_H

#include <stdbool.h>

#include "base/json.h"

typedef struct abx_suite_case {
    const char *group, *name, *title; /* borrowed from the suite */
    yyjson_val *data;
} abx_suite_case;

typedef struct abx_suite {
    yyjson_doc *doc;
    yyjson_val *groups;   /* array of {"name", "about"} */
    yyjson_val *without;  /* array of operations that name no sandbox */
    yyjson_val *optional; /* operation → parameters that a provider is free not to have */
    abx_suite_case *cases;
    size_t count;
} abx_suite;

/* Read {"suite": …, "files": […]}: every member of every case is checked, an unknown one is an error. 0, or -1 and *err
 * (USAGE, with the name of the case). text: borrowed. */
int abx_suite_read(const char *text, size_t n, abx_suite *out, abx_error **err);
/* The cases that were packed into this program. */
int abx_suite_open(abx_suite *out, abx_error **err);
void abx_suite_clear(abx_suite *s);

/* The way of a step: the member that says what it does. */
typedef enum abx_step_kind {
    ABX_STEP_CALL,
    ABX_STEP_START,
    ABX_STEP_AWAIT,
    ABX_STEP_END,
    ABX_STEP_FEED,
    ABX_STEP_CANCEL,
    ABX_STEP_PAUSE,
    ABX_STEP_RESUME,
    ABX_STEP_SLEEP,
    ABX_STEP_CHECK,
    ABX_STEP_REPEAT,
    ABX_STEP_PARALLEL,
    ABX_STEP_COUNT
} abx_step_kind;
/* ABX_STEP_COUNT when the step has none. */
abx_step_kind abx_step_kind_of(yyjson_val *step);
const char *abx_step_kind_name(abx_step_kind kind); /* the member: "call", "sleepMs" */

/* Check one file of cases ({"group", "cases"}); used by abx_suite_read. */
int abx_suite_check_file(yyjson_val *file, abx_error **err);

#endif
