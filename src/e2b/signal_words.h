/* How E2B's envd words the signal that ended a process. */
#ifndef ABX_E2B_SIGNAL_WORDS_H
#define ABX_E2B_SIGNAL_WORDS_H

/* "killed" for 9; NULL: it has no words for this number. Static. */
const char *abx_e2b_signal_words(int number);
/* The number of "SIGKILL", "KILL" or "9"; 0: none. */
int abx_e2b_signal_number(const char *name);

#endif
