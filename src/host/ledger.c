#include "host/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/ledger_inner.h"

#define STALE_S 3600 /* a temporary file of this age has no writer any more */

int abx_ledger_open(const char *home, abx_ledger **out, abx_error **err)
{
    abx_ledger *l = ABX_NEW(abx_ledger);
    l->path = abx_path_join(home, "ledger");
    *out = l;
    return 0;
}

void abx_ledger_free(abx_ledger *l)
{
    if (!l)
        return;
    free(l->path);
    free(l);
}

void abx_ledger_entry_clear(abx_ledger_entry *e)
{
    free(e->id);
    free(e->key);
    free(e->name);
    free(e->provider);
    free(e->profile);
    free(e->url);
    free(e->idempotency_key);
    memset(e, 0, sizeof *e);
}

void abx_ledger_entries_free(abx_ledger_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        abx_ledger_entry_clear(&entries[i]);
    free(entries);
}

static int open_folder(const abx_ledger *l)
{
    return open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The same for those that need the folder: -1 and *err. */
static int need_folder(const abx_ledger *l, bool make, abx_error **err)
{
    int fd = open_folder(l);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdir(l->path, 0700) < 0 && errno != EEXIST)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot make the ledger '%s'", l->path);
        fd = open_folder(l);
    }
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open the ledger '%s'", l->path);
    return fd;
}

/* --- begin, complete, remove --------------------------------------------------------------------------- */

static const char *word_of(const abx_ledger_entry *e, abx_claim claim)
{
    return claim == ABX_CLAIM_NAME ? e->name : claim == ABX_CLAIM_KEY ? e->idempotency_key : e->id;
}

/* The key of the living entry that has this name (or idempotency key, or id); owned; NULL: nobody. A corrupt
 * entry counts: it may be one that has it. */
static char *holder_of(const abx_ledger *l, int dir, abx_claim claim, const char *word)
{
    ABX_AUTO_FREE char *key = abx__ledger_claimed(dir, claim, word);
    abx_ledger_entry e;
    if (!key)
        return NULL;
    int rc = abx__ledger_load(l, dir, key, &e, NULL);
    bool holds = rc < 0 || (rc == 0 && abx_str_eq(word_of(&e, claim), word));
    abx_ledger_entry_clear(&e);
    return holds ? ABX_TAKE(key) : NULL;
}

static int check_free(const abx_ledger *l, int dir, abx_claim claim, const char *word,
                      const char *what, char **holder, abx_error **err)
{
    if (!word)
        return 0;
    ABX_AUTO_FREE char *key = holder_of(l, dir, claim, word);
    if (!key)
        return 0;
    ABX_AUTO_FREE char *shown = abx_printable(word);
    abx_fail(err, ABX_ERR_CONFLICT, "the %s '%s' is taken by sandbox '%s'", what, shown, key);
    if (holder)
        *holder = ABX_TAKE(key);
    return abx_hint(err, "choose another %s, or end that sandbox: abx kill '%s'", what, shown);
}

static int write_new(const abx_ledger *l, int dir, const abx_ledger_entry *e, char **holder,
                     abx_error **err)
{
    int rc = abx__ledger_save(l, dir, e, true, err);
    if (rc == 1) {
        if (holder)
            *holder = abx_strdup(e->key);
        rc = abx_fail(err, ABX_ERR_CONFLICT, "the ledger has an entry '%s' already", e->key);
    }
    return rc;
}

int abx_ledger_begin(abx_ledger *l, const abx_ledger_entry *entry, char **holder, abx_error **err)
{
    abx_ledger_entry e = *entry; /* borrows its strings */
    e.complete = false;
    if (holder)
        *holder = NULL;
    if (!e.key || !abx__ledger_key_ok(e.key) || !e.provider)
        return abx_fail(err, ABX_ERR_INTERNAL, "a ledger entry without a usable key");
    ABX_AUTO_FD dir = need_folder(l, true, err);
    if (dir < 0)
        return -1;
    if (!e.name && !e.idempotency_key)
        return write_new(l, dir, &e, holder, err);
    ABX_AUTO_FD lock = abx__ledger_lock(l, dir, err);
    if (lock < 0 ||
        check_free(l, dir, ABX_CLAIM_KEY, e.idempotency_key, "idempotency key", holder, err) < 0 ||
        check_free(l, dir, ABX_CLAIM_NAME, e.name, "name", holder, err) < 0)
        return -1;
    int rc = 0;
    if (e.name)
        rc = abx__ledger_claim(l, dir, ABX_CLAIM_NAME, e.name, e.key, err);
    if (rc == 0 && e.idempotency_key)
        rc = abx__ledger_claim(l, dir, ABX_CLAIM_KEY, e.idempotency_key, e.key, err);
    return rc == 0 ? write_new(l, dir, &e, holder, err)
                   : rc; /* a link without its entry is stale */
}

int abx_ledger_complete(abx_ledger *l, const char *key, const char *id, const char *url,
                        abx_error **err)
{
    abx_ledger_entry e;
    if (!abx__ledger_key_ok(key))
        return abx_fail(err, ABX_ERR_INTERNAL, "'%s' is no key of the ledger", key);
    ABX_AUTO_FD dir = need_folder(l, false, err);
    ABX_AUTO_FD lock = dir < 0 ? -1 : abx__ledger_lock(l, dir, err);
    if (lock < 0)
        return -1;
    int rc = abx__ledger_load(l, dir, key, &e, err);
    if (rc == 1)
        return abx_fail(err, ABX_ERR_SANDBOX_NOT_FOUND, "the ledger has no entry '%s' any more",
                        key);
    if (rc < 0)
        return -1;
    if (id) {
        free(e.id);
        e.id = abx_strdup(id);
    }
    if (url) {
        free(e.url);
        e.url = abx_strdup(url);
    }
    e.complete = true;
    rc = 0;
    if (e.id && strcmp(e.id, key) != 0) {
        ABX_AUTO_FREE char *other = holder_of(l, dir, ABX_CLAIM_ID, e.id);
        if (!other || strcmp(other, key) ==
                          0) /* two providers may give one id: the first keeps the short way */
            rc = abx__ledger_claim(l, dir, ABX_CLAIM_ID, e.id, key, err);
    }
    if (rc == 0)
        rc = abx__ledger_save(l, dir, &e, false, err);
    abx_ledger_entry_clear(&e);
    return rc;
}

int abx_ledger_give_up(abx_ledger *l, const char *key, abx_error **err)
{
    abx_ledger_entry e;
    ABX_AUTO_FD dir = open_folder(l);
    if (dir < 0 || !abx__ledger_key_ok(key))
        return 0;
    ABX_AUTO_FD lock = abx__ledger_lock(l, dir, err);
    if (lock < 0)
        return -1;
    int rc = abx__ledger_load(l, dir, key, &e, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    e.creator_pid = 0;
    e.creator_start = 0;
    rc = abx__ledger_save(l, dir, &e, false, err);
    abx_ledger_entry_clear(&e);
    return rc;
}

int abx_ledger_remove(abx_ledger *l, const char *key, abx_error **err)
{
    abx_ledger_entry e;
    ABX_AUTO_FD dir = open_folder(l);
    if (dir < 0 || !abx__ledger_key_ok(key))
        return 0;
    ABX_AUTO_FREE char *name = abx_format("%s.json", key);
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    ABX_AUTO_FD lock = abx__ledger_lock(l, dir, err);
    if (lock < 0)
        return -1;
    (void)abx__ledger_load(l, dir, key, &e, NULL); /* corrupt: its links become stale */
    int rc = 0;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        rc = abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot change the ledger '%s'", l->path);
    for (abx_claim c = ABX_CLAIM_NAME; rc == 0 && c <= ABX_CLAIM_ID; c++)
        if (word_of(&e, c))
            abx__ledger_disclaim(dir, c, word_of(&e, c), key);
    abx_ledger_entry_clear(&e);
    return rc;
}

/* --- read ------------------------------------------------------------------------------------------------ */

typedef struct reading {
    const abx_ledger *ledger;
    int dir;
    abx_ledger_entry *entries;
    size_t count, cap;
    char **bad;
    size_t bad_count;
} reading;

static int by_age(const void *a, const void *b)
{
    const abx_ledger_entry *x = a, *y = b;
    if (x->created_wall_ms != y->created_wall_ms)
        return x->created_wall_ms < y->created_wall_ms ? -1 : 1;
    return strcmp(x->key, y->key);
}

static void add_bad(reading *r, const char *text)
{
    r->bad = abx_realloc(r->bad, (r->bad_count + 1) * sizeof *r->bad);
    r->bad[r->bad_count++] = abx_strdup(text);
}

static void read_one(reading *r, const char *file)
{
    ABX_AUTO_FREE char *key = abx_strndup(file, strlen(file) - strlen(".json"));
    ABX_AUTO_ERROR why = NULL;
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 16;
        r->entries = abx_realloc(r->entries, r->cap * sizeof *r->entries);
    }
    int rc = 0;
    if (!abx__ledger_key_ok(key))
        rc = abx_fail(&why, ABX_ERR_LOCAL_STATE,
                      "the ledger file '%s/%s' has a name that is not ours", r->ledger->path, file);
    else
        rc = abx__ledger_load(r->ledger, r->dir, key, &r->entries[r->count], &why);
    if (rc == 0)
        r->count++;
    else if (rc < 0)
        add_bad(r, abx_error_text(why));
}

/* What a writer that was killed left. */
static void clear_stale(int dir, const char *file)
{
    struct stat st;
    if (abx_has_suffix(file, ".tmp") && fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_mtime + STALE_S < time(NULL))
        unlinkat(dir, file, 0);
}

int abx_ledger_read(abx_ledger *l, abx_ledger_entry **entries, size_t *count, char ***bad,
                    size_t *bad_count, abx_error **err)
{
    *entries = NULL;
    *bad = NULL;
    *count = *bad_count = 0;
    int fd = open_folder(l);
    if (fd < 0 && errno == ENOENT)
        return 0;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        int why = errno;
        abx_close_fd(&fd);
        return abx_fail_errno(err, ABX_ERR_HOME, why, "cannot open the ledger '%s'", l->path);
    }
    reading r = {.ledger = l, .dir = fd};
    for (struct dirent *d; (d = readdir(folder)) != NULL;) {
        if (d->d_name[0] == '.')
            clear_stale(fd, d->d_name);
        else if (abx_has_suffix(d->d_name, ".json"))
            read_one(&r, d->d_name);
    }
    closedir(folder);
    if (r.count)
        qsort(r.entries, r.count, sizeof *r.entries, by_age);
    *entries = r.entries;
    *count = r.count;
    *bad = r.bad;
    *bad_count = r.bad_count;
    return 0;
}

size_t abx_ledger_count_of(const char *home, const char *provider)
{
    abx_ledger *ledger = NULL;
    abx_ledger_entry *entries = NULL;
    size_t count = 0, bad_count = 0, found = 0;
    char **bad = NULL;
    if (abx_ledger_open(home, &ledger, NULL) < 0)
        return 0;
    if (abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, NULL) == 0)
        for (size_t i = 0; i < count; i++)
            found += strcmp(entries[i].provider, provider) == 0;
    abx_ledger_entries_free(entries, count);
    for (size_t i = 0; i < bad_count; i++)
        free(bad[i]);
    free(bad);
    abx_ledger_free(ledger);
    return found;
}
