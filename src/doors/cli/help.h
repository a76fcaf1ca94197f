/* Help texts from the tables. */
#ifndef ABX_CLI_HELP_H
#define ABX_CLI_HELP_H

#include "base/buf.h"
#include "doors/cli/spec.h"

#define ABX_HELP_WIDTH 80

void abx_help_short(abx_buf *out);                      /* `abx` alone: about 20 lines */
void abx_help_verb(const abx_verb *verb, abx_buf *out); /* all about one verb */
void abx_help_group(const char *group, abx_buf *out);   /* the verbs of a group */
/* "-o, --output FORMAT" of a flag, for help and manual. Caller frees. */
char *abx_help_flag_head(const abx_flag *flag);
/* Text in lines of at most ABX_HELP_WIDTH columns, each indented. */
void abx_help_wrap(abx_buf *out, const char *text, size_t indent);

#endif
