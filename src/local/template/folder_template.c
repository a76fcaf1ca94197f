/* A folder as a template: copied once, since a template never changes; its digest is made of names, modes and contents. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/template/layer_unpack.h"
#include "local/template/template.h"
#include "local/template/tree_copy.h"

typedef struct hashing {
    abx_sha sha;
    abx_buf *owners;
    const abx_template_progress *progress;
    int source;
    bool own;
} hashing;

static int hash_file(hashing *h, int to, const char *name)
{
    uint8_t bytes[32768];
    ABX_AUTO_FD fd = openat(to, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : 0;
    while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        abx_sha_add(&h->sha, bytes, (size_t)n);
    }
    return n < 0 ? -1 : 0;
}

/* "TYPE MODE SIZE PATH\0" and the contents of what was just copied. */
static int on_entry(void *data, const char *path, int to, const char *name, abx_error **err)
{
    hashing *h = (hashing *)data;
    struct stat st;
    char head[64], target[4097];
    if (fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT
                   ? 0
                   : abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot read '%s'", path);
    int n = snprintf(head, sizeof(head), "%o %lld ", (unsigned)st.st_mode,
                     S_ISREG(st.st_mode) ? (long long)st.st_size : 0LL);
    abx_sha_add(&h->sha, head, (size_t)n);
    abx_sha_add(&h->sha, path, strlen(path) + 1);
    if (S_ISREG(st.st_mode) && hash_file(h, to, name) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot read '%s'", path);
    if (S_ISLNK(st.st_mode)) {
        ssize_t len = readlinkat(to, name, target, sizeof(target));
        abx_sha_add(&h->sha, target, len > 0 ? (size_t)len : 0);
    }
    return 0;
}

static int on_bytes(void *data, uint64_t bytes, abx_error **err)
{
    const abx_template_progress *p = ((const hashing *)data)->progress;
    return p && p->tell ? p->tell(p->data, 0, 1, bytes, err) : 0;
}

static int copy(const char *path, int from, abx_new_layer *n, abx_ids ids, hashing *h,
                abx_sha256 digest, uint64_t *bytes, abx_error **err)
{
    struct stat st;
    abx_tree_copy c = {
        .from = from,
        .to = n->fd,
        /* a root caller's folder keeps its owners, as ids inside */
        .owners = ids == ABX_IDS_SLOT ? ABX_OWNERS_SHIFT : ABX_OWNERS_NONE,
        .plain = true,
        .free_bytes = ABX_FREE_DISK_BYTES,
        .most_entries = ABX_UNPACK_ENTRIES,
        .entry = on_entry,
        .progress = on_bytes,
        .data = h,
    };
    abx_sha_init(&h->sha);
    int rc = abx_tree_copy_run(&c, err);
    if (rc < 0) {
        abx_sha_clear(&h->sha);
        return abx_wrap(err, "template from '%s'", path);
    }
    if (fstat(n->fd, &st) == 0) {
        char head[32];
        abx_sha_add(&h->sha, head,
                    (size_t)snprintf(head, sizeof(head), "%o ", (unsigned)st.st_mode));
    }
    abx_sha_end(&h->sha, digest);
    *bytes = c.bytes;
    return 0;
}

int abx_folder_add(abx_store *s, const char *path, abx_ids ids,
                   const abx_template_progress *progress, abx_sha256 digest, uint64_t *bytes,
                   abx_error **err)
{
    abx_new_layer n;
    hashing h = {.progress = progress};
    ABX_AUTO_FD from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open '%s'", path);
    if (abx_new_layer_begin(s, &n, err) < 0)
        return -1;
    int rc = copy(path, from, &n, ids, &h, digest, bytes, err);
    if (rc == 0) {
        yyjson_mut_val *about;
        ABX_AUTO_MUT d = abx_mut_new(&about);
        abx_mut_str(d, about, "digest", digest);
        abx_mut_int(d, about, "bytes", (int64_t)*bytes);
        rc = abx_new_layer_commit(&n, digest, abx_store_kind(ids), about, NULL, err);
    }
    abx_new_layer_clear(&n);
    return rc;
}
