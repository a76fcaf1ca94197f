/* What a run of the suite says: for people, as JSON, as JUnit XML. */
#ifndef ABX_SUITE_REPORT_H
#define ABX_SUITE_REPORT_H

#include "doors/cli/suite/suite_run.h"

const char *abx_outcome_name(abx_outcome outcome); /* "passed", "failed", "notApplicable" */
/* To stdout, in the format of the command line. 0, or -1 and *err. */
int abx_suite_print(abx_cli *cli, const abx_suite *suite, const abx_suite_report *report,
                    abx_error **err);
/* The text of a JUnit file. */
void abx_suite_junit(const abx_suite_report *report, abx_buf *out);

#endif
