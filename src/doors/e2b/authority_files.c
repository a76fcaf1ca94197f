#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "doors/e2b/authority_inner.h"

#define FILE_MAX ((size_t)64 * 1024)

void e2b_pair_clear(e2b_pair *pair)
{
    X509_free(pair->certificate);
    EVP_PKEY_free(pair->key);
    *pair = (e2b_pair){0};
}

/* --- text ---------------------------------------------------------------------------------------------------------- */
static char *text_of(BIO *b)
{
    char *bytes = NULL;
    long n = BIO_get_mem_data(b, &bytes);
    char *text = abx_strndup(bytes, (size_t)n);
    explicit_bzero(bytes, (size_t)n);
    BIO_free(b);
    return text;
}

char *e2b_certificate_text(X509 *certificate)
{
    abx_openssl_ready();
    BIO *b = BIO_new(BIO_s_mem());
    ABX_CHECK(b && PEM_write_bio_X509(b, certificate) == 1);
    return text_of(b);
}

char *e2b_key_text(EVP_PKEY *key)
{
    abx_openssl_ready();
    BIO *b = BIO_new(BIO_s_mem());
    ABX_CHECK(b && PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1);
    return text_of(b);
}

/* A key with a passphrase must not make OpenSSL ask for it. */
static int no_passphrase(char *to, int room, int writing, void *data)
{
    (void)to;
    (void)room;
    (void)writing;
    (void)data;
    return -1;
}

static void parse(e2b_pair *out, const abx_buf *certificate, const abx_buf *key)
{
    BIO *c = BIO_new_mem_buf(certificate->data, (int)certificate->len);
    BIO *k = BIO_new_mem_buf(key->data, (int)key->len);
    ABX_CHECK(c && k);
    out->certificate = PEM_read_bio_X509(c, NULL, no_passphrase, NULL);
    out->key = PEM_read_bio_PrivateKey(k, NULL, no_passphrase, NULL);
    BIO_free(c);
    BIO_free(k);
    if (!out->certificate || !out->key || X509_check_private_key(out->certificate, out->key) != 1)
        e2b_pair_clear(out);
    ERR_clear_error();
}

/* --- files --------------------------------------------------------------------------------------------------------- */
/* 0; 1: there is none; -1: who else could have read it? */
static int check_key(const char *path, abx_error **err)
{
    struct stat st;
    const char *what = NULL;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 1
                               : abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        what = "is no file of yours";
    else if ((st.st_mode & 077) != 0)
        what = "holds a private key and could be read by others";
    if (!what)
        return 0;
    abx_fail(err, ABX_ERR_HOME, "'%s' %s", path, what);
    return abx_hint(err, "remove it: the next start makes a new one");
}

int e2b_pair_load(const char *folder, const char *name, e2b_pair *out, abx_error **err)
{
    ABX_AUTO_FREE char *certificate = abx_format("%s/%s.pem", folder, name);
    ABX_AUTO_FREE char *key = abx_format("%s/%s.key", folder, name);
    ABX_AUTO_BUF certificate_text = ABX_BUF(FILE_MAX), key_text = ABX_BUF(FILE_MAX);
    *out = (e2b_pair){0};
    int rc = check_key(key, err);
    if (rc == 0)
        rc = abx_read_file(key, FILE_MAX, &key_text, err);
    if (rc == 0)
        rc = abx_read_file(certificate, FILE_MAX, &certificate_text, err);
    if (rc == 0) {
        abx_openssl_ready();
        parse(out, &certificate_text, &key_text);
    }
    if (key_text.data)
        explicit_bzero(key_text.data, key_text.len);
    return rc < 0 ? -1 : 0;
}

/* The key first: a certificate without its key is made again, a key without its certificate, too. */
int e2b_pair_save(const char *folder, const char *name, const e2b_pair *pair, abx_error **err)
{
    ABX_AUTO_FREE char *certificate = abx_format("%s/%s.pem", folder, name);
    ABX_AUTO_FREE char *key = abx_format("%s/%s.key", folder, name);
    ABX_AUTO_FREE char *certificate_text = e2b_certificate_text(pair->certificate);
    char *key_text = e2b_key_text(pair->key);
    int rc = abx_write_atomic(key, key_text, strlen(key_text), 0600, true, err);
    explicit_bzero(key_text, strlen(key_text));
    free(key_text);
    if (rc < 0)
        return -1;
    return abx_write_atomic(certificate, certificate_text, strlen(certificate_text), 0644, true,
                            err);
}
