/* A layer in another form: the same tree, owned as another kind of sandbox needs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/file.h"
#include "base/mem.h"
#include "local/template/layer_unpack.h"
#include "local/template/template.h"
#include "local/template/tree_copy.h"

static int to_root(void *data, const char *path, int to, const char *name, abx_error **err)
{
    (void)data;
    if (fchownat(to, name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot give away '%.400s'", path);
    return 0;
}

static int give(int root, const char *path, uid_t uid, gid_t gid)
{
    const char *slash = strrchr(path, '/');
    ABX_AUTO_FREE char *dir = slash ? abx_strndup(path, (size_t)(slash - path)) : abx_strdup(".");
    ABX_AUTO_FD fd = abx_open_beneath(root, dir, O_PATH | O_DIRECTORY, 0);
    const char *name = !*path ? "." : slash ? slash + 1 : path;
    return fd < 0 ? -1 : fchownat(fd, name, uid, gid, AT_SYMLINK_NOFOLLOW);
}

/* The list that the unpacker wrote: "UID GID PATH\0" each. */
static int apply_owners(int root, const abx_buf *owners, abx_error **err)
{
    const char *at = (const char *)owners->data, *end = at + owners->len;
    while (at && at < end) {
        size_t n = strnlen(at, (size_t)(end - at));
        char *after;
        unsigned long uid = strtoul(at, &after, 10), gid = strtoul(after, &after, 10);
        if (at + n == end || *after != ' ')
            return abx_fail(err, ABX_ERR_LOCAL_STATE, "a list of owners is broken");
        /* what a later entry replaced is not there */
        if (give(root, after + 1, (uid_t)uid, (gid_t)gid) < 0 && errno != ENOENT &&
            errno != EINVAL && errno != ENOTDIR && errno != ELOOP)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot give away '%.400s'",
                                  after + 1);
        at += n + 1;
    }
    return 0;
}

static int copy(abx_store *s, const char *digest, int from, char to, abx_new_layer *n,
                abx_error **err)
{
    char file[ABX_STORE_ID + 6];
    ABX_AUTO_BUF owners = ABX_BUF(ABX_UNPACK_OWNERS), about = ABX_BUF((size_t)1 << 20);
    abx_tree_copy c = {
        .from = from,
        .to = n->fd,
        .owners = ABX_OWNERS_NONE,
        .free_bytes = ABX_FREE_DISK_BYTES,
        .entry = to == 's' ? NULL : to_root,
    };
    if (abx_tree_copy_run(&c, err) < 0 || (to != 's' && to_root(NULL, "/", n->fd, ".", err) < 0))
        return -1;
    (void)snprintf(file, sizeof(file), "%.16s.own", digest);
    if (to != 's' && (abx_read_file_at(s->layers, file, owners.max, &owners, err) < 0 ||
                      apply_owners(n->fd, &owners, err) < 0))
        return -1;
    (void)snprintf(file, sizeof(file), "%.16s.json", digest);
    if (abx_read_file_at(s->layers, file, about.max, &about, err) != 0)
        return err && *err ? -1 : abx_fail(err, ABX_ERR_LOCAL_STATE, "'%s' is gone", file);
    ABX_AUTO_JSON doc = abx_json_parse(about.data, about.len, ABX_ERR_LOCAL_STATE, file, err);
    if (!doc)
        return -1;
    ABX_AUTO_MUT d = yyjson_doc_mut_copy(doc, NULL);
    return abx_new_layer_commit(n, digest, to, yyjson_mut_doc_get_root(d), NULL, err);
}

int abx_layer_convert(abx_store *s, const char *digest, char from, char to, abx_error **err)
{
    char name[ABX_LAYER_NAME + 1];
    abx_new_layer n;
    abx_store_layer_name(digest, from, name);
    ABX_AUTO_FD fd = openat(s->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open layer '%s'", name);
    if (abx_new_layer_begin(s, &n, err) < 0)
        return -1;
    int rc = copy(s, digest, fd, to, &n, err);
    abx_new_layer_clear(&n);
    return rc;
}
