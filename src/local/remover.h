/* Who clears a tied sandbox away: a process in the background, so that nobody waits for the last file to go. It is
 * forked while its maker waits for the sandbox to come up anyway, since a fork is dear when the answer is due. */
#ifndef ABX_LOCAL_REMOVER_H
#define ABX_LOCAL_REMOVER_H

#include "local/backend.h"

/* Start the remover of sandbox id, whose first process is that of pidfd (borrowed); slot: its id slot, -1: none; has_network: a helper may be
 * left of it. If
 * its maker ends without a word, killed, say, it clears up when that process has ended. Only for a program that may
 * fork. A failure is no error: abx_remover_hand_over will say that there is none. */
void abx_remover_start(abx_local *local, const char *id, int pidfd, int slot, bool has_network);
/* The sandbox is killed and its folder lies in the trash under `name`: the remover waits for its end, removes the
 * folder, frees the slot, and prepares the folder of the next sandbox. 0, or -1: there is no remover of this id. */
int abx_remover_hand_over(abx_local *local, const char *id, const char name[64]);

#endif
