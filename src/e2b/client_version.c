/* What a version of envd has: the gates of E2B's own clients. */
#include "e2b/client_inner.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"

/* The next number of a version and what follows it: *at moves on. -1: none, or one that no version has. */
static long next_number(const char **at)
{
    if (!isdigit((unsigned char)**at))
        return -1;
    char *end = NULL;
    long n = strtol(*at, &end, 10);
    *at = end;
    return n < 1000 ? n : -1;
}

unsigned abx__envd_version(const char *text)
{
    unsigned version = 0;
    const char *at = text + (*text == 'v');
    for (int i = 0; i < 3; i++) {
        long n = next_number(&at);
        if (n < 0)
            return ABX__ENVD_ANY;
        version = version * 1000 + (unsigned)n;
        if (i < 2 && *at++ != '.')
            return ABX__ENVD_ANY;
    }
    return version;
}

bool abx__envd_has(const abx_envd_client *c, unsigned version)
{
    return c->abx || c->version >= version;
}

int abx__envd_need(const abx_envd_client *c, unsigned version, const char *what, abx_error **err)
{
    if (abx__envd_has(c, version))
        return 0;
    return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                    "%s needs version %u.%u.%u of the sandbox's envd, it is %u.%u.%u", what,
                    version / 1000000, version / 1000 % 1000, version % 1000, c->version / 1000000,
                    c->version / 1000 % 1000, c->version % 1000);
}

const char *abx__envd_user(const abx__envd_job *job)
{
    const char *user = job->as_user ? job->as_user : abx__envd_param(job, "user");
    if (!user || !*user)
        user = job->client->default_user;
    if (!user && !abx__envd_has(job->client, ABX__ENVD_V(0, 4, 0)))
        user = "user";
    return user;
}
