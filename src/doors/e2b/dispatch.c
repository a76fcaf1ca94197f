/* Which request goes where. The data plane is meant by
 *   the headers E2b-Sandbox-Id and E2b-Sandbox-Port, whatever the host is;
 *   a host PORT-ID.anything;
 *   a path /sandbox/ID/PORT/rest;
 *   /files with a signature and nothing of these: the sandbox is the one whose token made the signature.
 * All else is for the control plane, which serves only hosts that are this machine (a name of somebody else's that resolves to
 * it would let a page in a browser talk to us as its own server), or the door's own domain. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/life.h"
#include "doors/e2b/secure.h"
#include "e2b/server.h"

#define HOST_MAX 256
#define PATH     "/sandbox/"

typedef struct target {
    char id[HOST_MAX];
    int port;
} target;

/* n characters as a port; 0: it is none. */
static int read_port(const char *text, size_t n)
{
    int port = 0;
    if (n < 1 || n > 5)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (text[i] - '0');
    }
    return port > 65535 ? 0 : port;
}

static bool set(target *t, const char *id, size_t n, int port)
{
    if (n == 0 || n >= sizeof t->id || port == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        t->id[i] = (char)(id[i] >= 'A' && id[i] <= 'Z' ? id[i] - 'A' + 'a' : id[i]);
    t->id[n] = 0;
    t->port = port;
    return true;
}

/* 1: it names a sandbox, 0: it does not, -1: only one of the two headers is there, or they are no id and port. */
static int by_headers(const abx_exchange *x, target *t)
{
    const char *id = abx_exchange_header(x, "E2b-Sandbox-Id");
    const char *port = abx_exchange_header(x, "E2b-Sandbox-Port");
    if (!id && !port)
        return 0;
    return id && port && set(t, id, strcspn(id, "-"), read_port(port, strlen(port))) ? 1 : -1;
}

/* PORT-ID[-CLIENT].domain */
static bool by_host(const char *host, target *t)
{
    size_t label = strcspn(host, ".:"), dash = strcspn(host, "-.:");
    if (host[label] != '.' || dash >= label)
        return false;
    const char *id = host + dash + 1;
    return set(t, id, strcspn(id, "-.:"), read_port(host, dash));
}

/* /sandbox/ID/PORT/rest; *skip: what stands before /rest. */
static bool by_path(const char *path, target *t, size_t *skip)
{
    if (!abx_has_prefix(path, PATH))
        return false;
    const char *id = path + strlen(PATH);
    size_t n = strcspn(id, "/");
    const char *port = id + n + (id[n] == '/');
    size_t digits = strcspn(port, "/");
    *skip = (size_t)(port + digits - path);
    return port[digits] == '/' && set(t, id, n, read_port(port, digits));
}

/* --- signed URLs -------------------------------------------------------------------------------------------------- */
/* Did the box's token make this signature? An old one counts: envd's side says that it is too old. */
bool e2b_signed_by(const e2b_box *box, const abx_exchange *x, const char *signature)
{
    const char *operation = strcmp(abx_exchange_method(x), "POST") == 0 ? "write" : "read";
    ABX_AUTO_FREE char *path = abx_exchange_query_get(x, "path");
    ABX_AUTO_FREE char *user = abx_exchange_query_get(x, "username");
    ABX_AUTO_FREE char *expires = abx_exchange_query_get(x, "signature_expiration");
    ABX_AUTO_FREE char *own =
        abx_e2b_sign(path ? path : "", operation, user ? user : "", box->token, expires);
    return abx_equal_secret(own, strlen(own), signature, strlen(signature));
}

static bool is_signed_file(const abx_exchange *x)
{
    ABX_AUTO_FREE char *signature = abx_exchange_query_get(x, "signature");
    return signature && strcmp(abx_exchange_path(x), "/files") == 0;
}

static bool by_signature(e2b_door *door, const abx_exchange *x, target *t)
{
    if (strcmp(abx_exchange_path(x), "/files") != 0)
        return false;
    ABX_AUTO_FREE char *signature = abx_exchange_query_get(x, "signature");
    if (!signature)
        return false;
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (const e2b_box *box = door->boxes[i]; box; box = box->next)
            if (box->token && e2b_signed_by(box, x, signature))
                return set(t, box->id, strlen(box->id), ABX_E2B_ENVD_PORT);
    return false;
}

/* --- hosts -------------------------------------------------------------------------------------------------------- */
/* A name that only this machine has, or an address. */
static bool is_own_host(const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (host[0] == '[')
        return true; /* an address of version 6 */
    if (n == 9 && strncasecmp(host, "localhost", n) == 0)
        return true;
    if (n > 10 && strncasecmp(host + n - 10, ".localhost", 10) == 0)
        return true;
    return n > 0 && strspn(host, "0123456789.") >= n;
}

void e2b_dispatch(abx_exchange *x, void *data)
{
    e2b_door *door = data;
    target t;
    size_t skip = 0;
    const char *host = abx_exchange_header(x, "Host");
    int named = by_headers(x, &t);
    e2b_life_touch(door);
    if (door->draining)
        e2b_refuse(x, 503, "the server is about to end");
    else if (named < 0)
        e2b_refuse(x, 400, "missing header");
    else if (named > 0 || (host && by_host(host, &t)) || by_signature(door, x, &t))
        e2b_admit(door, x, t.id, t.port);
    else if (host && !is_own_host(host) && !e2b_secure_is_host(door, host))
        e2b_refuse(x, 403, "this server does not serve the host of the request");
    else if (by_path(abx_exchange_path(x), &t, &skip)) {
        abx_exchange_strip(x, skip);
        e2b_admit(door, x, t.id, t.port);
    } else if (is_signed_file(x))
        e2b_refuse(x, 401, "invalid signature"); /* of no sandbox that lives */
    else
        e2b_control(door, x);
}
