#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "net/http_client_inner.h"

static bool is_hashed_name(const char *name)
{
    return strlen(name) == 10 && strspn(name, "0123456789abcdef") == 8 && name[8] == '.';
}

/* A folder in which OpenSSL finds a certificate by the hash of its subject. Reading one file a lookup
 * is far cheaper than parsing a bundle of all. */
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

void abx__ca_find(char **file, char **dir)
{
    static const char *const dirs[] = {
        "/etc/ssl/certs",     /* Debian, Ubuntu, SUSE, Arch, Alpine */
        "/etc/pki/tls/certs", /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/directory-hash",
        "/system/etc/security/cacerts", /* Android */
    };
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Gentoo */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL */
        "/etc/ssl/ca-bundle.pem",                            /* SUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };
    const char *env_file = getenv("SSL_CERT_FILE"), *env_dir = getenv("SSL_CERT_DIR");

    *file = *dir = NULL;
    if (env_file && *env_file)
        *file = abx_strdup(env_file);
    if (env_dir && *env_dir)
        *dir = abx_strdup(env_dir);
    for (size_t i = 0; !*file && !*dir && i < ABX_COUNT(dirs); i++)
        if (is_hashed_dir(dirs[i]))
            *dir = abx_strdup(dirs[i]);
    for (size_t i = 0; !*file && !*dir && i < ABX_COUNT(files); i++)
        if (access(files[i], R_OK) == 0)
            *file = abx_strdup(files[i]);
}
