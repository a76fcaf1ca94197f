#include "e2b/server_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"

static void bad_expiration(abx_exchange *x, const char *given, bool range)
{
    abx__lines l;
    abx__lines_init(&l, x, true);
    abx__lines_add(&l, "Content-Type: text/plain; charset=utf-8");
    abx__lines_add(&l, "X-Content-Type-Options: nosniff");
    ABX_AUTO_FREE char *text =
        abx_format("Invalid format for parameter signature_expiration: error binding string "
                   "parameter: strconv.ParseInt: parsing \"%s\": %s\n",
                   given, range ? "value out of range" : "invalid syntax");
    abx_exchange_reply_with(x, 400, l.items, l.count, text, strlen(text));
}

int abx__sign_check(abx_e2b_server *s, abx_exchange *x, const char *operation)
{
    ABX_AUTO_FREE char *expiration = abx_exchange_query_get(x, "signature_expiration");
    long long until = 0;
    if (expiration) {
        char *end = NULL;
        errno = 0;
        until = strtoll(expiration, &end, 10);
        if (end == expiration || *end || errno == ERANGE) {
            bad_expiration(x, expiration, errno == ERANGE);
            return -1;
        }
    }
    if (!s->token)
        return 0;
    const char *given = abx_exchange_header(x, "X-Access-Token");
    if (given) {
        if (abx_equal_secret(given, strlen(given), s->token, strlen(s->token)))
            return 0;
        abx__reply_status(x, 401, "access token present in header but does not match");
        return -1;
    }
    ABX_AUTO_FREE char *signature = abx_exchange_query_get(x, "signature");
    if (!signature) {
        abx__reply_status(x, 401, "missing signature query parameter");
        return -1;
    }
    ABX_AUTO_FREE char *path = abx_exchange_query_get(x, "path");
    ABX_AUTO_FREE char *user = abx_exchange_query_get(x, "username");
    ABX_AUTO_FREE char *number = expiration ? abx_format("%lld", until) : NULL;
    ABX_AUTO_FREE char *want =
        abx_e2b_sign(path ? path : "", operation, user ? user : "", s->token, number);
    if (!abx_equal_secret(signature, strlen(signature), want, strlen(want))) {
        abx__reply_status(x, 401, "invalid signature");
        return -1;
    }
    if (expiration && until < abx_now_wall_ms() / 1000) {
        abx__reply_status(x, 401, "signature is already expired");
        return -1;
    }
    return 0;
}
