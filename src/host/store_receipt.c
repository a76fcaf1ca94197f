#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/store_inner.h"

#define RECEIPT_MAX ((size_t)64 * 1024)

static const char *const kinds[ABX_KIND_COUNT] = {"rest", "exec", "node"};

void abx_store_entry_clear(abx_store_entry *e)
{
    free(e->id);
    free(e->name);
    free(e->version);
    free(e->description);
    free(e->source);
    free(e->installed_at);
    free(e->tree_sha256);
    free(e->folder);
    abx_error_free(e->problem);
    *e = (abx_store_entry){0};
}

void abx_store_entries_free(abx_store_entry *entries, size_t count)
{
    for (size_t i = 0; entries && i < count; i++)
        abx_store_entry_clear(&entries[i]);
    free(entries);
}

/* --- writing ----------------------------------------------------------------------------------------- */

void abx__receipt_write(const abx_store_entry *e, abx_buf *out)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "schema", ABX_RECEIPT_SCHEMA);
    abx_mut_str(d, root, "id", e->id);
    abx_mut_str(d, root, "name", e->name);
    abx_mut_str(d, root, "version", e->version);
    abx_mut_str(d, root, "description", e->description);
    abx_mut_str(d, root, "kind", kinds[e->kind]);
    abx_mut_str(d, root, "trust", abx_trust_name(e->trust));
    abx_mut_str(d, root, "source", e->source);
    abx_mut_str(d, root, "installedAt", e->installed_at);
    abx_mut_str(d, root, "tree_sha256", e->tree_sha256);
    abx_mut_int(d, root, "entries", (int64_t)e->entries);
    abx_mut_int(d, root, "bytes", (int64_t)e->bytes);
    yyjson_mut_val *consent = abx_mut_arr(d, root, "consent");
    for (int k = 0; k < ABX_CORE_COUNT; k++)
        if (e->consent[k])
            yyjson_mut_arr_add_str(d, consent, abx_core_key_name((abx_core_key)k));
    int rc = abx_json_write_mut(root, out) | abx_buf_add_byte(out, '\n');
    ABX_CHECK(rc == 0);
}

/* --- reading ----------------------------------------------------------------------------------------- */

static int broken(const char *id, const char *file, const char *why, abx_error **err)
{
    abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
             "the receipt of provider '%s' cannot be used: '%s' %s", id, file, why);
    return abx_hint(err, "'abx provider remove %s', then install it again", id);
}

static bool is_digest(const char *s)
{
    return s && strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static int parse_consent(yyjson_val *list, bool consent[ABX_CORE_COUNT])
{
    size_t i, n;
    yyjson_val *v;
    abx_core_key key;
    if (!yyjson_is_arr(list))
        return -1;
    yyjson_arr_foreach(list, i, n, v)
    {
        if (!yyjson_is_str(v) || !abx_core_key_find(yyjson_get_str(v), &key))
            return -1;
        consent[key] = true;
    }
    return 0;
}

/* The member's text without a 0 byte in it, or NULL. */
static const char *text_of(yyjson_val *root, const char *key)
{
    yyjson_val *v = yyjson_obj_get(root, key);
    const char *s = yyjson_get_str(v);
    return s && strlen(s) == yyjson_get_len(v) ? s : NULL;
}

/* Why the document is no receipt of this id, or NULL. */
static const char *judge(yyjson_val *root, const char *id, abx_store_entry *out)
{
    static const char *const needed[] = {"id",    "name",   "version",    "kind",
                                         "trust", "source", "installedAt"};
    for (size_t i = 0; i < ABX_COUNT(needed); i++)
        if (!text_of(root, needed[i]) || !*text_of(root, needed[i]))
            return "lacks a member";
    const char *kind = text_of(root, "kind"), *trust = text_of(root, "trust");
    const char *digest = text_of(root, "tree_sha256");
    int k = 0, t = 0;
    while (k < ABX_KIND_COUNT && strcmp(kind, kinds[k]) != 0)
        k++;
    while (t <= ABX_TRUST_LINK && strcmp(trust, abx_trust_name((abx_trust)t)) != 0)
        t++;
    if (!abx_str_eq(text_of(root, "id"), id))
        return "is of another provider";
    if (k == ABX_KIND_COUNT || t > ABX_TRUST_LINK)
        return "has a kind or a trust that is not known";
    if (t == ABX_TRUST_LINK ? digest != NULL : !is_digest(digest))
        return "has no usable tree_sha256";
    if (!abx_is_version(text_of(root, "version")))
        return "has no usable version";
    out->kind = (abx_provider_kind)k;
    out->trust = (abx_trust)t;
    return parse_consent(yyjson_obj_get(root, "consent"), out->consent) < 0
               ? "has no usable consent"
               : NULL;
}

static uint64_t number_of(yyjson_val *root, const char *key)
{
    int64_t n = abx_json_int(root, key, 0);
    return n > 0 ? (uint64_t)n : 0;
}

int abx__receipt_parse(const char *id, const char *file, const void *text, size_t n,
                       abx_store_entry *out, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    ABX_AUTO_JSON doc = abx_json_parse(text, n, ABX_ERR_PROVIDER_INTEGRITY, file, &why);
    yyjson_val *root = yyjson_doc_get_root(doc), *schema = yyjson_obj_get(root, "schema");
    *out = (abx_store_entry){0};
    if (!doc || !yyjson_is_obj(root) || !yyjson_is_int(schema))
        return broken(id, file, doc ? "has no schema" : "is no JSON", err);
    if (yyjson_get_sint(schema) > ABX_RECEIPT_SCHEMA) {
        abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
                 "provider '%s' was installed by a newer version of abx: '%s' has schema %lld, and "
                 "this version knows %d",
                 id, file, (long long)yyjson_get_sint(schema), ABX_RECEIPT_SCHEMA);
        return abx_hint(err, "use the newer version, or remove the provider and install it again");
    }
    abx_store_entry e = {0};
    const char *odd = yyjson_get_sint(schema) < 1 ? "has no schema" : judge(root, id, &e);
    if (odd)
        return broken(id, file, odd, err);
    e.id = abx_strdup(id);
    e.name = abx_strdup(text_of(root, "name"));
    e.version = abx_strdup(text_of(root, "version"));
    e.description = abx_strdup(text_of(root, "description"));
    e.source = abx_strdup(text_of(root, "source"));
    e.installed_at = abx_strdup(text_of(root, "installedAt"));
    e.tree_sha256 = abx_strdup(text_of(root, "tree_sha256"));
    e.entries = number_of(root, "entries");
    e.bytes = number_of(root, "bytes");
    *out = e;
    return 0;
}

/* --- finding ----------------------------------------------------------------------------------------- */

/* The folder that holds a plugin's receipt: itself, or for a link its folder below .links. -1 with errno. *target: where the link
 * leads (owned), NULL for a real folder. */
static int open_holder(int dir, const char *id, char **target)
{
    char link[64], path[4097];
    *target = NULL;
    int fd = abx_open_beneath(dir, id, O_PATH | O_DIRECTORY, 0);
    if (fd >= 0 || errno != ELOOP)
        return fd;
    ssize_t n = readlinkat(dir, id, link, sizeof(link) - 1);
    if (n < 0)
        return -1;
    link[n] = 0;
    char *slash = strrchr(link, '/');
    if (!abx_has_prefix(link, ABX_STORE_LINKS "/") || !slash || strcmp(slash, "/plugin") != 0) {
        errno = ELOOP;
        return -1;
    }
    *slash = 0;
    fd = abx_open_beneath(dir, link, O_PATH | O_DIRECTORY, 0);
    n = fd < 0 ? -1 : readlinkat(fd, "plugin", path, sizeof(path) - 1);
    if (n < 0 || path[0] != '/') {
        abx_close_fd(&fd);
        errno = ELOOP;
        return -1;
    }
    path[n] = 0;
    *target = abx_strdup(path);
    return fd;
}

static int no_receipt(const char *id, const char *path, abx_error **err)
{
    abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
             "'%s' was not installed by abx: it has no receipt ('%s')", path, ABX_STORE_RECEIPT);
    return abx_hint(err, "'abx provider remove %s', then install it again", id);
}

static int check_link(const abx_store_entry *e, const char *target, const char *id,
                      const char *path, abx_error **err)
{
    bool is_link = target != NULL;
    if ((e->trust == ABX_TRUST_LINK) == is_link && (!is_link || strcmp(e->source, target) == 0))
        return 0;
    return broken(id, path, "does not fit what is there", err);
}

/* The receipt of a real folder in one step; -1: it is another case, or there is none. */
static int open_receipt(int dir, const char *id)
{
    ABX_AUTO_FREE char *name = abx_format("%s/%s", id, ABX_STORE_RECEIPT);
    return abx_open_beneath(dir, name, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
}

/* Its holder, then its receipt in it. As abx__receipt_read, but what is read goes to *text. */
static int find_receipt(int dir, const char *id, const char *path, const char *file, char **target,
                        int *holder, abx_buf *text, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    *holder = open_holder(dir, id, target);
    if (*holder < 0 && errno == ENOENT && abx__store_put_back(dir, id))
        *holder = open_holder(dir, id, target);
    if (*holder < 0 && errno == ENOENT)
        return 1;
    if (*holder < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_INTEGRITY, errno, "cannot use '%s'", path);
    int rc = abx_read_file_at(*holder, ABX_STORE_RECEIPT, RECEIPT_MAX, text, &why);
    if (rc == 1)
        return no_receipt(id, path, err);
    return rc < 0 ? broken(id, file, "cannot be read", err) : 0;
}

int abx__receipt_read(const char *home, int dir, const char *id, abx_store_entry *out,
                      int *folder_fd, abx_error **err)
{
    ABX_AUTO_FREE char *target = NULL;
    ABX_AUTO_FREE char *path = abx_format("%s/providers/%s", home, id);
    ABX_AUTO_FREE char *file = abx_format("%s/%s", path, ABX_STORE_RECEIPT);
    ABX_AUTO_BUF text = ABX_BUF(0);
    ABX_AUTO_ERROR why = NULL;
    ABX_AUTO_FD holder = -1;
    ABX_AUTO_FD receipt = folder_fd ? -1 : open_receipt(dir, id);
    *out = (abx_store_entry){0};
    if (receipt < 0 || abx_read_open_file(receipt, file, RECEIPT_MAX, &text, &why) < 0) {
        int rc = find_receipt(dir, id, path, file, &target, &holder, &text, err);
        if (rc != 0)
            return rc;
    }
    if (abx__receipt_parse(id, file, text.data, text.len, out, err) < 0)
        return -1;
    if (check_link(out, target, id, file, err) < 0) {
        abx_store_entry_clear(out);
        return -1;
    }
    out->folder = target ? ABX_TAKE(target) : ABX_TAKE(path);
    if (folder_fd)
        *folder_fd = abx_take_fd(&holder);
    return 0;
}
