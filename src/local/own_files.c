/* The files that no two sandboxes share: links in the skeleton's /etc lead to them. They lie in memory, since making
 * and removing files on a disk would be a good part of a short sandbox's life. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "local/setup.h"

static int write_own(abx_setup *s, const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    ssize_t done = fd < 0 ? -1 : write(fd, text, n);
    int e = errno;
    if (fd >= 0)
        close(fd);
    errno = e;
    return done == (ssize_t)n ? 0 : abx_refused(s, ABX_LAYER_DEV, "write of '%s'", path);
}

int abx_write_own_files(abx_setup *s)
{
    const char *name = s->plan->name ? s->plan->name : s->plan->id;
    unsigned char raw[16];
    char machine[33], text[256];
    if (mkdir("/run/lock", 01777) < 0 || mkdir("/run/abx", 0755) < 0)
        return abx_refused(s, ABX_LAYER_DEV, "folders in '/run'");
    abx_random_bytes(raw, sizeof(raw));
    abx_hex(raw, sizeof(raw), machine);
    machine[32] = '\n';
    if (write_own(s, "/run/abx/machine-id", machine, sizeof(machine)) < 0)
        return -1;
    int n = snprintf(text, sizeof(text), "%s\n", name);
    if (write_own(s, "/run/abx/hostname", text, (size_t)n) < 0)
        return -1;
    n = snprintf(text, sizeof(text),
                 "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n"
                 "::1\tlocalhost ip6-localhost ip6-loopback\n",
                 name);
    return write_own(s, "/run/abx/hosts", text, (size_t)n);
}
