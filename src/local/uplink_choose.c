/* Which network a sandbox gets, and by which helper. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/uplink.h"

/* The first that is there is used. */
static const char *const helpers[] = {"pasta", "slirp4netns"};

static const char *const network_names[] = {
    [ABX_NETWORK_NONE] = "none",
    [ABX_NETWORK_INTERNET] = "internet",
};

const char *abx_network_name(abx_network network)
{
    return network_names[network];
}

const char *abx_uplink_name(const char *text)
{
    for (size_t i = 0; i < ABX_COUNT(helpers); i++)
        if (abx_str_eq(text, helpers[i]))
            return helpers[i];
    return NULL;
}

int abx_network_parse(const char *text, abx_network *out, abx_error **err)
{
    *out = ABX_NETWORK_NONE;
    if (!text)
        return 0;
    for (size_t i = 0; i < ABX_COUNT(network_names); i++) {
        if (abx_str_eq(text, network_names[i])) {
            *out = (abx_network)i;
            return 0;
        }
    }
    if (abx_has_prefix(text, "allow:") && text[6]) {
        abx_fail(err, ABX_ERR_FEATURE_MISSING,
                 "provider 'local' cannot open a network to some hosts only ('%s')", text);
        return abx_hint(err, "--network internet opens it to all; without --network it is closed");
    }
    abx_fail(err, ABX_ERR_USAGE, "'%s' is no network", text);
    return abx_hint(err, "a network is none, internet or allow:HOST[:PORT]");
}

static char *find_on_path(const char *name)
{
    const char *list = getenv("PATH");
    ABX_AUTO_FREE char *copy = abx_strdup(list ? list : "/usr/local/bin:/usr/bin:/bin");
    char *rest = copy;
    for (char *dir; (dir = strsep(&rest, ":"));) {
        if (dir[0] != '/')
            continue;
        ABX_AUTO_FREE char *path = abx_path_join(dir, name);
        if (access(path, X_OK) == 0)
            return ABX_TAKE(path);
    }
    return NULL;
}

/* The helper opens it as we do. */
static int check_tun(abx_error **err)
{
    ABX_AUTO_FD fd = open(ABX_UPLINK_TUN, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        return 0;
    int e = errno;
    abx_fail_errno(err, ABX_ERR_ISOLATION, e,
                   "this machine has no network for sandboxes: cannot open '%s'", ABX_UPLINK_TUN);
    if (e == EACCES || e == EPERM)
        return abx_hint(err, "sudo chmod 666 %s; in a container, start it with --device %s",
                        ABX_UPLINK_TUN, ABX_UPLINK_TUN);
    return abx_hint(err, "sudo modprobe tun; in a container, start it with --device %s",
                    ABX_UPLINK_TUN);
}

int abx_uplink_choose(abx_uplink_choice *out, abx_error **err)
{
    for (size_t i = 0; i < ABX_COUNT(helpers); i++) {
        ABX_AUTO_FREE char *path = find_on_path(helpers[i]);
        if (!path)
            continue;
        if (check_tun(err) < 0)
            return -1;
        out->name = helpers[i];
        out->path = ABX_TAKE(path);
        return 0;
    }
    abx_fail(err, ABX_ERR_ISOLATION,
             "this machine has no network for sandboxes: neither 'pasta' nor 'slirp4netns' is on "
             "PATH");
    return abx_hint(err, "sudo apt install passt (it holds pasta), or slirp4netns");
}
