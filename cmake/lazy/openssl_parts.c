/* Parts of OpenSSL that nothing here uses and that only its own lists refer to. Debian's libcrypto.a is a file a part,
 * so what no list names stays out of the program (0.34 MB). Linked behind libcrypto into everything, with --wrap of each name
 * (left_out.txt); where another version of OpenSSL lacks a name, its wrapper is never called.
 *
 * TLS finds its algorithms by fetching them from the built-in provider, which is not changed but for the first entry here. The
 * lists below are those of the older interface, by which encrypted keys and certificates name theirs. */
#include <openssl/core.h>
#include <openssl/evp.h>
#include <openssl/objects.h>

/* AES-CBC and HMAC in one go, for CBC suites of TLS 1.2, with code for eight records at once: 110 KB. Without it TLS does the
 * one after the other. */
int __wrap_ossl_cipher_capable_aes_cbc_hmac_sha1(void);
int __wrap_ossl_cipher_capable_aes_cbc_hmac_sha256(void);

int __wrap_ossl_cipher_capable_aes_cbc_hmac_sha1(void)
{
    return 0;
}

int __wrap_ossl_cipher_capable_aes_cbc_hmac_sha256(void)
{
    return 0;
}

extern const OSSL_DISPATCH abx__no_cipher[1];
const OSSL_DISPATCH abx__no_cipher[1] = {{0, NULL}};
#define NO_CIPHER(name)                                                                            \
    extern const OSSL_DISPATCH __wrap_ossl_##name##_functions[1]                                   \
        __attribute__((alias("abx__no_cipher")))
NO_CIPHER(aes128cbc_hmac_sha1);
NO_CIPHER(aes256cbc_hmac_sha1);
NO_CIPHER(aes128cbc_hmac_sha256);
NO_CIPHER(aes256cbc_hmac_sha256);

/* Engines: the ways to load code into OpenSSL, and hardware of VIA. */
void abx__no_engine(void);
void abx__no_engine(void)
{
}
#define NO_ENGINE(name)                                                                            \
    void __wrap_engine_load_##name##_int(void) __attribute__((alias("abx__no_engine")))
NO_ENGINE(afalg);
NO_ENGINE(devcrypto);
NO_ENGINE(dynamic);
NO_ENGINE(openssl);
NO_ENGINE(padlock);
NO_ENGINE(rdrand);

/* An http client, for lists of revoked certificates at an address; nobody asks for one. */
void *__wrap_OSSL_HTTP_get(void);
void *__wrap_OSSL_HTTP_get(void)
{
    return NULL;
}

void __wrap_openssl_add_all_ciphers_int(void);
void __wrap_openssl_add_all_digests_int(void);

void __wrap_openssl_add_all_ciphers_int(void)
{
    const EVP_CIPHER *all[] = {EVP_aes_128_cbc(),       EVP_aes_192_cbc(), EVP_aes_256_cbc(),
                               EVP_aes_128_ecb(),       EVP_aes_192_ecb(), EVP_aes_256_ecb(),
                               EVP_aes_128_ctr(),       EVP_aes_192_ctr(), EVP_aes_256_ctr(),
                               EVP_aes_128_gcm(),       EVP_aes_192_gcm(), EVP_aes_256_gcm(),
                               EVP_aes_128_ccm(),       EVP_aes_192_ccm(), EVP_aes_256_ccm(),
                               EVP_chacha20_poly1305(), EVP_des_ede3_cbc()};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        EVP_add_cipher(all[i]);
}

void __wrap_openssl_add_all_digests_int(void)
{
    const EVP_MD *all[] = {EVP_md5(),        EVP_md5_sha1(), EVP_sha1(),     EVP_sha224(),
                           EVP_sha256(),     EVP_sha384(),   EVP_sha512(),   EVP_sha512_224(),
                           EVP_sha512_256(), EVP_sha3_224(), EVP_sha3_256(), EVP_sha3_384(),
                           EVP_sha3_512()};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        EVP_add_digest(all[i]);
    EVP_add_digest_alias(SN_md5, "ssl3-md5");
    EVP_add_digest_alias(SN_sha1, "ssl3-sha1");
    EVP_add_digest_alias(SN_sha1WithRSAEncryption, SN_sha1WithRSA);
}
