/* From what a user typed to an entry: a whole id or key, a name, or the beginning of an id. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/ledger_inner.h"

#define PREFIX_MIN 4
#define SHOWN_MAX  8 /* candidates that an error lists */

static int fail_not_found(const abx_ledger *l, const char *word, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_printable(word);
    abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "no sandbox '%s' in the ledger '%s'", shown, l->path);
    if (strlen(word) < PREFIX_MIN)
        return abx_hint(err,
                        "'abx ls' lists the sandboxes; the beginning of an id needs %d characters",
                        PREFIX_MIN);
    return -1;
}

/* The entry that a link leads to, if it still has that word. 0, 1 (no), -1. */
static int follow(const abx_ledger *l, int dir, abx_claim claim, const char *word,
                  abx_ledger_entry *out, abx_error **err)
{
    ABX_AUTO_FREE char *key = abx__ledger_claimed(dir, claim, word);
    int rc = key ? abx__ledger_load(l, dir, key, out, err) : 1;
    if (rc == 0 && !abx_str_eq(claim == ABX_CLAIM_ID ? out->id : out->name, word)) {
        abx_ledger_entry_clear(out);
        return 1;
    }
    return rc;
}

/* --- the beginning of an id ------------------------------------------------------------------------------ */

typedef struct candidates {
    const char *prefix;
    char **ids, **keys; /* what was found, and the entry's key (NULL: the id is the key) */
    size_t count;
} candidates;

static void add(candidates *c, const char *id, const char *key)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->ids[i], id) == 0)
            return;
    c->ids = abx_realloc(c->ids, (c->count + 1) * sizeof *c->ids);
    c->keys = abx_realloc(c->keys, (c->count + 1) * sizeof *c->keys);
    c->ids[c->count] = abx_strdup(id);
    c->keys[c->count++] = abx_strdup(key ? key : id);
}

static void candidates_clear(candidates *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->ids[i]);
        free(c->keys[i]);
    }
    free(c->ids);
    free(c->keys);
}

/* A file KEY.json: a candidate if its id is the key (it is, unless the provider chose another). */
static void add_file(const abx_ledger *l, int dir, candidates *c, const char *file)
{
    if (!abx_has_suffix(file, ".json") || !abx_has_prefix(file, c->prefix))
        return;
    ABX_AUTO_FREE char *key = abx_strndup(file, strlen(file) - strlen(".json"));
    abx_ledger_entry e;
    if (!abx__ledger_key_ok(key) || !abx_has_prefix(key, c->prefix))
        return;
    int rc = abx__ledger_load(l, dir, key, &e, NULL);
    if (rc < 0 || (rc == 0 && abx_str_eq(e.id, key)))
        add(c, key, NULL);
    abx_ledger_entry_clear(&e);
}

/* A link ids/ID. */
static void add_link(const abx_ledger *l, int dir, candidates *c, const char *name)
{
    ABX_AUTO_FREE char *id = abx__ledger_unlink_name(name);
    if (!id || !abx_has_prefix(id, c->prefix))
        return;
    abx_ledger_entry e = {0};
    if (follow(l, dir, ABX_CLAIM_ID, id, &e, NULL) == 0)
        add(c, id, e.key);
    abx_ledger_entry_clear(&e);
}

static void scan(const abx_ledger *l, int dir, const char *folder, candidates *c,
                 void (*each)(const abx_ledger *, int, candidates *, const char *))
{
    int fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        abx_close_fd(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        if (entry->d_name[0] != '.')
            each(l, dir, c, entry->d_name);
    closedir(d);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int fail_ambiguous(candidates *c, abx_error **err)
{
    ABX_AUTO_FREE char *list = abx_strdup("");
    qsort(c->ids, c->count, sizeof *c->ids, by_text);
    for (size_t i = 0; i < c->count && i < SHOWN_MAX; i++) {
        char *longer = abx_format("%s%s%s", list, i ? ", " : "", c->ids[i]);
        free(list);
        list = longer;
    }
    ABX_AUTO_FREE char *shown = abx_printable(c->prefix);
    abx_fail(err, ABX_ERR_CONFLICT, "'%s' is the beginning of %zu ids: %s%s", shown, c->count, list,
             c->count > SHOWN_MAX ? ", …" : "");
    return abx_hint(err, "type more of the id");
}

static int find_prefix(const abx_ledger *l, int dir, const char *word, abx_ledger_entry *out,
                       abx_error **err)
{
    candidates c = {.prefix = word};
    scan(l, dir, ".", &c, add_file);
    scan(l, dir, "ids", &c, add_link);
    int rc = 1;
    if (c.count > 1)
        rc = fail_ambiguous(&c, err);
    else if (c.count == 1)
        rc = abx__ledger_load(l, dir, c.keys[0], out, err);
    candidates_clear(&c);
    return rc;
}

int abx_ledger_find(abx_ledger *l, const char *word, abx_ledger_entry *out, abx_error **err)
{
    memset(out, 0, sizeof *out);
    ABX_AUTO_FD dir = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno != ENOENT)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open the ledger '%s'", l->path);
    int rc = 1;
    if (dir >= 0 && abx__ledger_key_ok(word))
        rc = abx__ledger_load(l, dir, word, out, err);
    if (dir >= 0 && rc == 1 && *word)
        rc = follow(l, dir, ABX_CLAIM_ID, word, out, err);
    if (dir >= 0 && rc == 1 && *word)
        rc = follow(l, dir, ABX_CLAIM_NAME, word, out, err);
    if (dir >= 0 && rc == 1 && strlen(word) >= PREFIX_MIN)
        rc = find_prefix(l, dir, word, out, err);
    return rc == 1 ? fail_not_found(l, word, err) : rc;
}
