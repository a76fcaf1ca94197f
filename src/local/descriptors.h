/* Descriptors of a new process. System calls only: for use between clone and whatever follows. */
#ifndef ABX_LOCAL_DESCRIPTORS_H
#define ABX_LOCAL_DESCRIPTORS_H

#include <stddef.h>

/* 0, 1 and 2 become /dev/null; of all others only kept[0..n-1] stay open (-1: none). One of them that is below 3 is
 * moved up, and its new number is written to *kept[i]. 0, or -1 with errno. */
int abx_keep_only(int *const *kept, size_t n);

#endif
