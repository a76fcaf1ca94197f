/* Do the names below a domain lead to this machine? Servers with a name for each sandbox need that. */
#ifndef ABX_CLI_WILDCARD_H
#define ABX_CLI_WILDCARD_H

#include <stdbool.h>

/* Look a name below the domain up as the machine's programs do (getent), for two seconds at the most. True: 127.0.0.1 is among its
 * addresses; false too where there is no getent. domain: without a port. */
bool abx_wildcard_leads_here(const char *domain);
/* What to do about it: a sentence. Owned. */
char *abx_wildcard_fix(const char *domain);

#endif
