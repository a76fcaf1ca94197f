#include <curl/curl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
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

/* curl's requests hold keys, in many buffers that it frees as they are: its memory is overwritten when it is given back. */
static void wiped_free(void *p)
{
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

static void *wiped_realloc(void *p, size_t n)
{
    size_t had = p ? malloc_usable_size(p) : 0;
    if (p && n <= had && n >= had / 2)
        return p;
    void *now = malloc(n ? n : 1);
    if (!now)
        return NULL;
    if (p)
        memcpy(now, p, had < n ? had : n);
    wiped_free(p);
    return now;
}

int abx__http_init(abx_error **err)
{
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wiped_free, wiped_realloc, strdup,
                             calloc) != CURLE_OK)
        return abx_fail(err, ABX_ERR_INTERNAL, "cannot set up the HTTP client");
    return 0;
}
