#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "base/text.h"
#include "net/http_trust.h"

enum { MOST_NAMES = 3, MOST_NAME_BYTES = 100 };

void abx__verdict_clear(abx__verdict *v)
{
    X509_free(v->leaf);
    X509_free(v->fault);
    memset(v, 0, sizeof *v);
}

static X509 *keep(X509 *x)
{
    if (x)
        X509_up_ref(x);
    return x;
}

int abx__verify(X509_STORE_CTX *store, void *data)
{
    abx__verdict *v = data;
    int rc = X509_verify_cert(store);

    abx_openssl_ready();
    abx__verdict_clear(v);
    v->code = X509_STORE_CTX_get_error(store);
    v->depth = X509_STORE_CTX_get_error_depth(store);
    v->leaf = keep(X509_STORE_CTX_get0_cert(store));
    if (rc != 1)
        v->fault = keep(X509_STORE_CTX_get_current_cert(store));
    if (rc != 1 && v->code == X509_V_OK)
        v->code = X509_V_ERR_UNSPECIFIED;
    return rc;
}

/* --- words ---------------------------------------------------------------------------------------- */

/* What strangers wrote, fit for a terminal. Owned. */
static char *tame(const void *text, size_t n)
{
    ABX_AUTO_FREE char *cut = abx_strndup(text, n < MOST_NAME_BYTES ? n : MOST_NAME_BYTES);
    return abx_printable(cut);
}

static char *name_of(const X509_NAME *name)
{
    static const int kinds[] = {NID_commonName, NID_organizationalUnitName, NID_organizationName};

    for (size_t i = 0; name && i < ABX_COUNT(kinds); i++) {
        int at = X509_NAME_get_index_by_NID(name, kinds[i], -1);
        if (at < 0)
            continue;
        const ASN1_STRING *s = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
        uint8_t *utf8 = NULL;
        int n = ASN1_STRING_to_UTF8(&utf8, s);
        char *text = n > 0 ? tame(utf8, (size_t)n) : NULL;
        OPENSSL_free(utf8);
        if (text)
            return text;
    }
    return abx_strdup("somebody without a name");
}

static void date(const ASN1_TIME *t, char out[ABX_RFC3339_SIZE])
{
    struct tm tm;

    if (t && ASN1_TIME_to_tm(t, &tm) == 1)
        abx_format_rfc3339((int64_t)timegm(&tm) * 1000, out);
    else
        snprintf(out, ABX_RFC3339_SIZE, "an unknown time");
}

/* Whose certificate: the server's own, or one on the way to the authority. */
static char *whose(const abx__verdict *v)
{
    if (v->depth <= 0 || !v->fault)
        return abx_strdup("its certificate");
    ABX_AUTO_FREE char *name = name_of(X509_get_subject_name(v->fault));
    return abx_format("the certificate of its issuer '%s'", name);
}

/* "'a', 'b' and 3 more" */
static char *hosts_of(X509 *x)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    char *all = NULL;
    int count = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
        if (g->type != GEN_DNS || ++count > MOST_NAMES)
            continue;
        ABX_AUTO_FREE char *name =
            tame(ASN1_STRING_get0_data(g->d.dNSName), (size_t)ASN1_STRING_length(g->d.dNSName));
        ABX_AUTO_FREE char *before = ABX_TAKE(all);
        all = abx_format("%s%s'%s'", before ? before : "", before ? ", " : "", name);
    }
    GENERAL_NAMES_free(names);
    if (!all) {
        ABX_AUTO_FREE char *name = name_of(X509_get_subject_name(x));
        return abx_format("'%s'", name);
    }
    if (count <= MOST_NAMES)
        return all;
    ABX_AUTO_FREE char *before = all;
    return abx_format("%s and %d more", before, count - MOST_NAMES);
}

static char *reason_of_chain(const abx__verdict *v)
{
    ABX_AUTO_FREE char *who = whose(v);
    ABX_AUTO_FREE char *issuer = name_of(v->fault ? X509_get_issuer_name(v->fault) : NULL);
    char then[ABX_RFC3339_SIZE], now[ABX_RFC3339_SIZE];

    abx_format_rfc3339(abx_now_wall_ms() / 1000 * 1000, now);
    switch (v->code) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return abx_format("%s is by '%s', an authority that is not known here", who, issuer);
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return abx_format("it is vouched for by '%s', an authority that is not known here", issuer);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return abx_strdup("its certificate is signed by itself");
    case X509_V_ERR_CERT_HAS_EXPIRED:
        date(X509_get0_notAfter(v->fault), then);
        return abx_format("%s expired at %s (it is %s)", who, then, now);
    case X509_V_ERR_CERT_NOT_YET_VALID:
        date(X509_get0_notBefore(v->fault), then);
        return abx_format("%s is not valid before %s (it is %s)", who, then, now);
    default: return abx_format("%s: %s", who, X509_verify_cert_error_string(v->code));
    }
}

static bool fits(X509 *x, const char *host)
{
    return X509_check_host(x, host, 0, 0, NULL) == 1 || X509_check_ip_asc(x, host, 0) == 1;
}

abx_error *abx__verify_error(const abx__verdict *v, const abx__trust *t, const char *server,
                             const char *host)
{
    abx_error *e;

    if (v->code != X509_V_OK) {
        ABX_AUTO_FREE char *why = reason_of_chain(v);
        e = abx_error_new(ABX_ERR_NETWORK, "cannot trust '%s': %s", server, why);
        if (v->code == X509_V_ERR_CERT_HAS_EXPIRED || v->code == X509_V_ERR_CERT_NOT_YET_VALID)
            abx_hint(&e, "look whether the clock of this machine is right");
        else
            abx_hint(
                &e,
                "the authorities known here are those in %s; SSL_CERT_FILE can name a file with "
                "others",
                abx__trust_where(t));
    } else if (v->leaf && !fits(v->leaf, host)) {
        ABX_AUTO_FREE char *names = hosts_of(v->leaf);
        e = abx_error_new(ABX_ERR_NETWORK, "cannot trust '%s': its certificate is for %s", server,
                          names);
        abx_hint(&e, "look whether the URL is right");
    } else {
        return NULL;
    }
    e->retryable = ABX_RETRY_NO; /* it will be the same the next time */
    return e;
}
