/* What went over between the suite and a provider, as text for the author of one: the last calls of a case that failed, and
 * the place in the documentation that says how it should have been. */
#ifndef ABX_SUITE_EXCHANGE_H
#define ABX_SUITE_EXCHANGE_H

#include "doors/cli/suite/trace.h"

/* A call and what came of it: a line beginning with '>', then lines beginning with '<'; long things are cut. Owned. */
char *abx_exchange_text(const abx_trace *t);
/* Where it is written what this operation does, and, if `why` (what abx_strand_turn told) names a member of its result, what
 * the table of operations says of that. Owned; NULL for an operation that does not exist. */
char *abx_exchange_rule(const abx_op_row *op, const char *why);

#endif
