/* Signatures of files' addresses: who has the token of a sandbox can make one, and whoever has the address may read or write
 * that file, until it expires. */
#ifndef ABX_E2B_SIGN_H
#define ABX_E2B_SIGN_H

#include <stdint.h>

#include "base/error.h"

/* "v1_" + base64 without padding of SHA-256(path:operation:user:token[:expiration]). operation: "read" or "write";
 * expiration: decimal text or NULL. Owned. */
char *abx_e2b_sign(const char *path, const char *operation, const char *user, const char *token,
                   const char *expiration);
/* The address of a file: BASE/files?username=…&path=…&signature=…[&signature_expiration=…]. base: of envd, as the client's
 * base_url. path: NULL for an upload that names its files itself. user: NULL, none. token: of the sandbox; NULL: it has none,
 * and the address no signature. until: seconds since 1970, -1: it does not expire. Owned; NULL and *err (USAGE) for an expiration
 * without a token. */
char *abx_e2b_file_url(const char *base, const char *path, const char *operation, const char *user,
                       const char *token, int64_t until, abx_error **err);

#endif
