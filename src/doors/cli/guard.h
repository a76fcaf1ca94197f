/* Secrets stay out of core files and out of the reach of debuggers. */
#ifndef ABX_CLI_GUARD_H
#define ABX_CLI_GUARD_H

#include "host/config.h"

/* What this process holds from now on is not dumped and not read by other processes of the user. It may then not make the first
 * process of a sandbox itself; nobody who holds a secret does. */
void abx_guard_memory(void);
/* The same if the configuration holds the text of a secret, or as soon as one is loaded for a provider. With a secret in the environment only, no core file is written:
 * the environment can be read in many places, a file would stay. */
void abx_guard_secrets(abx_config *config);

#endif
