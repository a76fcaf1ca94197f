/* Before main OpenSSL asks the processor what it can. In a virtual machine each of those questions leaves the
 * machine, which costs more than the rest of a start; so they wait for the first TLS (src/net/http_ssl_init.c).
 * What is hashed before that runs the plain code. Linked behind libcrypto into everything, with
 * --wrap=OPENSSL_cpuid_setup. */
void __wrap_OPENSSL_cpuid_setup(void);

void __wrap_OPENSSL_cpuid_setup(void)
{
}
