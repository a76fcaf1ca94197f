/* Manual pages (roff, man(7)) from the tables. */
#ifndef ABX_CLI_MAN_H
#define ABX_CLI_MAN_H

#include "base/buf.h"
#include "doors/cli/spec.h"

void abx_man_main(abx_buf *out);                       /* abx.1 */
void abx_man_verb(const abx_verb *verb, abx_buf *out); /* abx-VERB.1 */
/* "abx-files-ls.1" for "files ls". Caller frees. */
char *abx_man_file(const abx_verb *verb);

#endif
