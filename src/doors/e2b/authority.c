#include "doors/e2b/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/id.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "base/text.h"
#include "doors/e2b/authority_inner.h"
#include "net/ca.h"

#define DAY_S        ((long)24 * 3600)
#define AUTHORITY_S  (3650 * DAY_S)
#define LEAF_S       (397 * DAY_S)
#define RENEW_S      (200 * DAY_S) /* left */
#define CLOCK_BACK_S 3600          /* clocks of clients may be a bit behind */
#define FILE_MAX     ((size_t)64 * 1024)
#define BUNDLE_MAX   ((size_t)16 * 1024 * 1024)
#define LONGEST_NAME 253
#define LONGEST_HOST "65535-0123456789abcdef0123456789abcdef."

/* --- the domain -------------------------------------------------------------------------------------------------- */
static bool is_label(const char *s, size_t n)
{
    return n > 0 && n <= 63 && s[0] != '-' && s[n - 1] != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") >= n;
}

int e2b_domain_check(const char *domain, abx_error **err)
{
    size_t labels = 0;
    const char *at = domain;

    for (;; at++) {
        size_t n = strcspn(at, ".");
        if (!is_label(at, n))
            return abx_fail(err, ABX_ERR_USAGE, "'%s' is no domain in lower case", domain);
        labels++;
        at += n;
        if (!*at)
            break;
    }
    if (labels < 2) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no domain for a wildcard certificate", domain);
        return abx_hint(err, "clients want at least one dot, as in 'abx.%s'", domain);
    }
    if (strlen(domain) + strlen(LONGEST_HOST) > LONGEST_NAME)
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is too long a domain", domain);
    return 0;
}

/* --- certificates ------------------------------------------------------------------------------------------------- */
static bool extend(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool done = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return done;
}

static bool set_serial(X509 *x)
{
    uint8_t bytes[16];
    abx_random_bytes(bytes, sizeof bytes);
    bytes[0] &= 0x7f;
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool done = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
    BN_free(number);
    return done;
}

static bool set_name(X509_NAME *name, const char *common)
{
    return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const uint8_t *)"abx", -1, -1,
                                      0) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const uint8_t *)common, -1, -1,
                                      0) == 1;
}

/* Everything but extensions and signature. */
static X509 *new_certificate(EVP_PKEY *key, const char *common, long life_s)
{
    X509 *x = X509_new();
    bool done = x && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
                X509_gmtime_adj(X509_getm_notBefore(x), -CLOCK_BACK_S) &&
                X509_gmtime_adj(X509_getm_notAfter(x), life_s) && X509_set_pubkey(x, key) == 1 &&
                set_name(X509_get_subject_name(x), common);
    if (done)
        return x;
    X509_free(x);
    return NULL;
}

/* A common name is 64 characters at most, and nobody reads it. */
#define COMMON_MAX 64
static X509 *make_authority(EVP_PKEY *key, const char *domain)
{
    char id[9];
    abx_random_id(id, 8);
    ABX_AUTO_FREE char *common = abx_format("abx e2b authority %s", id);
    ABX_AUTO_FREE char *names =
        abx_format("critical,permitted;DNS:%s,permitted;IP:127.0.0.1/255.255.255.255,"
                   "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                   domain);
    X509 *x = new_certificate(key, common, AUTHORITY_S);
    bool done = x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
                extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                extend(x, x, NID_ext_key_usage, "serverAuth") &&
                extend(x, x, NID_subject_key_identifier, "hash") &&
                extend(x, x, NID_name_constraints, names) && X509_sign(x, key, EVP_sha256()) > 0;
    if (done)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_leaf(EVP_PKEY *key, const char *domain, X509 *authority, EVP_PKEY *authority_key)
{
    ABX_AUTO_FREE char *names = abx_format("DNS:%s,DNS:*.%s,IP:127.0.0.1,IP:::1", domain, domain);
    X509 *x = new_certificate(key, strlen(domain) <= COMMON_MAX ? domain : "abx e2b", LEAF_S);
    bool done = x && X509_set_issuer_name(x, X509_get_subject_name(authority)) == 1 &&
                extend(x, authority, NID_basic_constraints, "critical,CA:FALSE") &&
                extend(x, authority, NID_key_usage, "critical,digitalSignature") &&
                extend(x, authority, NID_ext_key_usage, "serverAuth") &&
                extend(x, authority, NID_subject_key_identifier, "hash") &&
                extend(x, authority, NID_authority_key_identifier, "keyid:always") &&
                extend(x, authority, NID_subject_alt_name, names) &&
                X509_sign(x, authority_key, EVP_sha256()) > 0;
    if (done)
        return x;
    X509_free(x);
    return NULL;
}

/* May the authority vouch for this domain? Its constraint names the domain itself. */
static bool covers(X509 *authority, const char *domain)
{
    NAME_CONSTRAINTS *names = X509_get_ext_d2i(authority, NID_name_constraints, NULL, NULL);
    bool found = false;

    for (int i = 0; names && i < sk_GENERAL_SUBTREE_num(names->permittedSubtrees); i++) {
        const GENERAL_NAME *base = sk_GENERAL_SUBTREE_value(names->permittedSubtrees, i)->base;
        if (base->type == GEN_DNS &&
            (size_t)ASN1_STRING_length(base->d.dNSName) == strlen(domain) &&
            memcmp(ASN1_STRING_get0_data(base->d.dNSName), domain, strlen(domain)) == 0)
            found = true;
    }
    NAME_CONSTRAINTS_free(names);
    return found;
}

static bool has_left(X509 *x, long seconds)
{
    time_t then = time(NULL) + seconds;
    return X509_cmp_time(X509_get0_notAfter(x), &then) > 0 &&
           X509_cmp_current_time(X509_get0_notBefore(x)) < 0;
}

/* When fewer than RENEW_S are left. */
static int64_t renew_ms_of(X509 *leaf)
{
    int days = 0, seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(leaf)) != 1)
        return 0;
    return abx_now_wall_ms() + ((int64_t)days * 86400 + seconds - RENEW_S) * 1000;
}

static bool leaf_fits(const e2b_pair *leaf, const e2b_pair *authority, const char *domain)
{
    ABX_AUTO_FREE char *below = abx_format("1-a.%s", domain);
    return leaf->certificate && has_left(leaf->certificate, RENEW_S) &&
           X509_check_host(leaf->certificate, domain, 0, 0, NULL) == 1 &&
           X509_check_host(leaf->certificate, below, 0, 0, NULL) == 1 &&
           X509_verify(leaf->certificate, X509_get0_pubkey(authority->certificate)) == 1;
}

/* --- what is there, and what is made -------------------------------------------------------------------------------- */
static int fail_ssl(const char *what, abx_error **err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    abx_fail(err, ABX_ERR_INTERNAL, "cannot make %s: %s", what,
             reason ? reason : "no reason given");
    ERR_clear_error();
    return -1;
}

static int renew_authority(const char *folder, const char *domain, e2b_pair *authority, bool *made,
                           abx_error **err)
{
    if (e2b_pair_load(folder, "ca", authority, err) < 0)
        return -1;
    if (authority->certificate && covers(authority->certificate, domain) &&
        has_left(authority->certificate, LEAF_S))
        return 0;
    e2b_pair_clear(authority);
    authority->key = EVP_EC_gen("P-256");
    if (authority->key)
        authority->certificate = make_authority(authority->key, domain);
    if (!authority->certificate)
        return fail_ssl("a certificate authority", err);
    *made = true;
    return e2b_pair_save(folder, "ca", authority, err);
}

static int renew_leaf(const char *folder, const char *domain, const e2b_pair *authority,
                      e2b_pair *leaf, abx_error **err)
{
    if (e2b_pair_load(folder, "tls", leaf, err) < 0)
        return -1;
    if (leaf_fits(leaf, authority, domain))
        return 0;
    ERR_clear_error();
    e2b_pair_clear(leaf);
    leaf->key = EVP_EC_gen("P-256");
    if (leaf->key)
        leaf->certificate = make_leaf(leaf->key, domain, authority->certificate, authority->key);
    if (!leaf->certificate)
        return fail_ssl("a certificate", err);
    return e2b_pair_save(folder, "tls", leaf, err);
}

int e2b_authority_open(const char *home, const char *domain, e2b_identity *out, abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_join(home, "e2b");
    e2b_pair authority = {0}, leaf = {0};

    memset(out, 0, sizeof *out);
    if (e2b_domain_check(domain, err) < 0)
        return -1;
    abx_openssl_ready();
    int rc = renew_authority(folder, domain, &authority, &out->new_authority, err);
    if (rc == 0)
        rc = renew_leaf(folder, domain, &authority, &leaf, err);
    if (rc == 0) {
        out->certificate = e2b_certificate_text(leaf.certificate);
        out->key = e2b_key_text(leaf.key);
        out->renew_ms = renew_ms_of(leaf.certificate);
    }
    e2b_pair_clear(&authority);
    e2b_pair_clear(&leaf);
    return rc;
}

void e2b_identity_clear(e2b_identity *identity)
{
    if (identity->key)
        explicit_bzero(identity->key, strlen(identity->key));
    free(identity->key);
    free(identity->certificate);
    memset(identity, 0, sizeof *identity);
}

char *e2b_authority_path(const char *home)
{
    return abx_format("%s/e2b/ca.pem", home);
}

#define MARK "# the authority of abx e2b serve\n"

/* The shell that has our variables asks again: what is in front of the mark is what it had before them. */
static int read_again(const char *bundle, abx_buf *all, abx_error **err)
{
    int rc = abx_read_file(bundle, BUNDLE_MAX, all, err);
    const char *mark = rc == 0 && all->len ? strstr((const char *)all->data, MARK) : NULL;
    if (rc != 0 || !mark)
        return rc < 0 ? -1 : 1;
    all->len = (size_t)(mark - (const char *)all->data);
    return 0;
}

int e2b_authority_bundle(const char *home, char **path, bool *alone, abx_error **err)
{
    ABX_AUTO_FREE char *own = e2b_authority_path(home);
    ABX_AUTO_FREE char *bundle = abx_format("%s/e2b/bundle.pem", home);
    ABX_AUTO_BUF all = ABX_BUF(BUNDLE_MAX), ours = ABX_BUF(FILE_MAX);
    bool again = abx_str_eq(getenv("SSL_CERT_FILE"), bundle);
    int rc = again ? read_again(bundle, &all, err) : 1;

    if (rc == 1) {
        abx_buf_reset(&all);
        rc = abx_ca_read_all(!again, &all, err);
    }
    if (rc < 0)
        return -1;
    if (alone)
        *alone = all.len == 0;
    rc = abx_read_file(own, FILE_MAX, &ours, err);
    if (rc != 0)
        return rc < 0 ? -1
                      : abx_fail(err, ABX_ERR_HOME, "there is no certificate authority '%s'", own);
    if (abx_buf_add_str(&all, MARK) < 0 || abx_buf_add(&all, ours.data, ours.len) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE,
                        "the authorities of this machine are over %zu bytes", BUNDLE_MAX);
    if (abx_write_atomic(bundle, all.data, all.len, 0644, false, err) < 0)
        return -1;
    *path = ABX_TAKE(bundle);
    return 0;
}
