#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/openssl_tables.h"
#include "net/http_client_inner.h"

/* OpenSSL on demand. curl sets up all of OpenSSL (error texts, engines, tables) when it is initialised,
 * which costs more than a whole small request over a Unix socket. OpenSSL does what a connection needs by
 * itself when it first needs it. So everything is linked with --wrap=OPENSSL_init_ssl, and the one call that
 * is made in advance, which is the only one that asks for engines, is left out. */
int __real_OPENSSL_init_ssl(uint64_t options, const OPENSSL_INIT_SETTINGS *settings);
int __wrap_OPENSSL_init_ssl(uint64_t options, const OPENSSL_INIT_SETTINGS *settings);

/* Left out before main, see cmake/lazy/openssl.c. */
void __real_OPENSSL_cpuid_setup(void);

int __wrap_OPENSSL_init_ssl(uint64_t options, const OPENSSL_INIT_SETTINGS *settings)
{
    if (options & OPENSSL_INIT_ENGINE_ALL_BUILTIN)
        return 1;
    abx_openssl_ready();
    __real_OPENSSL_cpuid_setup();
    return __real_OPENSSL_init_ssl(options | OPENSSL_INIT_NO_LOAD_CONFIG, settings);
}

int abx__http_init(abx_error **err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return abx_fail(err, ABX_ERR_INTERNAL, "cannot set up the HTTP client");
    return 0;
}
