/* Names of hosts, users and groups in a static program. By /etc/nsswitch.conf glibc would load modules of the machine, which belong to
 * the machine's own glibc; loaded into another one they may do anything. So only what glibc has inside is asked: files and DNS.
 * Nor is
 * anything else loaded. Linked into static programs, with --wrap of each name (names.txt). */
#include <grp.h>
#include <netdb.h>
#include <nss.h>
#include <pthread.h>
#include <pwd.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    (void)__nss_configure_lookup("hosts", "files dns");
    (void)__nss_configure_lookup("passwd", "files");
    (void)__nss_configure_lookup("group", "files");
    (void)__nss_configure_lookup("services", "files");
}

int __real_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *want, struct addrinfo **out)
{
    (void)pthread_once(&once, choose);
    return __real_getaddrinfo(host, service, want, out);
}

int __real_getpwuid_r(uid_t, struct passwd *, char *, size_t, struct passwd **);
int __wrap_getpwuid_r(uid_t, struct passwd *, char *, size_t, struct passwd **);
int __wrap_getpwuid_r(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **out)
{
    (void)pthread_once(&once, choose);
    return __real_getpwuid_r(id, entry, buffer, size, out);
}

int __real_getgrgid_r(gid_t, struct group *, char *, size_t, struct group **);
int __wrap_getgrgid_r(gid_t, struct group *, char *, size_t, struct group **);
int __wrap_getgrgid_r(gid_t id, struct group *entry, char *buffer, size_t size, struct group **out)
{
    (void)pthread_once(&once, choose);
    return __real_getgrgid_r(id, entry, buffer, size, out);
}

/* OpenSSL and libuv can load modules; nothing here asks them to. */
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    return NULL;
}
