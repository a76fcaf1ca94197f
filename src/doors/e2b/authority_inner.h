/* Certificates with their keys, in memory and as files: what authority.c makes and authority_files.c keeps. */
#ifndef ABX_DOORS_E2B_AUTHORITY_INNER_H
#define ABX_DOORS_E2B_AUTHORITY_INNER_H

#include <openssl/ssl.h>

#include "base/error.h"

typedef struct e2b_pair {
    X509 *certificate; /* NULL: none */
    EVP_PKEY *key;     /* that of the certificate */
} e2b_pair;

void e2b_pair_clear(e2b_pair *pair);
/* FOLDER/NAME.pem and FOLDER/NAME.key. Files that are not there, or are no certificate and its key, leave the pair empty: it is
 * made again. Fails with HOME when the key is a file that others can read, or is no file of ours. */
int e2b_pair_load(const char *folder, const char *name, e2b_pair *out, abx_error **err);
int e2b_pair_save(const char *folder, const char *name, const e2b_pair *pair, abx_error **err);
/* PEM, owned. */
char *e2b_certificate_text(X509 *certificate);
char *e2b_key_text(EVP_PKEY *key);

#endif
