#include "doors/e2b/secure.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/authority.h"

#define ADDRESS    "127.0.0.1"
#define ADDRESS_6  "::1"
#define HTTPS_PORT 443

#define AGAIN_MS (3600 * 1000) /* after a failure */

static struct timespec written(const e2b_door *door)
{
    ABX_AUTO_FREE char *path = abx_format("%s/e2b/tls.pem", door->home);
    struct stat found;
    return stat(path, &found) == 0 ? found.st_mtim : (struct timespec){0};
}

/* Show what HOME/e2b has, made anew if that is due. */
static int use_certificate(e2b_door *door, abx_error **err)
{
    e2b_secure *s = door->secure;
    e2b_identity own;
    if (e2b_authority_open(door->home, s->domain, &own, err) < 0)
        return -1;
    s->file = written(door);
    if (own.new_authority)
        abx_logf(door->log, ABX_LOG_INFO, "a new certificate authority for '%s'", s->domain);
    bool same = abx_str_eq(s->certificate, own.certificate);
    int rc = same ? 0
                  : abx_tls_replace(s->tls, own.certificate, strlen(own.certificate), own.key,
                                    strlen(own.key), err);
    if (rc == 0) {
        s->renew_ms = own.renew_ms;
        free(s->certificate);
        s->certificate = ABX_TAKE(own.certificate);
    }
    e2b_identity_clear(&own);
    return rc;
}

void e2b_secure_tick(e2b_door *door)
{
    e2b_secure *s = door->secure;
    if (!s)
        return;
    struct timespec file = written(door);
    int64_t now = abx_now_wall_ms();
    bool changed = file.tv_sec != s->file.tv_sec || file.tv_nsec != s->file.tv_nsec;
    if (!changed && now < s->renew_ms)
        return;
    ABX_AUTO_ERROR why = NULL;
    if (use_certificate(door, &why) == 0)
        return;
    abx_logf(door->log, ABX_LOG_WARN, "e2b: the certificate stays as it is: %s",
             abx_error_text(why));
    s->file = file;
    s->renew_ms = now + AGAIN_MS;
}

int e2b_secure_open(e2b_door *door, const char *domain, int asked, int last, abx_error **err)
{
    e2b_secure *s = ABX_NEW(e2b_secure);
    s->tls = abx_tls_new();
    s->domain = abx_strdup(domain);
    door->secure = s;
    if (use_certificate(door, err) < 0)
        return -1;
    bool same = asked == 0 && last > 0 &&
                abx_http_server_listen_tls(door->http, ADDRESS, last, s->tls, &s->port, NULL) == 0;
    if (!same && abx_http_server_listen_tls(door->http, ADDRESS, asked, s->tls, &s->port, err) < 0)
        return -1;
    /* Resolvers give ::1 as well for names below localhost; what does not try 127.0.0.1 next finds us there. */
    (void)!abx_http_server_listen_tls(door->http, ADDRESS_6, s->port, s->tls, NULL, NULL);
    s->address = s->port == HTTPS_PORT ? abx_strdup(domain) : abx_format("%s:%d", domain, s->port);
    return 0;
}

void e2b_secure_free(e2b_door *door)
{
    e2b_secure *s = ABX_TAKE(door->secure);
    if (!s)
        return;
    abx_tls_free(s->tls);
    free(s->certificate);
    free(s->domain);
    free(s->address);
    free(s);
}

void e2b_secure_publish(const e2b_door *door, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    const e2b_secure *s = door->secure;
    if (!s)
        return;
    ABX_AUTO_FREE char *ca = e2b_authority_path(door->home);
    ABX_AUTO_FREE char *url = abx_format("https://api.%s", s->address);
    abx_mut_str(d, root, "tlsUrl", url);
    abx_mut_str(d, root, "domain", s->address);
    abx_mut_int(d, root, "tlsPort", s->port);
    abx_mut_str(d, root, "certificateAuthority", ca);
}

bool e2b_secure_is_host(const e2b_door *door, const char *host)
{
    if (!door->secure)
        return false;
    const char *domain = door->secure->domain;
    size_t n = strcspn(host, ":"), own = strlen(domain);
    return n >= own && strncasecmp(host + n - own, domain, own) == 0 &&
           (n == own || host[n - own - 1] == '.');
}

const char *e2b_secure_domain(const e2b_door *door)
{
    return door->secure ? door->secure->address : NULL;
}
