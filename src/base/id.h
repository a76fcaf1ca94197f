/* Random bytes and ids. */
#ifndef ABX_BASE_ID_H
#define ABX_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Cryptographic random bytes from the kernel; never fails (aborts if the kernel has none). */
void abx_random_bytes(void *out, size_t n);
/* n characters of [a-z0-9], the first a letter, and a 0 behind them: out has room for n + 1. */
void abx_random_id(char *out, size_t n);
/* True if s is a sandbox id as our own doors make them: ^[a-z0-9]{12,32}$ */
bool abx_is_id(const char *s);
/* 2n hexadecimal digits and a 0. */
void abx_hex(const void *data, size_t n, char *out);
/* Equal in constant time (for equal lengths; a different length answers at once). */
bool abx_equal_secret(const void *a, size_t a_len, const void *b, size_t b_len);

#define ABX_ID_LEN 16 /* of a new local sandbox */

#endif
