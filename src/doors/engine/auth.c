/* Who may ask. The engine listens on the loopback, where every program of this machine and every page in a browser can reach it: the token
 * keeps programs of other users out, Host and Origin keep pages out, and the proof tells a client that it is the engine to which it is
 * about to give the token. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <strings.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "doors/engine/engine.h"
#include "wire/base64.h"

#define NONCE_MIN  16
#define NONCE_MAX  64
#define NONCE_TEXT "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

void engine_token_make(engine *e)
{
    uint8_t bytes[ENGINE_TOKEN_BYTES];
    abx_random_bytes(bytes, sizeof bytes);
    (void)abx_base64_encode(bytes, sizeof bytes, e->token, ABX_BASE64_URL, false);
    abx_random_bytes(e->secret, sizeof e->secret);
    explicit_bzero(bytes, sizeof bytes);
}

void engine_digest(const engine *e, const void *a, size_t a_len, const void *b, size_t b_len,
                   uint8_t out[ENGINE_DIGEST_BYTES])
{
    uint8_t inner[ENGINE_DIGEST_BYTES + ENGINE_DIGEST_BYTES];
    unsigned len = 0;
    abx_openssl_ready();
    ABX_CHECK(HMAC(EVP_sha256(), e->secret, sizeof e->secret, a, a_len, inner, &len) != NULL &&
              len == ENGINE_DIGEST_BYTES);
    if (b) {
        ABX_CHECK(HMAC(EVP_sha256(), e->secret, sizeof e->secret, b, b_len,
                       inner + ENGINE_DIGEST_BYTES, &len) != NULL);
        ABX_CHECK(HMAC(EVP_sha256(), e->secret, sizeof e->secret, inner, sizeof inner, out, &len) !=
                  NULL);
    } else {
        memcpy(out, inner, ENGINE_DIGEST_BYTES);
    }
}

const char *engine_header(const abx_exchange *x, const char *name, size_t *count)
{
    const abx_http_headers *h = abx_exchange_headers(x);
    const char *value = NULL;
    *count = 0;
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->items[i].name, name) == 0) {
            value = h->items[i].value;
            ++*count;
        }
    return value;
}

/* 127.0.0.1, localhost, [::1], each with or without a port, and ::1. */
static bool is_own_host(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    if (!host)
        return false;
    if (strcmp(host, "::1") == 0)
        return true;
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) != 0)
            continue;
        if (!host[n])
            return true;
        const char *port = host + n + 1;
        return host[n] == ':' && strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5;
    }
    return false;
}

static void forbid(abx_exchange *x, const char *text)
{
    ABX_AUTO_ERROR err = abx_error_new(ABX_ERR_FORBIDDEN, "%s", text);
    engine_refuse(x, err);
}

/* Only who has the token, too, can tell that it is right. */
static void prove(const engine *e, const char *nonce, char out[ABX_BASE64_ROOM(32) + 16])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ABX_AUTO_FREE char *text = abx_format("%s\n%d\n%s", ENGINE_PROTOCOL, e->port, nonce);
    abx_openssl_ready();
    ABX_CHECK(HMAC(EVP_sha256(), e->token, ENGINE_TOKEN_SIZE, (const uint8_t *)text, strlen(text),
                   digest, &len) != NULL);
    memcpy(out, "X-Abx-Proof: ", 13);
    (void)abx_base64_encode(digest, len, out + 13, ABX_BASE64_URL, false);
}

static void ask_for_token(const engine *e, abx_exchange *x, bool had_one)
{
    char proof[ABX_BASE64_ROOM(32) + 16] = "";
    size_t count;
    const char *nonce = had_one ? NULL : engine_header(x, "X-Abx-Nonce", &count);
    if (nonce && count == 1 && strlen(nonce) >= NONCE_MIN && strlen(nonce) <= NONCE_MAX &&
        strspn(nonce, NONCE_TEXT) == strlen(nonce))
        prove(e, nonce, proof);
    ABX_AUTO_ERROR err =
        abx_error_new(ABX_ERR_ENGINE_TOKEN,
                      had_one ? "this is not the token of the engine" : "the request has no token");
    engine_refuse_as(x, 401, proof[0] ? proof : NULL, err);
}

static bool is_token(const engine *e, const char *value)
{
    if (!value || strncasecmp(value, "Bearer ", 7) != 0)
        return false;
    value += 7;
    return abx_equal_secret(value, strlen(value), e->token, ENGINE_TOKEN_SIZE);
}

bool engine_admits(engine *e, abx_exchange *x)
{
    size_t hosts, origins, tokens;
    const char *host = engine_header(x, "Host", &hosts);
    (void)engine_header(x, "Origin", &origins);
    if (!is_own_host(host) || hosts != 1 || abx_exchange_target(x)[0] != '/') {
        forbid(x, "the engine serves no such host: only 127.0.0.1, localhost and [::1]");
        return false;
    }
    if (origins > 0) {
        forbid(x, "the engine serves no web pages: the request has an Origin");
        return false;
    }
    const char *authorization = engine_header(x, "Authorization", &tokens);
    if (tokens == 1 && is_token(e, authorization))
        return true;
    ask_for_token(e, x, tokens > 0);
    return false;
}
