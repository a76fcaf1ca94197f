/* A thread that starts children for a loop which any thread of a program may drive. The kernel ends some children with the thread that started
 * them (PR_SET_PDEATHSIG), and a thread of a library's caller may end at any moment; this one lives as long as the loop. It is made
 * with the first child. Threads: any, one at a time. */
#ifndef ABX_NET_KEEPER_H
#define ABX_NET_KEEPER_H

typedef struct abx_keeper abx_keeper;

abx_keeper *abx_keeper_new(void);
/* Ends the thread; children that are bound to it end with it. NULL allowed. */
void abx_keeper_free(abx_keeper *keeper);
/* Run fn(arg) in the keeper's thread, or here when keeper is NULL, and wait. 0, or -1 with errno when there can be no thread. */
int abx_keeper_run(abx_keeper *keeper, void (*fn)(void *arg), void *arg);

#endif
