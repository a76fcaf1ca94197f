/* The verbs: abx_verb_FN for each row of verbs.def, one file a verb or a group. Each returns the exit code, or -1 and *err. */
#ifndef ABX_CLI_VERBS_H
#define ABX_CLI_VERBS_H

#include "doors/cli/cli.h"

#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary)                     \
    int abx_verb_##fn(abx_cli *cli, abx_error **err);
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"

#endif
