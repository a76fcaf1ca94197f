#include "local/etc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

typedef struct etc_text {
    const char *name, *text;
} etc_text;

static const etc_text texts[] = {
    {"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"
                      "hosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
                      "ethers: files\nrpc: files\nnetgroup: files\n"},
    {"resolv.conf", ""},
    {"environment", "PATH=\"/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin\"\n"},
    {"profile", "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin\n"
                "export PATH\n"
                "if [ -n \"$BASH\" ] && [ \"$BASH\" != /bin/sh ]; then\n"
                "    [ -f /etc/bash.bashrc ] && . /etc/bash.bashrc\n"
                "elif [ \"$(id -u)\" -eq 0 ]; then\n    PS1='# '\nelse\n    PS1='$ '\nfi\n"},
    {"bash.bashrc", "[ -z \"$PS1\" ] && return\n"
                    "shopt -s checkwinsize\n"
                    "PS1='\\u@\\h:\\w\\$ '\n"
                    "alias ls='ls --color=auto'\n"},
    {"inputrc", "set input-meta on\nset output-meta on\n"
                "\"\\e[1~\": beginning-of-line\n\"\\e[4~\": end-of-line\n"
                "\"\\e[3~\": delete-char\n\"\\e[5~\": history-search-backward\n"
                "\"\\e[6~\": history-search-forward\n"},
    {"shells", "/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n"},
};

static int write_text(int etc, const char *name, const char *text, mode_t mode, abx_error **err)
{
    ABX_AUTO_FD fd = openat(etc, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || abx_write_full(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot write '/etc/%s'", name);
    return 0;
}

static int write_link(int etc, const char *name, const char *target, abx_error **err)
{
    if (symlinkat(target, etc, name) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot link '/etc/%s'", name);
    return 0;
}

/* --- accounts ---------------------------------------------------------------------------------------- */

static bool is_ours(const char *name)
{
    return abx_str_eq(name, "root") || abx_str_eq(name, "user") || abx_str_eq(name, "nobody") ||
           abx_str_eq(name, "nogroup") || abx_str_eq(name, "tty");
}

static int add_account(char *line, bool is_group, abx_buf *out)
{
    char *rest = line;
    const char *name = strsep(&rest, ":");
    strsep(&rest, ":");
    const char *id = strsep(&rest, ":"), *gid = strsep(&rest, ":");
    uint64_t uid, group = 0;
    if (!id || abx_parse_uint(id, 999, &uid) < 0 || is_ours(name) || !*name)
        return 0;
    for (const char *p = name; *p; p++) /* a name that could end a line or a field is no account */
        if (*p < '!' || *p > '~')
            return 0;
    if (is_group)
        return abx_buf_addf(out, "%s:x:%d:\n", name, (int)uid);
    if (!gid || abx_parse_uint(gid, 65534, &group) < 0)
        return 0;
    return abx_buf_addf(out, "%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\n", name, (int)uid,
                        (int)group);
}

int abx_system_accounts(const char *text, bool is_group, abx_buf *out)
{
    ABX_AUTO_FREE char *copy = abx_strdup(text);
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (add_account(line, is_group, out) < 0)
            return -1;
    return 0;
}

static int add_host_accounts(const char *host, const char *path, bool is_group, abx_buf *out)
{
    ABX_AUTO_FREE char *full = abx_format("%s%s", host, path);
    ABX_AUTO_BUF text = ABX_BUF(4u << 20);
    if (abx_read_file(full, text.max, &text, NULL) != 0)
        return 0;
    return abx_system_accounts(abx_buf_cstr(&text), is_group, out);
}

static int write_accounts(int etc, const char *host, abx_ids ids, abx_error **err)
{
    ABX_AUTO_BUF passwd = ABX_BUF(4u << 20);
    ABX_AUTO_BUF group = ABX_BUF(4u << 20);
    ABX_AUTO_FREE char *bash = abx_format("%s/usr/bin/bash", host);
    bool range = ids != ABX_IDS_SINGLE;
    const char *shell = access(bash, F_OK) == 0 ? "/bin/bash" : "/bin/sh";
    if (abx_buf_addf(&passwd,
                     "root:x:0:0::/root:%s\nuser:x:1000:1000::/home/user:%s\n"
                     "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
                     shell, shell) < 0 ||
        abx_buf_add_str(&group, "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n") < 0 ||
        (range && (add_host_accounts(host, "/etc/passwd", false, &passwd) < 0 ||
                   add_host_accounts(host, "/etc/group", true, &group) < 0)))
        return abx_fail(err, ABX_ERR_LOCAL_STATE, "the host's accounts are too many");
    if (write_text(etc, "passwd", abx_buf_cstr(&passwd), 0644, err) < 0 ||
        write_text(etc, "group", abx_buf_cstr(&group), 0644, err) < 0)
        return -1;
    if (!range)
        return 0;
    if (write_text(etc, "shadow", "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n", 0640,
                   err) < 0)
        return -1;
    return write_text(etc, "gshadow", "root:*::\nuser:!::\n", 0640, err);
}

/* --- time zone --------------------------------------------------------------------------------------- */

static int write_zone(int etc, const char *host, abx_error **err)
{
    static const char *const roots[] = {"/usr/share/zoneinfo/", "../usr/share/zoneinfo/"};
    ABX_AUTO_FREE char *path = abx_format("%s/etc/localtime", host);
    char target[256];
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    const char *zone = NULL;
    target[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < ABX_COUNT(roots); i++)
        if (abx_has_prefix(target, roots[i]))
            zone = target + strlen(roots[i]);
    if (!zone || strstr(zone, ".."))
        zone = "Etc/UTC";
    ABX_AUTO_FREE char *link = abx_format("/usr/share/zoneinfo/%s", zone);
    ABX_AUTO_FREE char *text = abx_format("%s\n", zone);
    if (write_link(etc, "localtime", link, err) < 0)
        return -1;
    return write_text(etc, "timezone", text, 0644, err);
}

/* What every sandbox has for itself, whatever it is made from. */
static int write_own_links(int etc, abx_error **err)
{
    if (write_link(etc, "mtab", "/proc/self/mounts", err) < 0 ||
        write_link(etc, "hosts", "/run/abx/hosts", err) < 0 ||
        write_link(etc, "hostname", "/run/abx/hostname", err) < 0)
        return -1;
    return write_link(etc, "machine-id", "/run/abx/machine-id", err);
}

int abx_etc_own(int root, abx_error **err)
{
    ABX_AUTO_FD etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (etc < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open '/etc'");
    return write_own_links(etc, err) < 0 ? -1 : write_text(etc, "resolv.conf", "", 0644, err);
}

int abx_etc_write(int etc, const char *host, abx_ids ids, abx_error **err)
{
    for (size_t i = 0; i < ABX_COUNT(texts); i++)
        if (write_text(etc, texts[i].name, texts[i].text, 0644, err) < 0)
            return -1;
    if (write_own_links(etc, err) < 0 ||
        write_link(etc, "os-release", "../usr/lib/os-release", err) < 0 ||
        write_zone(etc, host, err) < 0)
        return -1;
    return write_accounts(etc, host, ids, err);
}
