/* Digests and HMAC for js/crypto.js and js/node_crypto.js, over OpenSSL's digests. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"
#include "base/openssl_tables.h"
#include "jshost/js.h"

enum { BLOCK_MAX = 144 };

typedef struct hasher {
    EVP_MD_CTX *ctx; /* NULL: it was finished */
    const EVP_MD *md;
    bool keyed;
    uint8_t outer[BLOCK_MAX]; /* of HMAC: the key for the second digest */
} hasher;

static JSClassID hasher_class;

static void finalize_hasher(JSRuntime *rt, JSValueConst v)
{
    hasher *h = JS_GetOpaque(v, hasher_class);
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    OPENSSL_cleanse(h->outer, sizeof h->outer);
    js_free_rt(rt, h);
}

static const JSClassDef hasher_def = {"Hasher", .finalizer = finalize_hasher};

static const EVP_MD *digest_by_name(const char *name)
{
    static const struct {
        const char *name;
        const EVP_MD *(*get)(void);
    } all[] = {{"sha1", EVP_sha1},     {"sha224", EVP_sha224}, {"sha256", EVP_sha256},
               {"sha384", EVP_sha384}, {"sha512", EVP_sha512}, {"md5", EVP_md5}};
    for (size_t i = 0; i < ABX_COUNT(all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].get();
    return NULL;
}

/* RFC 2104: the inner digest begins with the key, padded and changed; the outer key is kept. */
static void begin_hmac(hasher *h, const uint8_t *key, size_t n)
{
    uint8_t block[BLOCK_MAX] = {0}, inner[BLOCK_MAX];
    size_t size = (size_t)EVP_MD_get_block_size(h->md);
    unsigned len = 0;
    if (n > size)
        ABX_CHECK(EVP_Digest(key, n, block, &len, h->md, NULL) == 1);
    else
        memcpy(block, key, n);
    for (size_t i = 0; i < size; i++) {
        inner[i] = block[i] ^ 0x36;
        h->outer[i] = block[i] ^ 0x5C;
    }
    ABX_CHECK(EVP_DigestUpdate(h->ctx, inner, size) == 1);
    OPENSSL_cleanse(block, sizeof block);
    OPENSSL_cleanse(inner, sizeof inner);
    h->keyed = true;
}

/* hashNew(name, key): a hasher, or undefined: the name is not known. key: bytes for HMAC, or undefined */
static JSValue native_hash_new(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *key = NULL;
    size_t n = 0;
    (void)self;
    (void)argc;
    abx_openssl_ready();
    const char *name = JS_ToCString(ctx, argv[0]);
    const EVP_MD *md = name ? digest_by_name(name) : NULL;
    JS_FreeCString(ctx, name);
    if (!md)
        return name ? JS_UNDEFINED : JS_EXCEPTION;
    if (!JS_IsUndefined(argv[1]) && abx_js_bytes(ctx, argv[1], &key, &n) < 0)
        return JS_EXCEPTION;
    hasher *h = js_mallocz(ctx, sizeof *h);
    if (!h)
        return JS_EXCEPTION;
    h->md = md;
    h->ctx = EVP_MD_CTX_new();
    ABX_CHECK(h->ctx && EVP_DigestInit_ex(h->ctx, md, NULL) == 1);
    if (key)
        begin_hmac(h, key, n);
    JSValue v = JS_NewObjectClass(ctx, hasher_class);
    if (JS_IsException(v)) {
        EVP_MD_CTX_free(h->ctx);
        js_free(ctx, h);
    } else {
        JS_SetOpaque(v, h);
    }
    return v;
}

/* hashUpdate(hasher, bytes) */
static JSValue native_hash_update(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *bytes;
    size_t n;
    (void)self;
    (void)argc;
    hasher *h = JS_GetOpaque2(ctx, argv[0], hasher_class);
    if (!h || abx_js_bytes(ctx, argv[1], &bytes, &n) < 0)
        return JS_EXCEPTION;
    if (!h->ctx)
        return JS_ThrowTypeError(ctx, "the digest was taken already");
    ABX_CHECK(EVP_DigestUpdate(h->ctx, bytes, n) == 1);
    return JS_UNDEFINED;
}

/* hashEnd(hasher): the digest */
static JSValue native_hash_end(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint8_t out[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    (void)self;
    (void)argc;
    hasher *h = JS_GetOpaque2(ctx, argv[0], hasher_class);
    if (!h)
        return JS_EXCEPTION;
    if (!h->ctx)
        return JS_ThrowTypeError(ctx, "the digest was taken already");
    ABX_CHECK(EVP_DigestFinal_ex(h->ctx, out, &len) == 1);
    if (h->keyed)
        ABX_CHECK(EVP_DigestInit_ex(h->ctx, h->md, NULL) == 1 &&
                  EVP_DigestUpdate(h->ctx, h->outer, (size_t)EVP_MD_get_block_size(h->md)) == 1 &&
                  EVP_DigestUpdate(h->ctx, out, len) == 1 &&
                  EVP_DigestFinal_ex(h->ctx, out, &len) == 1);
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
    return JS_NewUint8ArrayCopy(ctx, out, len);
}

/* sameBytes(a, b): compared in a time that does not depend on where they differ */
static JSValue native_same_bytes(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *a, *b;
    size_t n, m;
    (void)self;
    (void)argc;
    if (abx_js_bytes(ctx, argv[0], &a, &n) < 0 || abx_js_bytes(ctx, argv[1], &b, &m) < 0)
        return JS_EXCEPTION;
    unsigned differ = n != m;
    for (size_t i = 0; i < n && i < m; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return JS_NewBool(ctx, !differ);
}

/* stop(why): the session of the module ends */
static JSValue native_stop(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    abx_js *js = abx_js_of(ctx);
    (void)self;
    (void)argc;
    ABX_AUTO_FREE char *why = abx_js_text(ctx, argv[0]);
    if (why)
        abx_js_break(js, why);
    js->interrupted = true; /* nothing catches what comes now */
    return JS_ThrowInternalError(ctx, "the session ends");
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("hashNew", 2, native_hash_new), JS_CFUNC_DEF("hashUpdate", 2, native_hash_update),
    JS_CFUNC_DEF("hashEnd", 1, native_hash_end), JS_CFUNC_DEF("sameBytes", 2, native_same_bytes),
    JS_CFUNC_DEF("stop", 1, native_stop),
};

void abx__js_natives_digest(abx_js *js, JSValueConst internal);
void abx__js_natives_digest(abx_js *js, JSValueConst internal)
{
    hasher_class = 0; /* of this runtime */
    JS_NewClassID(js->rt, &hasher_class);
    JS_NewClass(js->rt, hasher_class, &hasher_def);
    JS_SetPropertyFunctionList(js->ctx, internal, functions, (int)ABX_COUNT(functions));
}
