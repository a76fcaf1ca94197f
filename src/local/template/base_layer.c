#include "local/template/base_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/backend.h"
#include "local/etc_text.h"
#include "base/sha256.h"

#define FORMAT       "base 1\n" /* a change of what is built changes this */
#define ACCOUNTS_MAX ((size_t)4 << 20)

void abx_base_digest(const char *template_digest, abx_sha256 out)
{
    ABX_AUTO_FREE char *text = abx_format(FORMAT "%s", template_digest);
    abx_sha_of(text, strlen(text), out);
}

typedef struct building {
    int root;
    const abx_layer_set *image;
    bool own;
    abx_error **err;
} building;

static int made(building *b, int rc, const char *path)
{
    if (rc < 0 && errno != EEXIST)
        return abx_fail_errno(b->err, ABX_ERR_LOCAL_STATE, errno, "cannot make '/%s' of a template",
                              path);
    return 0;
}

static int give(building *b, const char *path, uid_t uid, gid_t gid)
{
    return b->own ? made(b, fchownat(b->root, path, uid, gid, AT_SYMLINK_NOFOLLOW), path) : 0;
}

/* A folder as the image has it; where it has none: with this mode and owner. */
static int add_folder(building *b, const char *path, mode_t mode, uid_t owner)
{
    struct stat st;
    gid_t group = owner;
    if (abx_layers_find(b->image, path, &st, NULL) && S_ISDIR(st.st_mode)) {
        mode = st.st_mode & 01777;
        owner = st.st_uid;
        group = st.st_gid;
    }
    if (made(b, mkdirat(b->root, path, 0755), path) < 0 || give(b, path, owner, group) < 0)
        return -1;
    return made(b, fchmodat(b->root, path, mode, 0), path);
}

static int add_file(building *b, const char *path, const char *text, mode_t mode)
{
    ABX_AUTO_FD fd = openat(b->root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (made(b, fd, path) < 0 || made(b, abx_write_full(fd, text, strlen(text)), path) < 0 ||
        made(b, fchmod(fd, mode), path) < 0)
        return -1;
    return give(b, path, 0, 0);
}

static int add_link(building *b, const char *path, const char *target)
{
    return made(b, symlinkat(target, b->root, path), path) < 0 ? -1 : give(b, path, 0, 0);
}

static int add_devices(building *b)
{
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {
        {"dev/ptmx", "pts/ptmx"},          {"dev/fd", "/proc/self/fd"},
        {"dev/stdin", "/proc/self/fd/0"},  {"dev/stdout", "/proc/self/fd/1"},
        {"dev/stderr", "/proc/self/fd/2"},
    };
    for (size_t i = 0; i < ABX_COUNT(nodes); i++) {
        ABX_AUTO_FREE char *path = abx_format("dev/%s", nodes[i]);
        if (add_file(b, path, "", 0666) < 0)
            return -1;
    }
    for (size_t i = 0; i < ABX_COUNT(links); i++)
        if (add_link(b, links[i][0], links[i][1]) < 0)
            return -1;
    return 0;
}

/* --- accounts ---------------------------------------------------------------------------------------- */

/* The line of a name, or with by_id of a number in the third field. NULL: none. */
static const char *line_of(const char *text, const char *word, bool by_id)
{
    size_t n = strlen(word);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *field = p;
        for (int i = 0; by_id && i < 2 && field; i++) {
            field = strpbrk(field, ":\n");
            field = field && *field == ':' ? field + 1 : NULL;
        }
        if (field && strncmp(field, word, n) == 0 && field[n] == ':')
            return p;
    }
    return NULL;
}

static bool line_has_id(const char *line, uint32_t id, uint32_t *found)
{
    const char *field = line;
    for (int i = 0; i < 2 && field; i++) {
        field = strpbrk(field, ":\n");
        field = field && *field == ':' ? field + 1 : NULL;
    }
    size_t n = field ? strspn(field, "0123456789") : 0;
    ABX_AUTO_FREE char *digits = abx_strndup(field ? field : "", n);
    uint64_t value;
    if (n == 0 || abx_parse_uint(digits, UINT32_MAX - 1, &value) < 0)
        return false;
    *found = (uint32_t)value;
    return value == id;
}

static int with_line(const char *text, const char *name, uint32_t id, const char *line, bool *first,
                     abx_buf *out)
{
    const char *have = line_of(text, name, false);
    uint32_t found;
    *first = have && !line_has_id(have, id, &found);
    /* one that means somebody else is hidden by ours in front of it */
    return *first ? abx_buf_add_str(out, line) : 0;
}

static int with_accounts(const char *text, const char *const names[2], char *const lines[2],
                         abx_buf *out)
{
    static const uint32_t ids[2] = {0, ABX_INSIDE_UID};
    bool first[2];
    for (int i = 0; i < 2; i++)
        if (with_line(text, names[i], ids[i], lines[i], &first[i], out) < 0)
            return -1;
    size_t n = strlen(text);
    if (abx_buf_add(out, text, n) < 0 ||
        (n > 0 && text[n - 1] != '\n' && abx_buf_add_byte(out, '\n') < 0))
        return -1;
    for (int i = 0; i < 2; i++)
        if (!line_of(text, names[i], false) && abx_buf_add_str(out, lines[i]) < 0)
            return -1;
    return 0;
}

int abx_passwd_with_user(const char *text, const char *shell, abx_buf *out)
{
    static const char *const names[2] = {"root", "user"};
    ABX_AUTO_FREE char *root = abx_format("root:x:0:0::/root:%s\n", shell);
    ABX_AUTO_FREE char *user = abx_format("user:x:1000:1000::/home/user:%s\n", shell);
    char *const lines[2] = {root, user};
    return with_accounts(text, names, lines, out);
}

int abx_group_with_user(const char *text, abx_buf *out)
{
    static const char *const names[2] = {"root", "user"};
    static char root[] = "root:x:0:\n", user[] = "user:x:1000:\n";
    char *const lines[2] = {root, user};
    return with_accounts(text, names, lines, out);
}

void abx_image_user(const char *passwd, const char *user, char **name, uint32_t *uid)
{
    ABX_AUTO_FREE char *word = abx_strndup(user, strcspn(user, ":"));
    uint64_t number;
    bool is_number = abx_parse_uint(word, UINT32_MAX - 1, &number) == 0;
    const char *line = line_of(passwd, word, is_number);
    *uid = UINT32_MAX;
    if (line) {
        *name = abx_strndup(line, strcspn(line, ":\n"));
        (void)line_has_id(line, 0, uid);
    } else {
        *name = abx_strdup(word);
        if (is_number)
            *uid = (uint32_t)number;
    }
}

static int add_accounts(building *b)
{
    ABX_AUTO_BUF passwd = ABX_BUF(ACCOUNTS_MAX), group = ABX_BUF(ACCOUNTS_MAX);
    ABX_AUTO_BUF new_passwd = ABX_BUF(ACCOUNTS_MAX + 4096),
                 new_group = ABX_BUF(ACCOUNTS_MAX + 4096);
    struct stat st;
    const char *shell = abx_layers_find(b->image, "bin/bash", &st, NULL) ||
                                abx_layers_find(b->image, "usr/bin/bash", &st, NULL)
                            ? "/bin/bash"
                            : "/bin/sh";
    (void)abx_layers_read(b->image, "etc/passwd", &passwd);
    (void)abx_layers_read(b->image, "etc/group", &group);
    if (abx_passwd_with_user(abx_buf_cstr(&passwd), shell, &new_passwd) < 0 ||
        abx_group_with_user(abx_buf_cstr(&group), &new_group) < 0)
        return abx_fail(b->err, ABX_ERR_TOO_LARGE, "the image has too many accounts");
    return add_file(b, "etc/passwd", abx_buf_cstr(&new_passwd), 0644) < 0
               ? -1
               : add_file(b, "etc/group", abx_buf_cstr(&new_group), 0644);
}

/* --- the whole --------------------------------------------------------------------------------------- */

/* The folders of a path that the image lacks. */
static int add_workdir(building *b, const char *workdir)
{
    ABX_AUTO_FREE char *path = abx_strdup(workdir + strspn(workdir, "/"));
    if (!*path || strstr(path, ".."))
        return 0;
    for (char *p = path;; p++) {
        if (*p != '/' && *p)
            continue;
        char keep = *p;
        *p = 0;
        struct stat st;
        bool is_last = !keep, there = abx_layers_find(b->image, path, &st, NULL);
        if (there && !S_ISDIR(st.st_mode))
            return 0; /* a link: followed when a command runs */
        if (add_folder(b, path, 0755, is_last ? ABX_INSIDE_UID : 0) < 0)
            return -1;
        *p = keep;
        if (is_last)
            return 0;
    }
}

int abx_base_build(int dirfd, const abx_layer_set *image, bool own, const char *workdir,
                   abx_error **err)
{
    static const struct {
        const char *path;
        mode_t mode;
        uid_t owner;
    } folders[] = {
        {"etc", 0755, 0},  {"home", 0755, 0},    {"home/user", 0755, ABX_INSIDE_UID},
        {"tmp", 01777, 0}, {"var", 0755, 0},     {"work", 0755, ABX_INSIDE_UID},
        {"dev", 0755, 0},  {"dev/pts", 0755, 0}, {"dev/shm", 01777, 0},
        {"proc", 0555, 0}, {"run", 0755, 0},     {"var/tmp", 01777, 0},
        {"root", 0700, 0},
    };
    building b = {dirfd, image, own, err};
    struct stat st;
    for (size_t i = 0; i < ABX_COUNT(folders); i++)
        if (add_folder(&b, folders[i].path, folders[i].mode, folders[i].owner) < 0)
            return -1;
    if (add_devices(&b) < 0 || abx_etc_own(dirfd, err) < 0 || add_accounts(&b) < 0 ||
        (workdir && workdir[0] == '/' && add_workdir(&b, workdir) < 0))
        return -1;
    /* the root folder itself */
    mode_t mode = image->count > 0 && fstat(image->fds[0], &st) == 0 ? st.st_mode & 01777 : 0755;
    return made(&b, fchmod(dirfd, mode | 0555), "") < 0 ? -1 : give(&b, ".", 0, 0);
}
