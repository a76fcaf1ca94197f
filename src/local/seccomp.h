/* The generated filter programs, for the test that compares them with the rules. */
#ifndef ABX_LOCAL_SECCOMP_H
#define ABX_LOCAL_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

/* The program of this architecture, for commands or for pid 1; *n instructions. Static. */
const struct sock_filter *abx_seccomp_table(bool child, size_t *n);

#endif
