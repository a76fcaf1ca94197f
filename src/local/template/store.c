#include "local/template/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/range_remove.h"

#define RECORD_MAX ((size_t)8 << 20)

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int open_one(abx_store *s, int at, const char *name, bool make, int *out, abx_error **err)
{
    if (make && mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot make '%s/%s'", s->local->base,
                              name);
    *out = open_dir(at, name);
    if (*out < 0 && (make || errno != ENOENT))
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s/%s'", s->local->base,
                              name);
    return 0;
}

static int open_all(abx_store *s, bool make, abx_error **err)
{
    int base = s->local->base_fd;
    if (open_one(s, base, "layers", make, &s->layers, err) < 0 ||
        open_one(s, base, "templates", make, &s->templates, err) < 0 ||
        open_one(s, base, "snapshots", make, &s->snapshots, err) < 0)
        return -1;
    if (s->templates >= 0 && open_one(s, s->templates, "names", make, &s->names, err) < 0)
        return -1;
    if (make && mkdirat(s->layers, ABX_STORE_MOUNT, 0755) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write in '%s/layers'",
                              s->local->base);
    return 0;
}

int abx_store_open(abx_local *local, bool make, abx_store *out, abx_error **err)
{
    *out = (abx_store){local, -1, -1, -1, -1};
    if (make && abx_local_prepare(local, err) < 0)
        return -1;
    abx_local_look(local);
    if (local->base_fd < 0)
        return 0;
    mode_t mask = make ? umask(0) : 0; /* who makes is a program of its own */
    int rc = open_all(out, make, err);
    if (make)
        umask(mask);
    if (rc < 0)
        abx_store_close(out);
    return rc;
}

void abx_store_close(abx_store *s)
{
    abx_close_fd(&s->layers);
    abx_close_fd(&s->templates);
    abx_close_fd(&s->names);
    abx_close_fd(&s->snapshots);
}

int abx_store_take(abx_store *s, abx_store_lock which, bool alone, bool wait, abx_error **err)
{
    const char *name = which == ABX_LOCK_USE ? "templates.lock" : "layers.lock";
    ABX_AUTO_FD fd =
        openat(s->local->base_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc;
    do
        rc = fd < 0 ? -1 : flock(fd, (alone ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB));
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return abx_take_fd(&fd);
    if (fd >= 0 && errno == EWOULDBLOCK)
        return abx_fail(err, ABX_ERR_CONFLICT, "templates are being changed right now");
    return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot lock '%s/%s'", s->local->base,
                          name);
}

/* --- layers ------------------------------------------------------------------------------------------ */

char abx_store_kind(abx_ids ids)
{
    return ids == ABX_IDS_SLOT ? 'o' : ids == ABX_IDS_RANGE ? 'r' : 's';
}

void abx_store_layer_name(const char *digest, char kind, char out[ABX_LAYER_NAME + 1])
{
    (void)snprintf(out, ABX_LAYER_NAME + 1, "%.16s%c", digest, kind);
}

static bool exists(int at, const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int check_digest(abx_store *s, const char *digest, abx_error **err)
{
    char name[ABX_STORE_ID + 6];
    ABX_AUTO_BUF text = ABX_BUF(RECORD_MAX);
    (void)snprintf(name, sizeof(name), "%.16s.json", digest);
    int rc = abx_read_file_at(s->layers, name, text.max, &text, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_LOCAL_STATE, name, err);
    if (!doc)
        return -1;
    if (abx_str_eq(abx_json_str(yyjson_doc_get_root(doc), "digest", ""), digest))
        return 1;
    return abx_fail(err, ABX_ERR_CONFLICT,
                    "two layers have the same beginning of their digest, %.16s", digest);
}

int abx_store_has_layer(abx_store *s, const char *digest, char kind, char *found, abx_error **err)
{
    static const char kinds[] = "sro";
    char name[ABX_LAYER_NAME + 1];
    for (const char *k = kinds; *k; k++) {
        abx_store_layer_name(digest, *k, name);
        if ((kind && kind != *k) || !exists(s->layers, name))
            continue;
        if (found)
            *found = *k;
        return check_digest(s, digest, err);
    }
    return 0;
}

int abx_new_layer_begin(abx_store *s, abx_new_layer *out, abx_error **err)
{
    out->store = s;
    out->fd = -1;
    (void)snprintf(out->temp, sizeof(out->temp), ".new-");
    abx_random_id(out->temp + 5, 16);
    if (mkdirat(s->layers, out->temp, 0755) < 0 || (out->fd = open_dir(s->layers, out->temp)) < 0 ||
        flock(out->fd, LOCK_EX) < 0) {
        abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make a layer in '%s'",
                       s->local->base);
        abx_new_layer_clear(out);
        return -1;
    }
    return 0;
}

static int fail_commit(const abx_new_layer *n, abx_error **err)
{
    return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot keep a layer in '%s'",
                          n->store->local->base);
}

int abx_new_layer_commit(abx_new_layer *n, const char *digest, char kind, yyjson_mut_val *about,
                         const abx_buf *owners, abx_error **err)
{
    int at = n->store->layers;
    char name[ABX_LAYER_NAME + 1], file[ABX_STORE_ID + 6];
    ABX_AUTO_BUF text = ABX_BUF(RECORD_MAX);
    if (abx_json_write_mut(about, &text) < 0)
        return abx_fail(err, ABX_ERR_INTERNAL, "the description of a layer is too long");
    (void)snprintf(file, sizeof(file), "%.16s.json", digest);
    if (abx_write_atomic_at(at, file, text.data, text.len, 0600, false, err) < 0)
        return -1;
    (void)snprintf(file, sizeof(file), "%.16s.own", digest);
    if (owners && abx_write_atomic_at(at, file, owners->data, owners->len, 0600, false, err) < 0)
        return -1;
    abx_store_layer_name(digest, kind, name);
    if (renameat(at, n->temp, at, name) == 0) {
        n->temp[0] = 0;
        abx_close_fd(&n->fd);
        return 0;
    }
    return errno == EEXIST || errno == ENOTEMPTY ? 0 : fail_commit(n, err);
}

void abx_new_layer_clear(abx_new_layer *n)
{
    if (n->temp[0])
        (void)abx_store_remove(n->store->layers, n->temp, NULL);
    n->temp[0] = 0;
    abx_close_fd(&n->fd);
}

int abx_store_remove(int folder, const char *name, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    if (abx_remove_tree_at(folder, name, &why) == 0)
        return 0;
    if (geteuid() != 0 && abx_range_remove(folder, name, ABX_FOREVER) == 0)
        return 0;
    return abx_error_take(err, ABX_TAKE(why));
}

/* --- records ----------------------------------------------------------------------------------------- */

int abx_store_record(abx_store *s, int folder, const char *id, const char *file, yyjson_mut_val *v,
                     abx_error **err)
{
    char temp[24] = ".new-";
    ABX_AUTO_BUF text = ABX_BUF(RECORD_MAX);
    if (abx_json_write_mut(v, &text) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the description is over 8 MiB");
    abx_random_id(temp + 5, 16);
    /* what it names must be there after a loss of power, too */
    if (syncfs(s->layers) < 0 || mkdirat(folder, temp, 0700) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot write in '%s'",
                              s->local->base);
    ABX_AUTO_FD fd = open_dir(folder, temp);
    int rc = fd < 0 ? abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open '%s'", temp)
                    : abx_write_atomic_at(fd, file, text.data, text.len, 0600, true, err);
    if (rc == 0 && renameat(folder, temp, folder, id) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        rc =
            abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot write in '%s'", s->local->base);
    if (exists(folder, temp))
        (void)abx_remove_tree_at(folder, temp, NULL);
    return rc;
}

yyjson_doc *abx_store_read(int folder, const char *id, const char *file, abx_error **err)
{
    if (folder < 0 || strchr(id, '/') || id[0] == '.')
        return NULL;
    ABX_AUTO_FREE char *path = abx_format("%s/%s", id, file);
    ABX_AUTO_BUF text = ABX_BUF(RECORD_MAX);
    if (abx_read_file_at(folder, path, text.max, &text, err) != 0)
        return NULL;
    return abx_json_parse(text.data, text.len, ABX_ERR_LOCAL_STATE, path, err);
}

/* --- names ------------------------------------------------------------------------------------------- */

bool abx_is_template_name(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > 63 || abx_str_eq(s, "host") || s[0] == '.' || s[0] == '-' || s[0] == '_')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static bool is_store_id(const char *s)
{
    return strlen(s) == ABX_STORE_ID && strspn(s, "0123456789abcdef") == ABX_STORE_ID;
}

/* Where a name leads to. */
static bool read_name(abx_store *s, const char *name, char id[ABX_STORE_ID + 1])
{
    char target[ABX_STORE_ID + 2];
    ssize_t n = s->names < 0 ? -1 : readlinkat(s->names, name, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = 0;
    if (!is_store_id(target))
        return false;
    memcpy(id, target, ABX_STORE_ID + 1);
    return true;
}

int abx_store_find(abx_store *s, const char *word, char id[ABX_STORE_ID + 1])
{
    if (s->templates < 0)
        return 0;
    if (abx_is_template_name(word) && read_name(s, word, id) && exists(s->templates, id))
        return 1;
    if (!is_store_id(word) || !exists(s->templates, word))
        return 0;
    memcpy(id, word, ABX_STORE_ID + 1);
    return 1;
}

int abx_store_name(abx_store *s, const char *name, const char *id, abx_error **err)
{
    char now[ABX_STORE_ID + 1];
    for (int round = 0; round < 8; round++) {
        if (symlinkat(id, s->names, name) == 0)
            return 0;
        if (errno != EEXIST)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot keep the name '%s'",
                                  name);
        if (read_name(s, name, now) && exists(s->templates, now)) {
            if (abx_str_eq(now, id))
                return 0;
            abx_fail(err, ABX_ERR_CONFLICT, "a template named '%s' is there already", name);
            return abx_hint(err, "'abx template rm %s' removes it; or choose another name", name);
        }
        (void)unlinkat(s->names, name, 0); /* it leads nowhere */
    }
    return abx_fail(err, ABX_ERR_CONFLICT, "the name '%s' is being changed by others", name);
}
