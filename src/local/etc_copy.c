#include "local/etc_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#define FILE_MAX    (2u << 20)
#define CHECKED_MAX (8u << 20) /* of all files that are copied after a look for credentials */
#define DEPTH_MAX   12

typedef enum take {
    TAKE_PLAIN,   /* as it is: files of a known form without secrets */
    TAKE_CHECKED, /* after a look for lines like credentials */
    TAKE_CERTS,   /* certificates only */
    TAKE_LINKS,   /* symbolic links only */
    TAKE_APT      /* without proxies and passwords */
} take;

typedef struct etc_rule {
    const char *pattern; /* of a name in /etc, or a path of two names without patterns */
    take how;
    bool slot_only;
} etc_rule;

static const etc_rule rules[] = {
    {"ld.so.cache", TAKE_PLAIN, false},
    {"ld.so.conf", TAKE_PLAIN, false},
    {"ld.so.conf.d", TAKE_PLAIN, false},
    {"alternatives", TAKE_LINKS, false},
    {"ssl/certs", TAKE_CERTS, false},
    {"ssl/openssl.cnf", TAKE_CHECKED, false},
    {"pki/tls/certs", TAKE_CERTS, false},
    {"pki/ca-trust/extracted", TAKE_CERTS, false},
    {"ca-certificates", TAKE_CERTS, false},
    {"ca-certificates.conf", TAKE_CHECKED, false},
    {"crypto-policies", TAKE_CHECKED, false},
    {"mime.types", TAKE_PLAIN, false},
    {"magic", TAKE_PLAIN, false},
    {"services", TAKE_PLAIN, false},
    {"protocols", TAKE_PLAIN, false},
    {"rpc", TAKE_PLAIN, false},
    {"networks", TAKE_PLAIN, false},
    {"gai.conf", TAKE_PLAIN, false},
    {"host.conf", TAKE_PLAIN, false},
    {"locale.alias", TAKE_PLAIN, false},
    {"locale.conf", TAKE_PLAIN, false},
    {"terminfo", TAKE_PLAIN, false},
    {"login.defs", TAKE_PLAIN, false},
    {"python3*", TAKE_CHECKED, false},
    {"perl", TAKE_CHECKED, false},
    {"java-*", TAKE_CHECKED, false},
    {"nodejs", TAKE_CHECKED, false},
    {"fonts", TAKE_CHECKED, false},
    {"matplotlibrc", TAKE_CHECKED, false},
    {"texmf", TAKE_CHECKED, false},
    {"gtk-*", TAKE_CHECKED, false},
    {"maven", TAKE_CHECKED, false},
    {"php", TAKE_CHECKED, false},
    {"dpkg", TAKE_CHECKED, true},
    {"apt", TAKE_APT, true},
};

typedef struct copier {
    take how;
    size_t left; /* bytes that may still be copied */
    int depth;
    abx_error **err;
} copier;

static bool others_may_read(const struct stat *st)
{
    mode_t need = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    return (st->st_mode & need) == need;
}

/* Is this text one that the rule takes? May shorten it. */
static bool judge(const copier *c, const char *name, char *text, size_t *n)
{
    switch (c->how) {
    case TAKE_CERTS: return abx_is_certificate(text, *n);
    case TAKE_CHECKED: return !abx_looks_secret(text, *n);
    case TAKE_APT:
        *n = abx_drop_secret_lines(text, *n);
        return !abx_looks_secret(text, *n) &&
               (!strcasestr(text, "proxy") || abx_has_suffix(name, ".gpg"));
    case TAKE_LINKS: return false;
    case TAKE_PLAIN: break;
    }
    return true;
}

static int copy_file(copier *c, int from, const char *name, int to)
{
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    if (abx_name_is_secret(name))
        return 0;
    if (abx_read_file_at(from, name, text.max, &text, NULL) != 0)
        return 0; /* too long, or gone: it is not there inside */
    size_t n = text.len;
    if (n > c->left || (n > 0 && !judge(c, name, (char *)text.data, &n)) ||
        (n == 0 && c->how == TAKE_CERTS))
        return 0;
    ABX_AUTO_FD fd = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST)
        return 0; /* written by us before */
    if (fd < 0 || abx_write_full(fd, text.data, n) < 0 || fchmod(fd, 0644) < 0)
        return abx_fail_errno(c->err, ABX_ERR_LOCAL_STATE, errno, "cannot copy '/etc/%s'", name);
    c->left -= n;
    return 0;
}

/* Links are kept when what they name is inside too: beside them, or below /usr, or in /etc/alternatives. */
static bool link_stays(const char *target)
{
    if (target[0] != '/')
        return !abx_has_prefix(target, "../") && !strstr(target, "/../");
    return (abx_has_prefix(target, "/usr/") || abx_has_prefix(target, "/etc/alternatives/") ||
            abx_has_prefix(target, "/bin/") || abx_has_prefix(target, "/lib/")) &&
           !strstr(target, "/../");
}

static int copy_link(copier *c, int from, const char *name, int to)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n <= 0 || abx_name_is_secret(name))
        return 0;
    target[n] = 0;
    if (link_stays(target)) {
        if (symlinkat(target, to, name) < 0 && errno != EEXIST)
            return abx_fail_errno(c->err, ABX_ERR_LOCAL_STATE, errno, "cannot link '/etc/%s'",
                                  name);
        return 0;
    }
    /* a certificate that lies elsewhere: its text instead of the link */
    struct stat st;
    if (c->how == TAKE_CERTS && fstatat(from, name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
        others_may_read(&st))
        return copy_file(c, from, name, to);
    return 0;
}

static int copy_entry(copier *c, int from, const char *name, int to);

static int copy_folder(copier *c, int from, const char *name, int to)
{
    if (c->depth >= DEPTH_MAX || abx_name_is_secret(name))
        return 0;
    if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
        return abx_fail_errno(c->err, ABX_ERR_LOCAL_STATE, errno, "cannot make '/etc/%s'", name);
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    ABX_AUTO_FD below = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d || below < 0) {
        abx_close_fd(&fd);
        return 0;
    }
    int rc = 0;
    c->depth++;
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = copy_entry(c, dirfd(d), e->d_name, below);
    c->depth--;
    closedir(d);
    return rc;
}

static int copy_entry(copier *c, int from, const char *name, int to)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return copy_link(c, from, name, to);
    if (!others_may_read(&st))
        return 0;
    if (S_ISDIR(st.st_mode))
        return copy_folder(c, from, name, to);
    if (S_ISREG(st.st_mode) && c->how != TAKE_LINKS)
        return copy_file(c, from, name, to);
    return 0;
}

/* A path of several names: its folders are made on both sides first. */
static int copy_path(copier *c, int host_etc, const char *path, int etc)
{
    ABX_AUTO_FREE char *copy = abx_strdup(path);
    char *rest = copy, *name = strsep(&rest, "/");
    ABX_AUTO_FD from = openat(host_etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD to = openat(etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (; rest && from >= 0 && to >= 0; name = strsep(&rest, "/")) {
        struct stat st;
        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            return 0;
        int next = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        abx_close_fd(&from);
        from = next;
        (void)mkdirat(to, name, 0755);
        next = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        abx_close_fd(&to);
        to = next;
    }
    return from < 0 || to < 0 ? 0 : copy_entry(c, from, name, to);
}

static int copy_matching(copier *c, int host_etc, const char *pattern, int etc)
{
    if (!strpbrk(pattern, "*?["))
        return copy_path(c, host_etc, pattern, etc);
    int fd = openat(host_etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int rc = 0;
    for (struct dirent *e; d && rc == 0 && (e = readdir(d));)
        if (fnmatch(pattern, e->d_name, 0) == 0)
            rc = copy_entry(c, host_etc, e->d_name, etc);
    if (d)
        closedir(d);
    return rc;
}

int abx_etc_copy(int host_etc, int etc, abx_ids ids, abx_error **err)
{
    size_t checked = CHECKED_MAX;
    for (size_t i = 0; i < ABX_COUNT(rules); i++) {
        const etc_rule *rule = &rules[i];
        if (rule->slot_only && ids != ABX_IDS_SLOT)
            continue;
        bool counts = rule->how == TAKE_CHECKED || rule->how == TAKE_APT;
        copier c = {rule->how, counts ? checked : SIZE_MAX, 0, err};
        if (copy_matching(&c, host_etc, rule->pattern, etc) < 0)
            return -1;
        if (counts)
            checked = c.left;
    }
    return 0;
}
