/* Which servers the HTTP client trusts, and why not. http_trust.c has the authorities, http_verify.c the words. */
#ifndef ABX_NET_HTTP_TRUST_H
#define ABX_NET_HTTP_TRUST_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "base/error.h"

/* The authorities of one client: opened at its first https request. */
typedef struct abx__trust abx__trust;

/* Find them. Fails with NETWORK: SSL_CERT_FILE or SSL_CERT_DIR names what cannot be read or holds none; this machine
 * has none. */
int abx__trust_open(abx__trust **out, abx_error **err);
void abx__trust_free(abx__trust *t); /* NULL allowed; after all that was made with it */
/* Where they come from, for people: "'/etc/ssl/certs'". */
const char *abx__trust_where(const abx__trust *t);
/* Let this context find them. False: out of memory. */
bool abx__trust_use(abx__trust *t, SSL_CTX *ctx);

/* What a handshake found out about the server's certificates. */
typedef struct abx__verdict {
    int code; /* X509_V_…; X509_V_OK: its certificates are in order, which says nothing of its name */
    int depth;  /* of the certificate at fault; 0: the server's own */
    X509 *leaf; /* the server's own, or NULL */
    X509 *fault;
} abx__verdict;

void abx__verdict_clear(abx__verdict *v);
/* To be called by OpenSSL in place of X509_verify_cert; data: an abx__verdict. */
int abx__verify(X509_STORE_CTX *store, void *data);
/* Why a server is not trusted. server: "https://HOST:PORT"; host: without brackets. NULL: its certificates are in order
 * and name this host. */
abx_error *abx__verify_error(const abx__verdict *v, const abx__trust *t, const char *server,
                             const char *host);

#endif
