/* Processes in the background, and what is known of all. */
#ifndef KEEP_H
#define KEEP_H

#include "spawn.h"

int start_background(epp_call *call, const box *b, const plan *p);
/* The keeper of one: this program started again with --keep and the words that start_background made. Its exit code. */
int keep(int argc, char **argv);

#endif
