#include "e2b/sign.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/openssl_tables.h"
#include "wire/base64.h"

char *abx_e2b_sign(const char *path, const char *operation, const char *user, const char *token,
                   const char *expiration)
{
    ABX_AUTO_FREE char *text = abx_format("%s:%s:%s:%s%s%s", path, operation, user, token,
                                          expiration ? ":" : "", expiration ? expiration : "");
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    abx_openssl_ready();
    ABX_CHECK(EVP_Digest(text, strlen(text), digest, &len, EVP_sha256(), NULL) == 1);
    explicit_bzero(text, strlen(text));
    ABX_AUTO_FREE char *code = abx_base64_text(digest, len, ABX_BASE64_STANDARD, false);
    return abx_format("v1_%s", code);
}

/* NAME=VALUE, with what must be encoded; first: behind "?", else behind "&". */
static void add(abx_buf *out, const char *name, const char *value)
{
    bool first = !memchr(out->data, '?', out->len);
    ABX_AUTO_FREE char *encoded = abx_percent_encode(value, "");
    ABX_CHECK(abx_buf_addf(out, "%c%s=%s", first ? '?' : '&', name, encoded) == 0);
}

char *abx_e2b_file_url(const char *base, const char *path, const char *operation, const char *user,
                       const char *token, int64_t until, abx_error **err)
{
    if (until >= 0 && !token) {
        (void)abx_fail(err, ABX_ERR_USAGE, "an address expires only where it is signed");
        return NULL;
    }
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX);
    ABX_AUTO_FREE char *number = until >= 0 ? abx_format("%lld", (long long)until) : NULL;
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/')
        n--;
    ABX_CHECK(abx_buf_add(&out, base, n) == 0 && abx_buf_add_str(&out, "/files") == 0);
    if (user)
        add(&out, "username", user);
    if (path)
        add(&out, "path", path);
    if (token) {
        ABX_AUTO_FREE char *sign =
            abx_e2b_sign(path ? path : "", operation, user ? user : "", token, number);
        add(&out, "signature", sign);
    }
    if (number)
        add(&out, "signature_expiration", number);
    return abx_strndup(abx_buf_cstr(&out), out.len);
}
