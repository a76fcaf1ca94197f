#include "net/http_trust.h"

#include <errno.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "net/ca.h"

#define BUNDLE_MAX ((size_t)16 * 1024 * 1024)

struct abx__trust {
    abx_ca_places places;
    abx_ca_bundle *bundle;      /* of places.file */
    X509_LOOKUP_METHOD *method; /* how OpenSSL asks it */
    char *where;
};

/* --- a bundle as OpenSSL sees it ------------------------------------------------------------------ */

static X509 *parse(const abx_ca_entry *e)
{
    const uint8_t *at = e->der;

    return e->with_trust ? d2i_X509_AUX(NULL, &at, (long)e->len)
                         : d2i_X509(NULL, &at, (long)e->len);
}

/* Put an entry into the store, and into *ret if it is the first. The store keeps it: ret only points there. */
static bool hand_over(X509_LOOKUP *lookup, const abx_ca_entry *e, bool first, X509_OBJECT *ret)
{
    X509 *x = parse(e);
    bool done = x && X509_STORE_add_cert(X509_LOOKUP_get_store(lookup), x) == 1 &&
                (!first || X509_OBJECT_set1_X509(ret, x) == 1);

    if (done && first)
        X509_free(x); /* the reference of ret, which OpenSSL does not take for its own */
    X509_free(x);
    return done;
}

/* The same name may be written in several ways. Rare, and asked for only when nothing else was found. */
static bool is_same_name(const abx_ca_entry *e, const X509_NAME *name)
{
    const uint8_t *at = e->subject;
    X509_NAME *subject = d2i_X509_NAME(NULL, &at, (long)e->subject_len);
    bool same = subject && X509_NAME_cmp(subject, name) == 0;

    X509_NAME_free(subject);
    return same;
}

static int by_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
                      X509_OBJECT *ret)
{
    const abx_ca_bundle *b = X509_LOOKUP_get_method_data(lookup);
    const uint8_t *der;
    size_t n, count = abx_ca_bundle_count(b);
    int found = 0;

    if (type != X509_LU_X509 || X509_NAME_get0_der(name, &der, &n) != 1)
        return 0;
    for (size_t i = 0; (i = abx_ca_bundle_find(b, i, der, n)) < count; i++)
        found |= hand_over(lookup, abx_ca_bundle_entry(b, i), !found, ret);
    for (size_t i = 0; !found && i < count; i++)
        if (is_same_name(abx_ca_bundle_entry(b, i), name))
            found = hand_over(lookup, abx_ca_bundle_entry(b, i), true, ret);
    return found;
}

/* --- what this machine has ------------------------------------------------------------------------ */

/* A descriptor from its beginning. As abx_read_file, but that it is never absent. */
static int read_descriptor(int fd, abx_buf *out, abx_error **err)
{
    char part[16 * 1024];
    if (lseek(fd, 0, SEEK_SET) < 0)
        return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot read descriptor %d", fd);
    for (ssize_t n; (n = read(fd, part, sizeof(part))) != 0;)
        if (n < 0)
            return abx_fail_errno(err, ABX_ERR_NETWORK, errno, "cannot read descriptor %d", fd);
        else if (abx_buf_add(out, part, (size_t)n) < 0)
            return abx_fail(err, ABX_ERR_NETWORK, "descriptor %d holds too much", fd);
    return 0;
}

/* "/dev/fd/N" is read without opening anything: a process that may open no file has it open already. */
static int read_bundle(const char *path, abx_buf *out, abx_error **err)
{
    int fd;
    char rest;
    if (sscanf(path, "/dev/fd/%d%c", &fd, &rest) == 1)
        return read_descriptor(fd, out, err);
    return abx_read_file(path, BUNDLE_MAX, out, err);
}

static int open_bundle(abx__trust *t, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(BUNDLE_MAX);
    const char *why = t->places.by_environment ? " (SSL_CERT_FILE)" : "";
    ABX_AUTO_ERROR cause = NULL;

    int rc = read_bundle(t->places.file, &text, &cause);
    if (rc == 1)
        return abx_fail_errno(err, ABX_ERR_NETWORK, ENOENT,
                              "cannot read the certificate authorities in '%s'%s", t->places.file,
                              why);
    if (rc < 0)
        return abx_fail(err, ABX_ERR_NETWORK, "no certificate authorities%s: %s", why,
                        abx_error_text(cause));
    t->bundle = abx_ca_bundle_parse(abx_buf_cstr(&text), text.len);
    if (abx_ca_bundle_count(t->bundle) == 0)
        return abx_fail(err, ABX_ERR_NETWORK, "'%s'%s holds no certificate", t->places.file, why);
    t->method = X509_LOOKUP_meth_new("bundle");
    ABX_CHECK(t->method);
    X509_LOOKUP_meth_set_get_by_subject(t->method, by_subject);
    return 0;
}

static bool has_folder(const char *dirs)
{
    ABX_AUTO_FREE char *copy = abx_strdup(dirs);
    char *rest = copy;
    struct stat st;

    for (char *dir; (dir = strsep(&rest, ":"));)
        if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
            return true;
    return false;
}

static int open_places(abx__trust *t, abx_error **err)
{
    const abx_ca_places *p = &t->places;

    if (!p->file && !p->dir) {
        abx_fail(err, ABX_ERR_NETWORK, "this machine has no certificate authorities");
        return abx_hint(
            err, "install the package ca-certificates, or name a file of them in SSL_CERT_FILE");
    }
    if (p->file && open_bundle(t, err) < 0)
        return -1;
    if (!p->file && !has_folder(p->dir))
        return abx_fail(err, ABX_ERR_NETWORK,
                        "there is no folder of certificate authorities '%s' (SSL_CERT_DIR)",
                        p->dir);
    t->where = p->file && p->dir ? abx_format("'%s' and '%s'", p->file, p->dir)
                                 : abx_format("'%s'", p->file ? p->file : p->dir);
    return 0;
}

int abx__trust_open(abx__trust **out, abx_error **err)
{
    abx__trust *t = ABX_NEW(abx__trust);

    abx_openssl_ready();
    abx_ca_places_find(&t->places);
    if (open_places(t, err) < 0) {
        abx__trust_free(t);
        return -1;
    }
    *out = t;
    return 0;
}

void abx__trust_free(abx__trust *t)
{
    if (!t)
        return;
    abx_ca_places_clear(&t->places);
    abx_ca_bundle_free(t->bundle);
    if (t->method)
        X509_LOOKUP_meth_free(t->method);
    free(t->where);
    free(t);
}

const char *abx__trust_where(const abx__trust *t)
{
    return t->where;
}

/* curl shares one store among the connections of a client: what is there already is not added twice. */
bool abx__trust_use(abx__trust *t, SSL_CTX *ctx)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);

    if (t->bundle) {
        X509_LOOKUP *lookup = X509_STORE_add_lookup(store, t->method);
        if (!lookup || X509_LOOKUP_set_method_data(lookup, t->bundle) != 1)
            return false;
    }
    if (t->places.dir) {
        X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_hash_dir());
        if (!lookup || X509_LOOKUP_add_dir(lookup, t->places.dir, X509_FILETYPE_PEM) != 1)
            return false;
    }
    return true;
}
