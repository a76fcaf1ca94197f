#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "net/ca.h"

static bool is_hashed_name(const char *name)
{
    return strlen(name) == 10 && strspn(name, "0123456789abcdef") == 8 && name[8] == '.';
}

/* A folder in which OpenSSL finds a certificate by the hash of its subject. Reading one file a lookup
 * is cheaper than reading a bundle of all. */
static bool is_hashed_dir(const char *path)
{
    DIR *d = opendir(path);
    bool found = false;

    if (!d)
        return false;
    for (struct dirent *e; !found && (e = readdir(d));)
        found = is_hashed_name(e->d_name);
    closedir(d);
    return found;
}

static char *usual_dir(void)
{
    static const char *const dirs[] = {
        "/etc/ssl/certs",     /* Debian, Ubuntu, SUSE, Arch, Alpine */
        "/etc/pki/tls/certs", /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/directory-hash",
        "/system/etc/security/cacerts", /* Android */
    };

    for (size_t i = 0; i < ABX_COUNT(dirs); i++)
        if (is_hashed_dir(dirs[i]))
            return abx_strdup(dirs[i]);
    return NULL;
}

static char *usual_file(void)
{
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Gentoo */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL */
        "/etc/ssl/ca-bundle.pem",                            /* SUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };

    for (size_t i = 0; i < ABX_COUNT(files); i++)
        if (access(files[i], R_OK) == 0)
            return abx_strdup(files[i]);
    return NULL;
}

void abx_ca_places_find(abx_ca_places *places)
{
    const char *file = getenv("SSL_CERT_FILE"), *dir = getenv("SSL_CERT_DIR");

    *places = (abx_ca_places){.file = file && *file ? abx_strdup(file) : NULL,
                              .dir = dir && *dir ? abx_strdup(dir) : NULL};
    places->by_environment = places->file || places->dir;
    if (!places->by_environment && !(places->dir = usual_dir()))
        places->file = usual_file();
}

void abx_ca_places_find_bundle(abx_ca_places *places)
{
    abx_ca_places_find(places);
    if (places->by_environment)
        return;
    abx_ca_places_clear(places);
    if (!(places->file = usual_file()))
        places->dir = usual_dir();
}

void abx_ca_places_clear(abx_ca_places *places)
{
    free(places->file);
    free(places->dir);
    *places = (abx_ca_places){0};
}

static int add_file(const char *path, abx_buf *out, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(out->max);

    int rc = abx_read_file(path, out->max, &text, err);
    if (rc == 1)
        return abx_fail_errno(err, ABX_ERR_HOME, ENOENT, "cannot read '%s'", path);
    if (rc < 0)
        return -1;
    if (text.len && (abx_buf_add(out, text.data, text.len) < 0 || abx_buf_add_byte(out, '\n') < 0))
        return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' and the others are over %zu bytes", path,
                        out->max);
    return 0;
}

/* Files that cannot be read are passed over, as OpenSSL does. */
static void add_dir(const char *path, abx_buf *out)
{
    DIR *d = opendir(path);

    for (struct dirent *e; d && (e = readdir(d));) {
        ABX_AUTO_FREE char *file =
            is_hashed_name(e->d_name) ? abx_path_join(path, e->d_name) : NULL;
        if (file)
            (void)add_file(file, out, NULL);
    }
    if (d)
        closedir(d);
}

int abx_ca_read_all(bool by_environment, abx_buf *out, abx_error **err)
{
    abx_ca_places places = {0};
    int rc = 0;

    /* A bundle is read faster than a folder, and the distributions that have both make one of the other. */
    if (by_environment)
        abx_ca_places_find_bundle(&places);
    else if (!(places.file = usual_file()))
        places.dir = usual_dir();
    if (places.file)
        rc = add_file(places.file, out, err);
    char *rest = places.dir;
    for (char *dir; rc == 0 && rest && (dir = strsep(&rest, ":"));)
        add_dir(dir, out);
    abx_ca_places_clear(&places);
    return rc;
}
