/* The door's certificate authority: made once in HOME/e2b, it vouches for DOMAIN, *.DOMAIN and the loopback, and for nothing else
 * (name constraints, servers only), so that a client that trusts it trusts no other site by it. HOME/e2b holds
 *
 *     ca.pem      its certificate, ten years
 *     ca.key      its private key (0600)
 *     tls.pem     the door's certificate, 397 days, renewed when fewer than 200 are left
 *     tls.key     its private key (0600)
 *     bundle.pem  the machine's usual authorities and this one, for SSL_CERT_FILE
 *
 * Keys are ECDSA P-256. Private keys are never in a message or a log. Threads: any, one at a time. */
#ifndef ABX_DOORS_E2B_AUTHORITY_H
#define ABX_DOORS_E2B_AUTHORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The domain of a door that is told none: names below localhost are the loopback's without any set-up where
 * systemd-resolved, or a browser, looks them up. */
#define E2B_DOMAIN_DEFAULT "abx.localhost"

typedef struct e2b_identity {
    char *certificate;  /* PEM */
    char *key;          /* PEM; overwritten by clear */
    bool new_authority; /* it was made now: clients that trusted another one must be told */
    int64_t renew_ms;   /* wall clock: when the certificate is to be made anew */
} e2b_identity;

/* A domain that the door can serve: lower-case labels of letters, digits and '-', two or more (clients refuse a wildcard
 * directly below a top level), short enough that PORT-ID.DOMAIN is a name. 0, or -1 and USAGE. */
int e2b_domain_check(const char *domain, abx_error **err);
/* Load what HOME/e2b has, make or renew what is missing, too old, or for another domain. The folder is there already. Fails with
 * HOME when a file cannot be used: a key that others can read, or that is another's, is refused, not replaced. */
int e2b_authority_open(const char *home, const char *domain, e2b_identity *out, abx_error **err);
void e2b_identity_clear(e2b_identity *identity);
/* Write HOME/e2b/bundle.pem and give its path (owned). The usual authorities are those that abx itself would use, so
 * SSL_CERT_FILE and SSL_CERT_DIR of the caller count. Without any the bundle holds ours alone, and *alone is set (may be NULL). */
int e2b_authority_bundle(const char *home, char **path, bool *alone, abx_error **err);
/* The path of ca.pem, owned. */
char *e2b_authority_path(const char *home);

#endif
