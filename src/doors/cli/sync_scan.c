/* The two lists of sync. Names from inside the sandbox may mean harm: each must be a plain relative path. Names that are
 * no UTF-8 cannot be told to a sandbox and are left out with a note. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/safe_place.h"
#include "doors/cli/sync_inner.h"

#define DEPTH_MAX      512 /* each level holds a descriptor */
#define ALL_LEVELS     1000000
#define IGNORE_MAX     ((size_t)1024 * 1024)
#define TEMPORARY      ".abx-" /* of our own, left by a run that was killed */
#define TEMPORARY_TAIL 8

/* --- patterns ------------------------------------------------------------------------------------------- */

int abx__sync_read_ignore(abx_sync *s, abx_error **err)
{
    abx_ignore_clear(&s->ignore);
    ABX_AUTO_FREE char *path = abx_path_join(s->local, ".abxignore");
    ABX_AUTO_BUF text = ABX_BUF(IGNORE_MAX);
    if (abx_read_file(path, IGNORE_MAX, &text, err) < 0)
        return -1;
    abx_ignore_add_text(&s->ignore, abx_buf_cstr(&text));
    const abx_args *a = s->cli->args;
    for (size_t i = 0; i < a->item_count; i++)
        if (a->items[i].flag == ABX_FLAG_EXCLUDE || a->items[i].flag == ABX_FLAG_INCLUDE)
            abx_ignore_add(&s->ignore, a->items[i].value, a->items[i].flag == ABX_FLAG_INCLUDE);
    return 0;
}

/* ".abx-" and a random tail: half a file. */
static bool is_temporary(const char *path)
{
    const char *name = abx_path_base(path);
    size_t n = strlen(TEMPORARY);
    return strncmp(name, TEMPORARY, n) == 0 && strlen(name + n) == TEMPORARY_TAIL;
}

/* --- this machine ------------------------------------------------------------------------------------------ */

typedef struct scan {
    abx_sync *s;
    abx_sync_list *out;
    abx_error **err;
} scan;

static int fail_path(scan *c, const char *path)
{
    return abx_fail_errno(c->err, ABX_ERR_FILE, errno, "cannot read '%s/%s'", c->s->local, path);
}

static void fill(abx_sync_entry *e, const struct stat *st)
{
    e->mode = st->st_mode & 0777;
    e->size = S_ISREG(st->st_mode) ? st->st_size : 0;
    e->seconds = st->st_mtim.tv_sec;
    e->ns = st->st_mtim.tv_nsec;
}

static int scan_folder(scan *c, int fd, const char *path, int depth, bool *keep);

static int scan_link(scan *c, int dir, const char *name, const char *path, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : fail_path(c, path);
    target[n] = 0;
    abx_sync_entry *e = abx_sync_list_add(c->out, path);
    e->type = ABX_SYNC_LINK;
    e->target = abx_strdup(target);
    fill(e, st);
    return 0;
}

static int scan_below(scan *c, int dir, const char *name, const char *path, int depth, bool *keep)
{
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* gone, or another thing, meanwhile */
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_path(c, path);
    size_t index = c->out->count;
    abx_sync_entry *e = abx_sync_list_add(c->out, path);
    e->type = ABX_SYNC_DIR;
    fill(e, &st);
    bool holds = false;
    if (scan_folder(c, fd, path, depth + 1, &holds) < 0)
        return -1;
    c->out->entries[index].keep = holds;
    *keep = *keep || holds;
    return 0;
}

static int scan_one(scan *c, int dir, const char *name, const char *path, int depth, bool *keep)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail_path(c, path);
    if (abx_ignore_match(&c->s->ignore, path, S_ISDIR(st.st_mode))) {
        *keep = true;
        return 0;
    }
    if (!abx_utf8_valid(name, strlen(name))) {
        abx_cli_warn(c->s->cli, "abx: left out '%s/%s': its name is no UTF-8", c->s->local, path);
        *keep = true;
        return 0;
    }
    if (is_temporary(path))
        return 0;
    if (S_ISDIR(st.st_mode))
        return scan_below(c, dir, name, path, depth, keep);
    if (S_ISLNK(st.st_mode))
        return scan_link(c, dir, name, path, &st);
    if (!S_ISREG(st.st_mode)) {
        if (!c->s->watch)
            abx_cli_warn(c->s->cli, "abx: left out '%s/%s': no file, folder or link", c->s->local,
                         path);
        *keep = true;
        return 0;
    }
    abx_sync_entry *e = abx_sync_list_add(c->out, path);
    e->type = ABX_SYNC_FILE;
    fill(e, &st);
    return 0;
}

static int scan_folder(scan *c, int fd, const char *path, int depth, bool *keep)
{
    if (depth > DEPTH_MAX)
        return abx_fail(c->err, ABX_ERR_TOO_LARGE, "'%s/%s' is nested too deep", c->s->local, path);
    if (c->s->watch)
        abx__sync_watch_folder(c->s->watch, fd);
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (!list) {
        int rc = fail_path(c, path);
        if (copy >= 0)
            close(copy);
        return rc;
    }
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (errno = 0, entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ABX_AUTO_FREE char *child =
            path[0] ? abx_format("%s/%s", path, entry->d_name) : abx_strdup(entry->d_name);
        rc = scan_one(c, fd, entry->d_name, child, depth, keep);
    }
    if (rc == 0 && errno != 0)
        rc = fail_path(c, path);
    closedir(list);
    return rc;
}

int abx__sync_scan_local(abx_sync *s, abx_error **err)
{
    abx_sync_list_clear(&s->lists[0]);
    ABX_AUTO_FD fd = open(s->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->local_missing = fd < 0 && errno == ENOENT;
    if (s->local_missing)
        return 0;
    if (fd < 0 && errno == ENOTDIR)
        return abx_fail(err, ABX_ERR_CONFLICT, "'%s' is no folder", s->local);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot read '%s'", s->local);
    scan c = {s, &s->lists[0], err};
    bool keep = false;
    if (scan_folder(&c, fd, "", 0, &keep) < 0)
        return -1;
    abx_sync_list_sort(&s->lists[0]);
    return 0;
}

/* --- the sandbox ------------------------------------------------------------------------------------------- */

static abx_sync_type type_of(const char *type)
{
    return strcmp(type, "file") == 0      ? ABX_SYNC_FILE
           : strcmp(type, "dir") == 0     ? ABX_SYNC_DIR
           : strcmp(type, "symlink") == 0 ? ABX_SYNC_LINK
                                          : ABX_SYNC_NONE;
}

/* The path below the root, checked; NULL and *err. Borrowed from the file. */
static const char *relative(const abx_sync *s, yyjson_val *file, abx_error **err)
{
    const char *path = abx_json_str(file, "path", "");
    size_t n = strcmp(s->remote, "/") == 0 ? 0 : strlen(s->remote);
    const char *rest = strncmp(path, s->remote, n) == 0 && path[n] == '/' ? path + n + 1 : "";
    ABX_AUTO_FREE char *safe = abx_safe_name(rest, NULL);
    if (safe && safe[0] && strcmp(safe, rest) == 0)
        return rest;
    abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the list of '%s' holds the name '%.200s'", s->remote,
             path);
    return NULL;
}

static void add_remote(abx_sync *s, const char *path, abx_sync_type type, yyjson_val *file)
{
    abx_sync_entry *e = abx_sync_list_add(&s->lists[1], path);
    int64_t seconds = 0;
    long ns = 0;
    (void)abx_parse_rfc3339_ns(abx_json_str(file, "modifiedAt", ""), &seconds, &ns);
    e->type = type;
    e->mode = (mode_t)(abx_json_int(file, "mode", 0) & 0777);
    e->size = type == ABX_SYNC_FILE ? abx_json_int(file, "size", 0) : 0;
    e->seconds = seconds;
    e->ns = ns;
    e->closed = abx_json_bool(file, "closed", false);
    if (type == ABX_SYNC_LINK)
        e->target = abx_strdup(abx_json_str(file, "target", ""));
}

/* Folders above something that stays. The list is sorted. */
static void mark_kept(abx_sync_list *l, const char *path)
{
    ABX_AUTO_FREE char *up = abx_strdup(path);
    for (char *slash; (slash = strrchr(up, '/')) != NULL;) {
        *slash = 0;
        abx_sync_entry *e = abx_sync_list_find(l, up);
        if (e && e->keep)
            return;
        if (e)
            e->keep = true;
    }
}

/* Take out what is ignored; the list is sorted, so that what lies below a folder follows it. */
static int drop_ignored(abx_sync *s, abx_error **err)
{
    abx_sync_list *l = &s->lists[1];
    ABX_AUTO_SYNC_LIST all = *l;
    *l = (abx_sync_list){0};
    const char *gone = NULL;
    for (size_t i = 0; i < all.count; i++) {
        abx_sync_entry *e = &all.entries[i];
        if (i > 0 && strcmp(e->path, all.entries[i - 1].path) == 0)
            return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the list of '%s' holds '%.200s' twice",
                            s->remote, e->path);
        if (gone && abx_sync_is_below(e->path, gone))
            continue;
        bool ignored = e->type == ABX_SYNC_NONE ||
                       abx_ignore_match(&s->ignore, e->path, e->type == ABX_SYNC_DIR);
        if (e->closed && !ignored)
            return abx_fail(err, ABX_ERR_FILE, "cannot read '%s/%s' in the sandbox: no right",
                            s->remote, e->path);
        if (ignored)
            mark_kept(l, e->path);
        if (!ignored && !is_temporary(e->path))
            abx_sync_list_add_copy(l, e);
        else if (e->type == ABX_SYNC_DIR)
            gone = e->path;
    }
    return 0;
}

static int take_files(abx_sync *s, yyjson_val *files, abx_error **err)
{
    size_t i, n;
    yyjson_val *file;
    yyjson_arr_foreach(files, i, n, file)
    {
        const char *path = relative(s, file, err);
        if (!path)
            return -1;
        add_remote(s, path, type_of(abx_json_str(file, "type", "")), file);
    }
    abx_sync_list_sort(&s->lists[1]);
    return drop_ignored(s, err);
}

static int find_root(abx_sync *s, abx_error **err)
{
    abx_remote_path path = {s->sandbox, s->remote};
    abx_copy_place place;
    int rc = abx_copy_look(&s->copy, &path, &place, err);
    s->remote_missing = rc == 0 && place.kind == ABX_COPY_NONE;
    if (rc == 0 && place.kind == ABX_COPY_FILE)
        rc = abx_fail(err, ABX_ERR_CONFLICT, "'%s' in the sandbox is no folder", s->remote);
    if (rc == 0 && place.kind == ABX_COPY_DIR) {
        free(s->remote);
        s->remote = ABX_TAKE(place.path);
        size_t n = strlen(s->remote);
        while (n > 1 && (s->remote[n - 1] == '/' || abx_has_suffix(s->remote, "/.")))
            s->remote[--n] = 0;
    }
    abx_copy_place_clear(&place);
    return rc;
}

int abx__sync_scan_remote(abx_sync *s, abx_error **err)
{
    abx_sync_list_clear(&s->lists[1]);
    if (find_root(s, err) < 0)
        return -1;
    if (s->remote_missing)
        return 0;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(s->sandbox, &root);
    abx_mut_str(d, root, "path", s->remote);
    abx_mut_int(d, root, "depth", ALL_LEVELS);
    abx_mut_str(d, root, "user", s->copy.user);
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(s->cli, ABX_OP_FS_LIST, d, &found, err) < 0)
        return -1;
    return take_files(s, abx_json_get(yyjson_doc_get_root(found), "files"), err);
}
