/* Certificate authorities: where this machine keeps them, and a bundle of them that is read on demand.
 * Threads: any, one at a time for an object. */
#ifndef ABX_NET_CA_H
#define ABX_NET_CA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* --- places (ca_places.c) ------------------------------------------------------------------------ */
typedef struct abx_ca_places {
    char *file; /* a bundle, PEM; or NULL */
    char *
        dir; /* folders with a file an authority, under the hash of its name, with ':' between them; or NULL */
    bool by_environment; /* SSL_CERT_FILE or SSL_CERT_DIR said so */
} abx_ca_places;

/* A client reads a file named "/dev/fd/N" from the descriptor N, without opening anything (http_trust.c).
 *
 * SSL_CERT_FILE and SSL_CERT_DIR where they are set, else the usual place of the distribution: a hashed folder, else a
 * bundle, else neither. No file is opened. */
void abx_ca_places_find(abx_ca_places *places);
/* The same for a process that shall open few files: a bundle goes before a folder. */
void abx_ca_places_find_bundle(abx_ca_places *places);
void abx_ca_places_clear(abx_ca_places *places);
/* All of them as PEM text, a line break behind each: what SSL_CERT_FILE names if by_environment, else of the usual
 * places. An empty buffer when there are none. 0, or -1 and HOME: a file that SSL_CERT_FILE names cannot be read. */
int abx_ca_read_all(bool by_environment, abx_buf *out, abx_error **err);

/* --- a bundle (ca_bundle.c) ----------------------------------------------------------------------- */
/* Its certificates by the names of their subjects. Parsing one costs far more than finding it, and a connection needs one. */
typedef struct abx_ca_bundle abx_ca_bundle;

typedef struct abx_ca_entry {
    const uint8_t *der; /* the certificate; borrowed from the bundle */
    size_t len;
    const uint8_t *subject; /* its subject's name, DER */
    size_t subject_len;
    bool with_trust; /* "TRUSTED CERTIFICATE": OpenSSL's words about its use lie behind it */
} abx_ca_entry;

/* Index n bytes of PEM text. What is no certificate is passed over. Never NULL. */
abx_ca_bundle *abx_ca_bundle_parse(const char *text, size_t n);
void abx_ca_bundle_free(abx_ca_bundle *b); /* NULL allowed */
size_t abx_ca_bundle_count(const abx_ca_bundle *b);
const abx_ca_entry *abx_ca_bundle_entry(const abx_ca_bundle *b, size_t at);
/* The first entry from `at` on with exactly this subject; the count of entries when there is none. */
size_t abx_ca_bundle_find(const abx_ca_bundle *b, size_t at, const void *subject, size_t n);

#endif
