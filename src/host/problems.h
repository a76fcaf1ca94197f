/* What is wrong with a file that people write (a manifest): all of it at once, each with its place, for
 * `abx provider validate`; and the first of it as an error. Threads: the owner's. */
#ifndef ABX_HOST_PROBLEMS_H
#define ABX_HOST_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

#define ABX_PROBLEMS_MAX 100 /* more are counted, not kept */

typedef struct abx_problem {
    bool warning;          /* else an error */
    abx_err_id id;         /* of an error */
    const char *file;      /* as it was named */
    unsigned line, column; /* from 1; 0: the file as a whole */
    const char *key;       /* whole: "runtime.kind", "options[2].type"; NULL: none */
    const char *found;     /* for people: "\"x\"", "a whole number", "nothing"; or NULL */
    const char *expected;  /* "one of rest, exec, node"; or NULL */
    const char *text;      /* the sentence, without the place */
    const char *hint;      /* what to do, or NULL */
} abx_problem;

typedef struct abx_problems {
    abx_problem *items; /* in the order in which they were found; abx_problems_sort: by place */
    size_t count;       /* kept ones */
    size_t errors, warnings;
} abx_problems;

#define ABX_PROBLEMS                                                                               \
    {                                                                                              \
        NULL, 0, 0, 0                                                                              \
    }

/* Add one; its strings are copied, those kept are owned by the list. */
void abx_problems_add(abx_problems *problems, const abx_problem *problem);
void abx_problems_sort(abx_problems *problems); /* by line and column; stable */
void abx_problems_clear(abx_problems *problems);
/* The first error by place, with its place, the count of the others, its code and hint. -1; 0 and no *err when there is no
 * error (warnings do not count). */
int abx_problems_to_error(const abx_problems *problems, abx_error **err);
/* "FILE:3:1: error: TEXT"; owned. */
char *abx_problem_line(const abx_problem *problem);
/* {"severity", "file", "line", "column", "key", "found", "expected", "message", "hint", "code"} */
yyjson_mut_val *abx_problem_json(yyjson_mut_doc *d, const abx_problem *problem);

static inline void abx_problems_auto_(abx_problems *p)
{
    abx_problems_clear(p);
}
#define ABX_AUTO_PROBLEMS __attribute__((cleanup(abx_problems_auto_))) abx_problems

#endif
