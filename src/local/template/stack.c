#include "local/template/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/template/base_layer.h"
#include "local/template/snapshot.h"
#include "local/template/tree_copy.h"

void abx_stack_free(abx_stack *stack)
{
    if (!stack)
        return;
    yyjson_doc_free(stack->origin);
    free(stack);
}

/* Take the document as the origin and read the rest from it. */
static abx_stack *stack_of(yyjson_mut_doc *d)
{
    abx_stack *stack = ABX_NEW(abx_stack);
    stack->origin = abx_json_freeze(d);
    yyjson_val *o = yyjson_doc_get_root(stack->origin);
    stack->lower = abx_json_str(o, "lower", "");
    stack->config = abx_json_get(o, "config");
    stack->on_host = abx_json_bool(o, "host", false);
    stack->flat = abx_json_bool(o, "flat", false);
    return stack;
}

/* --- templates --------------------------------------------------------------------------------------- */

static int add_layer(abx_store *s, const char *digest, char kind, abx_buf *lower, bool *missing,
                     bool *range_only, abx_error **err)
{
    char name[ABX_LAYER_NAME + 1], found = 0;
    struct stat st;
    abx_store_layer_name(digest, kind, name);
    if (fstatat(s->layers, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        *missing = true;
        if (abx_store_has_layer(s, digest, 0, &found, err) < 0)
            return -1;
        *range_only = *range_only || found == 'r';
    }
    return abx_buf_addf(lower, "%s%s", lower->len ? ":" : "", name);
}

static abx_stack *of_template(abx_store *s, const char *word, abx_ids ids, abx_error **err)
{
    char id[ABX_STORE_ID + 1], kind = abx_store_kind(ids);
    bool missing = false, range_only = false;
    abx_sha256 base;
    yyjson_mut_val *root;
    ABX_AUTO_BUF lower = ABX_BUF(8192);
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_JSON record = abx_store_find(s, word, id) == 1
                               ? abx_store_read(s->templates, id, "template.json", err)
                               : NULL;
    if (!record) {
        ABX_AUTO_FREE char *safe = abx_printable(word);
        abx_fail(err, ABX_ERR_TEMPLATE_NOT_FOUND, "there is no template '%.80s'", safe);
        abx_hint(err, "'abx template ls' lists them; 'abx template add NAME SOURCE' adds one");
        return NULL;
    }
    yyjson_val *r = yyjson_doc_get_root(record), *layers = abx_json_get(r, "layers");
    abx_base_digest(abx_json_str(r, "digest", ""), base);
    int rc = add_layer(s, base, kind, &lower, &missing, &range_only, err);
    for (size_t i = yyjson_arr_size(layers); rc == 0 && i > 0; i--) {
        const char *digest = yyjson_get_str(yyjson_arr_get(layers, i - 1));
        rc = digest && strlen(digest) == ABX_SHA256_HEX
                 ? add_layer(s, digest, kind, &lower, &missing, &range_only, err)
                 : -1;
    }
    if (rc < 0) {
        abx_fail(err, ABX_ERR_LOCAL_STATE, "the record of template '%s' is broken", id);
        return NULL;
    }
    abx_mut_str(d, root, "name", word);
    abx_mut_str(d, root, "templateId", id);
    abx_mut_str(d, root, "lower", abx_buf_cstr(&lower));
    if (abx_json_get(r, "config"))
        abx_mut_val(d, root, "config", abx_json_get(r, "config"));
    abx_stack *stack = stack_of(d);
    stack->missing = missing;
    stack->range_only = range_only;
    return stack;
}

/* --- snapshots --------------------------------------------------------------------------------------- */

static abx_stack *of_snapshot(abx_store *s, const char *word, abx_ids ids, abx_error **err)
{
    static const char *const members[] = {"templateId", "lower", "host", "flat", "config"};
    char kind[2] = {abx_store_kind(ids), 0};
    ABX_AUTO_JSON record = abx_snapshot_read(s, word, err);
    if (!record)
        return NULL;
    yyjson_val *r = yyjson_doc_get_root(record);
    if (!abx_str_eq(abx_json_str(r, "kind", ""), kind)) {
        abx_fail(err, ABX_ERR_CONFLICT, "snapshot '%s' was made with other user ids", word);
        abx_hint(err,
                 "use it with the option 'ids' that its sandbox had (-O ids=single, -O ids=range)");
        return NULL;
    }
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "name", abx_json_str(r, "template", NULL));
    abx_mut_str(d, root, "snapshot", abx_json_str(r, "id", NULL));
    for (size_t i = 0; i < ABX_COUNT(members); i++)
        if (abx_json_get(r, members[i]))
            abx_mut_val(d, root, members[i], abx_json_get(r, members[i]));
    return stack_of(d);
}

abx_stack *abx_stack_find(abx_store *s, const char *template_word, const char *snapshot,
                          abx_ids ids, abx_error **err)
{
    return snapshot ? of_snapshot(s, snapshot, ids, err) : of_template(s, template_word, ids, err);
}

/* --- use --------------------------------------------------------------------------------------------- */

char *abx_stack_lower(const abx_stack *stack, const char *at)
{
    ABX_AUTO_BUF out = ABX_BUF((size_t)64 << 10);
    for (const char *p = stack->lower; *p; p += strcspn(p, ":"), p += *p == ':')
        ABX_CHECK(
            abx_buf_addf(&out, "%s%s/%.*s", out.len ? ":" : "", at, (int)strcspn(p, ":"), p) == 0);
    return out.len ? abx_buf_take(&out) : abx_strdup("");
}

static int copy_one(abx_store *s, const char *name, int up, uid_t shift, abx_error **err)
{
    ABX_AUTO_FD from = openat(s->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open layer '%s'", name);
    abx_tree_copy c = {
        .from = from,
        .to = up,
        .owners = shift ? ABX_OWNERS_SHIFT : ABX_OWNERS_NONE,
        .shift = shift,
        .onto = true,
        .last = true,
        .free_bytes = ABX_FREE_DISK_BYTES,
    };
    return abx_tree_copy_run(&c, err);
}

int abx_stack_copy(abx_store *s, const abx_stack *stack, int to, uid_t shift, abx_error **err)
{
    char *names[ABX_STACK_MAX];
    size_t n = 0;
    ABX_AUTO_FREE char *list = abx_strdup(stack->lower);
    for (char *rest = list, *name; (name = strsep(&rest, ":")) && n < ABX_STACK_MAX;)
        names[n++] = name;
    (void)unlinkat(to, "up", AT_REMOVEDIR); /* an empty one, of a prepared folder */
    if (mkdirat(to, "up", 0755) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot make folder 'up'");
    ABX_AUTO_FD up = openat(to, "up", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    for (size_t i = n; i > 0; i--) {
        if (up < 0 || fchmod(up, 0700) < 0)
            return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot open folder 'up'");
        if (copy_one(s, names[i - 1], up, shift, err) < 0)
            return -1;
    }
    return 0;
}
