#include "local/template/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/folder.h"
#include "local/state.h"
#include "local/template/layer_unpack.h"
#include "local/template/tree_copy.h"
#include "local/template/work.h"

#define FILE_NAME "snapshot.json"
#define NAMES     "names"

typedef struct making {
    abx_store *store;
    const abx_template_progress *progress;
    abx_state state;
    yyjson_val *origin; /* of the sandbox; or NULL */
    size_t depth;       /* snapshots that lie under it */
    bool merge;
    char *lower; /* what lies under the new layer */
    uint64_t bytes;
    char kind;
} making;

static int on_bytes(void *data, uint64_t bytes, abx_error **err)
{
    const making *m = (const making *)data;
    const abx_template_progress *p = m->progress;
    return p && p->tell ? p->tell(p->data, 0, 1, m->bytes + bytes, err) : 0;
}

static int copy_tree(making *m, int from, int to, int64_t shift, abx_error **err)
{
    abx_tree_copy c = {
        .from = from,
        .to = to,
        .owners = m->state.ids == ABX_IDS_SINGLE ? ABX_OWNERS_NONE : ABX_OWNERS_SHIFT,
        .shift = shift,
        .onto = m->merge,
        .free_bytes = ABX_FREE_DISK_BYTES,
        .most_entries = 4 * ABX_UNPACK_ENTRIES,
        .progress = on_bytes,
        .data = m,
    };
    int rc = abx_tree_copy_run(&c, err);
    m->bytes += c.bytes;
    return rc;
}

/* The snapshots under the sandbox, lowest first, become a part of the new one. */
static int merge_lower(making *m, int to, abx_error **err)
{
    for (size_t i = m->depth; i > 0; i--) {
        const char *at = m->lower;
        for (size_t k = 1; k < i; k++)
            at += strcspn(at, ":") + 1;
        ABX_AUTO_FREE char *name = abx_strndup(at, strcspn(at, ":"));
        ABX_AUTO_FD from =
            openat(m->store->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (from < 0 || fchmod(to, 0700) < 0)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open layer '%s'", name);
        if (copy_tree(m, from, to, 0, err) < 0)
            return -1;
    }
    return fchmod(to, 0700) < 0 ? abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot write")
                                : 0;
}

static int copy_upper(making *m, int folder, int to, abx_error **err)
{
    int64_t shift =
        m->state.ids == ABX_IDS_SLOT ? (int64_t)ABX_INSIDE_UID - (int64_t)m->state.uid : 0;
    ABX_AUTO_FD place =
        m->state.upper ? open(m->state.upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : dup(folder);
    ABX_AUTO_FD up =
        place < 0 ? -1 : openat(place, "up", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (up < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno,
                              "cannot open the files of the sandbox");
    if (m->merge && merge_lower(m, to, err) < 0)
        return -1;
    return copy_tree(m, up, to, shift, err);
}

static int make_layer(making *m, int folder, char digest[65], abx_error **err)
{
    unsigned char random[32];
    abx_new_layer n;
    yyjson_mut_val *about;
    ABX_AUTO_MUT d = abx_mut_new(&about);
    abx_random_bytes(random, sizeof(random));
    abx_hex(random, sizeof(random), digest);
    if (abx_new_layer_begin(m->store, &n, err) < 0)
        return -1;
    int rc = copy_upper(m, folder, n.fd, err);
    abx_mut_str(d, about, "digest", digest);
    abx_mut_int(d, about, "bytes", (int64_t)m->bytes);
    if (rc == 0)
        rc = abx_new_layer_commit(&n, digest, m->kind, about, NULL, err);
    abx_new_layer_clear(&n);
    return rc;
}

/* --- the record -------------------------------------------------------------------------------------- */

static char *new_lower(const making *m, const char *digest)
{
    char name[ABX_LAYER_NAME + 1];
    const char *rest = m->lower;
    abx_store_layer_name(digest, m->kind, name);
    for (size_t i = 0; m->merge && i < m->depth; i++)
        rest += strcspn(rest, ":") + (rest[strcspn(rest, ":")] == ':');
    return abx_format("%s%s%s", name, *rest ? ":" : "", rest);
}

static int write_record(making *m, const char *name, const char *digest, const char *id,
                        abx_error **err)
{
    char kind[2] = {m->kind, 0};
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_FREE char *lower = new_lower(m, digest);
    abx_mut_str(d, root, "id", id);
    abx_mut_str(d, root, "name", name);
    abx_mut_int(d, root, "createdMs", abx_now_wall_ms());
    abx_mut_str(d, root, "sandbox", m->state.id);
    abx_mut_str(d, root, "template", m->origin ? abx_json_str(m->origin, "name", "host") : "host");
    abx_mut_str(d, root, "templateId", abx_json_str(m->origin, "templateId", NULL));
    abx_mut_str(d, root, "kind", kind);
    abx_mut_str(d, root, "lower", lower);
    abx_mut_int(d, root, "depth", m->merge ? 1 : (int64_t)m->depth + 1);
    abx_mut_bool(d, root, "host", m->origin ? abx_json_bool(m->origin, "host", false) : true);
    abx_mut_bool(d, root, "flat", m->state.copied_root);
    abx_mut_int(d, root, "size", (int64_t)m->bytes);
    if (abx_json_get(m->origin, "config"))
        abx_mut_val(d, root, "config", abx_json_get(m->origin, "config"));
    return abx_store_record(m->store, m->store->snapshots, id, FILE_NAME, root, err);
}

/* Names are links beside the records. */
static int give_name(abx_store *s, const char *name, const char *id, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_format(NAMES "/%s", name);
    if (mkdirat(s->snapshots, NAMES, 0700) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot keep the name '%s'", name);
    for (int round = 0; round < 4; round++) {
        if (symlinkat(id, s->snapshots, path) == 0)
            return 0;
        if (errno != EEXIST)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot keep the name '%s'",
                                  name);
        ABX_AUTO_JSON holder = abx_snapshot_read(s, name, NULL);
        if (holder) {
            abx_fail(err, ABX_ERR_CONFLICT, "a snapshot named '%s' is there already", name);
            return abx_hint(err, "'abx snapshot rm %s' removes it; or choose another name", name);
        }
        (void)unlinkat(s->snapshots, path, 0); /* it leads nowhere */
    }
    return abx_fail(err, ABX_ERR_CONFLICT, "the name '%s' is being changed by others", name);
}

static int remove_record(abx_store *s, const char *id, const char *name, abx_error **err)
{
    ABX_AUTO_FREE char *gone = abx_format(".gone-%s", id);
    if (name) {
        ABX_AUTO_FREE char *path = abx_format(NAMES "/%s", name);
        (void)unlinkat(s->snapshots, path, 0);
    }
    (void)abx_remove_tree_at(s->snapshots, gone, NULL);
    if (renameat(s->snapshots, id, s->snapshots, gone) < 0 && errno != ENOENT)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot remove snapshot '%s'", id);
    return abx_remove_tree_at(s->snapshots, gone, err);
}

/* --- making ------------------------------------------------------------------------------------------ */

static int make(making *m, int folder, const char *name, const char *id, abx_error **err)
{
    char digest[65];
    m->origin = m->state.origin ? yyjson_doc_get_root(m->state.origin) : NULL;
    m->lower = abx_strdup(abx_json_str(m->origin, "lower", ""));
    m->kind = abx_store_kind((abx_ids)m->state.ids);
    m->depth = (size_t)abx_json_int(m->origin, "depth", 0);
    if (m->state.copied_root) { /* its files are the whole root */
        m->depth = 0;
        *m->lower = 0;
    }
    m->merge = m->depth >= ABX_SNAPSHOT_DEPTH;
    if (make_layer(m, folder, digest, err) < 0)
        return -1;
    abx_work_finishing();
    if (write_record(m, name, digest, id, err) < 0)
        return -1;
    if (!name || give_name(m->store, name, id, err) == 0)
        return 0;
    (void)remove_record(m->store, id, NULL, NULL);
    return -1;
}

int abx_snapshot_make(abx_store *s, const char *sandbox, const char *name,
                      const abx_template_progress *progress, char id[ABX_STORE_ID + 1],
                      abx_error **err)
{
    unsigned char random[ABX_STORE_ID / 2];
    making m = {.store = s, .progress = progress};
    if (name && !abx_is_template_name(name)) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no name for a snapshot", name);
        return abx_hint(err,
                        "use up to 63 of a-z, 0-9, '-', '.' and '_', beginning with a letter or a "
                        "digit");
    }
    ABX_AUTO_FD use = abx_store_take(s, ABX_LOCK_USE, false, true, err);
    ABX_AUTO_FD layers = use < 0 ? -1 : abx_store_take(s, ABX_LOCK_LAYERS, false, true, err);
    ABX_AUTO_FD folder = layers < 0 ? -1 : abx_folder_open(s->local, sandbox);
    if (layers < 0)
        return -1;
    if (folder < 0 || !abx_folder_alive(folder) || abx_state_read(folder, &m.state, NULL) != 0)
        return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "sandbox '%s' does not live", sandbox);
    abx_random_bytes(random, sizeof(random));
    abx_hex(random, sizeof(random), id);
    int rc;
    if (m.state.limits.disk == ABX_HOLD_TMPFS) { /* nobody outside sees that memory */
        rc = abx_fail(err, ABX_ERR_FEATURE_MISSING, "the files of sandbox '%s' lie in memory",
                      sandbox);
        abx_hint(err, "make the sandbox without the option disk=memory to take snapshots of it");
    } else {
        rc = make(&m, folder, name, id, err);
    }
    abx_state_clear(&m.state);
    free(m.lower);
    return rc;
}

/* --- looking ----------------------------------------------------------------------------------------- */

static bool is_id(const char *s)
{
    return strlen(s) == ABX_STORE_ID && strspn(s, "0123456789abcdef") == ABX_STORE_ID;
}

yyjson_doc *abx_snapshot_read(abx_store *s, const char *word, abx_error **err)
{
    char target[ABX_STORE_ID + 2] = "";
    yyjson_doc *doc = NULL;
    abx_error *why = NULL;
    if (s->snapshots >= 0 && abx_is_template_name(word)) {
        ABX_AUTO_FREE char *path = abx_format(NAMES "/%s", word);
        ssize_t n = readlinkat(s->snapshots, path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (is_id(target))
            doc = abx_store_read(s->snapshots, target, FILE_NAME, &why);
        if (!doc && !why && is_id(word))
            doc = abx_store_read(s->snapshots, word, FILE_NAME, &why);
    }
    if (why) {
        abx_error_take(err, why);
    } else if (!doc) {
        ABX_AUTO_FREE char *safe = abx_printable(word);
        abx_fail(err, ABX_ERR_SNAPSHOT_NOT_FOUND, "there is no snapshot '%.80s'", safe);
    }
    return doc;
}

yyjson_mut_val *abx_snapshot_object(yyjson_mut_doc *d, yyjson_val *r)
{
    static const char *const texts[] = {"id", "name", "sandbox", "template"};
    char when[ABX_RFC3339_SIZE];
    yyjson_mut_val *o = yyjson_mut_obj(d);
    for (size_t i = 0; i < ABX_COUNT(texts); i++)
        abx_mut_str(d, o, texts[i], abx_json_str(r, texts[i], NULL));
    abx_format_rfc3339(abx_json_int(r, "createdMs", 0), when);
    abx_mut_str(d, o, "createdAt", when);
    abx_mut_int(d, o, "size", abx_json_int(r, "size", 0));
    return o;
}

int abx_snapshot_remove(abx_store *s, const char *word, abx_error **err)
{
    ABX_AUTO_FD lock = abx_store_take(s, ABX_LOCK_USE, true, true, err);
    ABX_AUTO_JSON record = lock < 0 ? NULL : abx_snapshot_read(s, word, err);
    if (!record)
        return -1;
    yyjson_val *r = yyjson_doc_get_root(record);
    if (remove_record(s, abx_json_str(r, "id", ""), abx_json_str(r, "name", NULL), err) < 0)
        return -1;
    abx_close_fd(&lock);
    (void)abx_store_sweep(s, false);
    return 0;
}
