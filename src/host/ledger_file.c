/* One entry of the ledger as a JSON file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/ledger_inner.h"

#define ENTRY_MAX ((size_t)64 * 1024)

bool abx__ledger_key_ok(const char *key)
{
    size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n <= 128 && key[n] == 0;
}

/* --- reading ---------------------------------------------------------------------------------------- */

static char *text_of(yyjson_val *root, const char *member)
{
    return abx_strdup(abx_json_str(root, member, NULL));
}

/* NULL, or what is wrong with the object. */
static const char *fill(yyjson_val *root, const char *key, abx_ledger_entry *e)
{
    static const char *const texts[] = {"id", "name", "profile", "url", "idempotencyKey"};
    if (!yyjson_is_obj(root))
        return "it is no object";
    if (!abx_str_eq(abx_json_str(root, "key", NULL), key))
        return "'key' is not the name of the file";
    if (!abx_json_str(root, "provider", NULL))
        return "'provider' is missing";
    if (!yyjson_is_bool(yyjson_obj_get(root, "complete")))
        return "'complete' is missing";
    for (size_t i = 0; i < ABX_COUNT(texts); i++) {
        yyjson_val *v = abx_json_get(root, texts[i]);
        if (v && !yyjson_is_str(v))
            return "a member is no text";
    }
    e->key = abx_strdup(key);
    e->id = text_of(root, "id");
    e->name = text_of(root, "name");
    e->provider = text_of(root, "provider");
    e->profile = text_of(root, "profile");
    e->url = text_of(root, "url");
    e->idempotency_key = text_of(root, "idempotencyKey");
    e->complete = abx_json_bool(root, "complete", false);
    e->created_wall_ms = abx_json_int(root, "createdMs", 0);
    e->creator_pid = (int)abx_json_int(root, "creatorPid", 0);
    e->creator_start = (uint64_t)abx_json_int(root, "creatorStart", 0);
    return NULL;
}

static int fail_corrupt(const char *path, const char *why, abx_error **err)
{
    abx_fail(err, ABX_ERR_LOCAL_STATE, "the ledger file '%s' is corrupt: %s", path, why);
    return abx_hint(err, "if its sandbox is gone: rm '%s'", path);
}

int abx__ledger_load(const abx_ledger *l, int dir, const char *key, abx_ledger_entry *out,
                     abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(0);
    ABX_AUTO_FREE char *name = abx_format("%s.json", key);
    ABX_AUTO_FREE char *path = abx_path_join(l->path, name);
    ABX_AUTO_ERROR why = NULL;
    memset(out, 0, sizeof *out);
    int rc = abx_read_file_at(dir, name, ENTRY_MAX, &text, &why);
    if (rc == 1)
        return 1;
    if (rc < 0) {
        abx_fail(err, ABX_ERR_LOCAL_STATE, "%s", abx_error_text(why));
        return abx_wrap(err, "the ledger file '%s' cannot be used", path);
    }
    ABX_AUTO_JSON doc =
        abx_json_parse(abx_buf_cstr(&text), text.len, ABX_ERR_LOCAL_STATE, "it", &why);
    if (!doc)
        return fail_corrupt(path, abx_error_text(why), err);
    const char *wrong = fill(yyjson_doc_get_root(doc), key, out);
    return wrong ? fail_corrupt(path, wrong, err) : 0;
}

/* --- writing ---------------------------------------------------------------------------------------- */

static char *json_of(const abx_ledger_entry *e)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "key", e->key);
    abx_mut_str(d, root, "id", e->id);
    abx_mut_str(d, root, "name", e->name);
    abx_mut_str(d, root, "provider", e->provider);
    abx_mut_str(d, root, "profile", e->profile);
    abx_mut_str(d, root, "url", e->url);
    abx_mut_str(d, root, "idempotencyKey", e->idempotency_key);
    abx_mut_bool(d, root, "complete", e->complete);
    abx_mut_int(d, root, "createdMs", e->created_wall_ms);
    abx_mut_int(d, root, "creatorPid", e->creator_pid);
    abx_mut_int(d, root, "creatorStart", (int64_t)e->creator_start);
    ABX_AUTO_BUF text = ABX_BUF(ENTRY_MAX);
    if (abx_json_write_mut(root, &text) < 0 || abx_buf_add_byte(&text, '\n') < 0)
        return NULL;
    return abx_buf_take(&text);
}

/* A sandbox of this machine ends with it: only the others' entries must outlive a loss of power. */
static bool outlives_machine(const abx_ledger_entry *e)
{
    return !abx_str_eq(e->provider, "local");
}

static int fail_write(const abx_ledger *l, int why, abx_error **err)
{
    return abx_fail_errno(err, ABX_ERR_HOME, why, "cannot write the ledger '%s'", l->path);
}

static int write_temporary(int dir, const char *tmp, const char *text, bool durable)
{
    int fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int rc = abx_write_full(fd, text, strlen(text));
    if (rc == 0 && durable)
        rc = fsync(fd);
    int why = errno;
    if (close(fd) < 0 && rc == 0)
        return -1;
    errno = why;
    return rc;
}

/* fresh: fails with EEXIST where the name is taken. */
static int put_in_place(int dir, const char *tmp, const char *name, bool fresh)
{
    if (!fresh)
        return renameat(dir, tmp, dir, name);
    if (renameat2(dir, tmp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (linkat(dir, tmp, dir, name, 0) < 0) /* a file system without that flag */
        return -1;
    unlinkat(dir, tmp, 0);
    return 0;
}

int abx__ledger_save(const abx_ledger *l, int dir, const abx_ledger_entry *e, bool fresh,
                     abx_error **err)
{
    char random[9];
    abx_random_id(random, 8);
    ABX_AUTO_FREE char *tmp = abx_format(".%s.tmp", random);
    ABX_AUTO_FREE char *name = abx_format("%s.json", e->key);
    ABX_AUTO_FREE char *text = json_of(e);
    if (!text)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the entry of '%s' is too long", e->key);
    bool durable = outlives_machine(e);
    int rc = write_temporary(dir, tmp, text, durable);
    if (rc == 0)
        rc = put_in_place(dir, tmp, name, fresh);
    int why = errno;
    if (rc < 0)
        unlinkat(dir, tmp, 0);
    if (rc < 0)
        return fresh && why == EEXIST ? 1 : fail_write(l, why, err);
    if (durable)
        (void)fsync(dir);
    return 0;
}
