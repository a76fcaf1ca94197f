/* What of OpenSSL waits until it is needed. Linked behind libcrypto into everything, with --wrap of the functions
 * below; the first TLS does the rest (src/net/http_ssl_init.c).
 *
 * Before main OpenSSL asks the processor what it can. In a virtual machine each of those questions leaves the
 * machine, which costs more than the rest of a start. What is hashed before the first TLS runs the plain code.
 *
 * The configuration of the machine's OpenSSL is not read: it may load modules from anywhere. Nor is OpenSSL taken down
 * when the program ends: the kernel is faster.
 *
 * The functions by which curl comes to OpenSSL are where its tables are made ready. */
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/openssl_tables.h"

#define LEFT_OUT (OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT)

void __wrap_OPENSSL_cpuid_setup(void);
int __real_OPENSSL_init_crypto(uint64_t options, const OPENSSL_INIT_SETTINGS *settings);
int __wrap_OPENSSL_init_crypto(uint64_t options, const OPENSSL_INIT_SETTINGS *settings);
int __real_RAND_bytes(unsigned char *out, int len);
int __wrap_RAND_bytes(unsigned char *out, int len);

void __wrap_OPENSSL_cpuid_setup(void)
{
}

int __wrap_OPENSSL_init_crypto(uint64_t options, const OPENSSL_INIT_SETTINGS *settings)
{
    abx_openssl_ready();
    return __real_OPENSSL_init_crypto(options | LEFT_OUT, settings);
}

int __wrap_RAND_bytes(unsigned char *out, int len)
{
    abx_openssl_ready();
    return __real_RAND_bytes(out, len);
}
