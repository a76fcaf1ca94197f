/* Texts that may not be shown, and the same texts without them. Not shared between threads. */
#ifndef ABX_BASE_SECRETS_H
#define ABX_BASE_SECRETS_H

#include <stddef.h>

/* Shorter ones are let through: they would blank ordinary words. */
#define ABX_SECRET_MIN   4
#define ABX_SECRET_BLANK "***"

typedef struct abx_secrets {
    char **values; /* longest first; NULL at the end */
} abx_secrets;

/* values (NULL at the end, or NULL) are copied. */
void abx_secrets_init(abx_secrets *s, const char *const *values);
void abx_secrets_clear(abx_secrets *s); /* overwrites them */
/* The text with ABX_SECRET_BLANK for each secret in it. Owned. */
char *abx_secrets_blank(const abx_secrets *s, const char *text, size_t n);

#endif
