/* A list of steps that is being done, one after the other; branches of `parallel` are strands of their own. */
#ifndef ABX_SUITE_STRAND_H
#define ABX_SUITE_STRAND_H

#include "doors/cli/suite/trial.h"

typedef struct abx_strand abx_strand;

/* vars: where the values that it saves go, and what it reads; borrowed. */
abx_strand *abx_strand_new(abx_trial *trial, yyjson_val *steps, abx_vars *vars);
/* Go on as far as it goes: 1 all steps are done, 0 it waits, -1 a step failed and *why (owned) tells. */
int abx_strand_turn(abx_strand *s, char **why);
void abx_strand_free(abx_strand *s); /* NULL allowed; its calls go on */

#endif
