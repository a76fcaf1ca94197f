/* A plugin for use: what is loaded is what was hashed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"
#include "host/store_inner.h"

#define ENTRY_MAX ((size_t)64 << 20) /* bytes of a module */
#define TRIES     5                  /* when another one is put in its place while it is read */

/* What one look at an installed plugin opens. */
typedef struct look {
    abx_store_entry entry;
    abx_plugin *plugin; /* in the making */
    abx_problems problems;
    int manifest_fd, entry_fd;
    char *text; /* of the manifest */
    size_t len;
} look;

static void look_clear(look *l)
{
    abx_store_entry_clear(&l->entry);
    abx_plugin_free(l->plugin);
    abx_problems_clear(&l->problems);
    abx_close_fd(&l->manifest_fd);
    abx_close_fd(&l->entry_fd);
    free(l->text);
}

static int not_found(const char *id, abx_error **err)
{
    abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "no provider '%s' is installed", id);
    return abx_hint(err, "'abx provider list' lists what is installed");
}

/* --- whose it is ------------------------------------------------------------------------------------- */

int abx__store_check_owner(int fd, const char *path, bool link, abx_error **err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_INTEGRITY, errno, "cannot use '%s'", path);
    if (st.st_uid != geteuid() && !(link && st.st_uid == 0)) {
        abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
                 "the plugin folder '%s' belongs to another user (uid %u)", path, st.st_uid);
        return abx_hint(err,
                        link ? "chown -R %u '%s', or install a copy of it"
                             : "chown -R %u '%s', or install it again",
                        geteuid(), path);
    }
    if (st.st_mode & 022) {
        abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
                 "the plugin folder '%s' can be written by others (mode %04o)", path,
                 st.st_mode & 07777);
        return abx_hint(err, "chmod go-w '%s'", path);
    }
    return 0;
}

/* --- reading once ------------------------------------------------------------------------------------ */

/* The bytes of an open regular file; NULL with errno. Owned. */
static char *read_whole(int fd, size_t max, size_t *len)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return NULL;
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)max) {
        errno = S_ISREG(st.st_mode) ? EFBIG : EINVAL;
        return NULL;
    }
    char *text = (char *)abx_alloc((size_t)st.st_size + 2);
    ssize_t n = abx_read_full(fd, text, (size_t)st.st_size + 1);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    *len = (size_t)n;
    return text;
}

static int open_regular(int folder_fd, const char *path)
{
    return abx_open_within(folder_fd, path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
}

/* The manifest and what it names, each opened once. What is wrong goes to the problems: the digest decides first. */
static void read_plugin(look *l)
{
    abx_plugin *p = l->plugin;
    ABX_AUTO_FREE char *file = abx_path_join(p->folder, ABX_MANIFEST_NAME);
    l->manifest_fd = open_regular(p->folder_fd, ABX_MANIFEST_NAME);
    if (l->manifest_fd >= 0)
        l->text = read_whole(l->manifest_fd, ABX_MANIFEST_MAX, &l->len);
    if (!l->text) {
        abx_problem bad = {.id = ABX_ERR_PROVIDER_MANIFEST, .file = file, .text = strerror(errno)};
        abx_problems_add(&l->problems, &bad);
        return;
    }
    p->manifest = abx_manifest_parse(file, l->text, l->len, &l->problems);
    if (!p->manifest)
        return;
    abx_plugin_find_program(p->manifest, p->folder_fd, p->folder, &p->program_fd, &l->problems);
    if (p->manifest->kind != ABX_KIND_NODE)
        return;
    l->entry_fd = open_regular(p->folder_fd, p->manifest->entry);
    if (l->entry_fd >= 0)
        p->entry_text = read_whole(l->entry_fd, ENTRY_MAX, &p->entry_len);
}

/* --- the digest -------------------------------------------------------------------------------------- */

/* What differs from what was installed, or NULL when that cannot be told. Owned. */
static char *explain(const look *l)
{
    ABX_AUTO_BUF before = ABX_BUF(0);
    ABX_AUTO_BUF now = ABX_BUF(ABX_LISTING_MAX);
    char hex[65];
    abx_tree_walk walk = {.listing = &now};
    abx_sha sha;
    if (abx_read_file_at(l->plugin->folder_fd, ABX_STORE_FILES, ABX_LISTING_MAX, &before, NULL) !=
        0)
        return NULL;
    abx_sha_init(&sha);
    abx_sha_add(&sha, ABX_TREE_HEAD, sizeof(ABX_TREE_HEAD));
    abx_sha_add(&sha, before.data, before.len);
    abx_sha_end(&sha, hex);
    if (strcmp(hex, l->entry.tree_sha256) != 0) /* not that list either */
        return NULL;
    return abx_tree_digest(l->plugin->folder_fd, &walk, hex, NULL) < 0
               ? NULL
               : abx_tree_difference(&before, &now);
}

static int changed(const look *l, const char *what, abx_error **err)
{
    abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY, "provider '%s' is not what was installed: %s",
             l->entry.id, what);
    return abx_hint(
        err, "'abx provider install %s' puts it right, 'abx provider remove %s' takes it away",
        l->entry.trust == ABX_TRUST_CATALOG ? l->entry.id : l->entry.source, l->entry.id);
}

static int check_digest(look *l, const abx_store_task *task, abx_error **err)
{
    abx_plugin *p = l->plugin;
    char hex[65];
    abx_tree_held held[] = {{.fd = l->manifest_fd, .text = l->text, .len = l->len},
                            {.fd = p->program_fd},
                            {.fd = l->entry_fd, .text = p->entry_text, .len = p->entry_len}};
    bool link = p->trust == ABX_TRUST_LINK, node = p->entry_text != NULL;
    abx_tree_walk walk = {.task = task,
                          .owned = !link,
                          .held = held,
                          .held_count = ABX_COUNT(held),
                          .keep = node ? abx_plugin_is_module : NULL};
    ABX_AUTO_ERROR why = NULL;
    int rc = abx_tree_digest(p->folder_fd, &walk, hex, &why);
    p->modules = walk.kept;
    p->module_count = walk.kept_count;
    if (link) /* nothing to compare: only its modules were wanted */
        return rc < 0 ? abx_error_take(err, ABX_TAKE(why)) : 0;
    if (rc < 0) {
        if (why->id != ABX_ERR_FILE && why->id != ABX_ERR_TOO_LARGE)
            return abx_error_take(err, ABX_TAKE(why));
        return changed(l, why->message, err);
    }
    if (!abx_equal_secret(hex, 64, l->entry.tree_sha256, 64)) {
        ABX_AUTO_FREE char *what = explain(l);
        return changed(l, what ? what : "its files have another digest", err);
    }
    for (size_t i = 0; i < ABX_COUNT(held); i++)
        if (held[i].fd >= 0 && !held[i].met)
            return changed(l, "it would use a file that the digest does not cover", err);
    return 0;
}

/* --- loading ----------------------------------------------------------------------------------------- */

static int open_link(look *l, abx_error **err)
{
    const char *path = l->entry.folder;
    abx_close_fd(&l->plugin->folder_fd);
    l->plugin->folder_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->plugin->folder_fd >= 0)
        return abx__store_check_owner(l->plugin->folder_fd, path, true, err);
    abx_fail_errno(err, ABX_ERR_PROVIDER_NOT_FOUND, errno,
                   "provider '%s' is a link to a folder that cannot be opened: '%s'", l->entry.id,
                   path);
    return abx_hint(err, "'abx provider remove %s' takes the link away", l->entry.id);
}

static int load_once(look *l, const char *home, int dir, const char *id, const abx_store_task *task,
                     abx_error **err)
{
    abx_plugin *p = l->plugin = ABX_NEW(abx_plugin);
    p->folder_fd = p->program_fd = -1;
    int rc = abx__receipt_read(home, dir, id, &l->entry, &p->folder_fd, err);
    if (rc != 0)
        return rc < 0 ? -1 : not_found(id, err);
    p->folder = abx_strdup(l->entry.folder);
    p->trust = l->entry.trust;
    memcpy(p->consent, l->entry.consent, sizeof(p->consent));
    bool link = p->trust == ABX_TRUST_LINK;
    if (link ? open_link(l, err) < 0
             : abx__store_check_owner(p->folder_fd, p->folder, false, err) < 0)
        return -1;
    read_plugin(l);
    if ((!link || p->entry_text) && check_digest(l, task, err) < 0)
        return -1;
    if (abx_problems_to_error(&l->problems, err) < 0)
        return -1;
    if (strcmp(p->manifest->id, id) == 0)
        return 0;
    abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
             "the folder of provider '%s' holds provider '%s' now: '%s'", id, p->manifest->id,
             p->folder);
    return abx_hint(err, "'abx provider remove %s', then link the folder again", id);
}

/* Is another one in the place of what was looked at? */
static bool was_switched(const look *l, int dir, const char *id)
{
    struct stat had, st;
    if (l->entry.trust == ABX_TRUST_LINK || l->plugin->folder_fd < 0 ||
        fstat(l->plugin->folder_fd, &had) < 0)
        return false;
    return fstatat(dir, id, &st, 0) < 0 || st.st_ino != had.st_ino || st.st_dev != had.st_dev;
}

int abx_store_load_task(const char *home, const char *id, const abx_store_task *task,
                        abx_plugin **out, abx_error **err)
{
    for (int i = 0;; i++) {
        ABX_AUTO_ERROR why = NULL;
        ABX_AUTO_FD dir = abx_is_name(id) ? abx__store_open(home, &why) : -1;
        if (dir < 0)
            return why ? abx_error_take(err, ABX_TAKE(why)) : not_found(id, err);
        look l = {.manifest_fd = -1, .entry_fd = -1};
        int rc = load_once(&l, home, dir, id, task, &why);
        bool again = rc < 0 && i < TRIES && was_switched(&l, dir, id);
        if (rc == 0)
            *out = ABX_TAKE(l.plugin);
        look_clear(&l);
        if (again)
            continue;
        return rc < 0 ? abx_error_take(err, ABX_TAKE(why)) : 0;
    }
}

int abx_store_load(const char *home, const char *id, abx_plugin **out, abx_error **err)
{
    return abx_store_load_task(home, id, NULL, out, err);
}

/* --- receipts only ----------------------------------------------------------------------------------- */

int abx_store_look_up(const char *home, const char *id, abx_store_entry *out, abx_error **err)
{
    ABX_AUTO_ERROR why = NULL;
    ABX_AUTO_FD dir = abx_is_name(id) ? abx__store_open(home, &why) : -1;
    if (why)
        return abx_error_take(err, ABX_TAKE(why));
    int rc = dir < 0 ? 1 : abx__receipt_read(home, dir, id, out, NULL, err);
    return rc == 1 ? not_found(id, err) : rc;
}

bool abx_store_has(const char *home, const char *id)
{
    struct stat st;
    ABX_AUTO_FD dir = abx_is_name(id) ? abx__store_open(home, NULL) : -1;
    return dir >= 0 && fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

typedef enum leftovers { LEFT_NONE, LEFT_SOME, LEFT_PLUGIN } leftovers;

/* Are there names of killed runs? LEFT_PLUGIN: one of them is a plugin that has to be put back. links: how many entries are links. */
static leftovers find_leftovers(int dir, char *const *names, size_t count, size_t links)
{
    leftovers found = LEFT_NONE;
    for (size_t i = 0; i < count; i++) {
        char **below = NULL;
        size_t n = 0;
        if (abx_has_prefix(names[i], ABX_STORE_WAS_PREFIX))
            return LEFT_PLUGIN;
        if (abx_has_prefix(names[i], ABX_STORE_NEW_PREFIX) ||
            abx_has_prefix(names[i], ABX_STORE_OLD_PREFIX))
            found = LEFT_SOME;
        if (strcmp(names[i], ABX_STORE_LINKS) != 0)
            continue;
        ABX_AUTO_FD fd = openat(dir, names[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && abx_tree_names(fd, &below, &n) == 0 && n > links)
            found = LEFT_SOME;
        abx_tree_names_free(below, n);
    }
    return found;
}

/* Read the receipts of these names. Returns how many are links. */
static size_t read_receipts(const char *home, int dir, char *const *names, size_t n,
                            abx_store_entry *entries, size_t *count)
{
    size_t links = 0;
    for (size_t i = 0; i < n; i++) {
        abx_store_entry *e = &entries[*count];
        abx_error *problem = NULL;
        if (!abx_is_name(names[i]))
            continue;
        int rc = abx__receipt_read(home, dir, names[i], e, NULL, &problem);
        if (rc == 1) /* removed meanwhile */
            continue;
        if (rc < 0) {
            e->id = abx_strdup(names[i]);
            e->problem = problem;
        }
        links += rc == 0 && e->trust == ABX_TRUST_LINK;
        ++*count;
    }
    return links;
}

int abx_store_list(const char *home, abx_store_entry **entries, size_t *count, abx_error **err)
{
    char **names;
    size_t n;
    ABX_AUTO_ERROR why = NULL;
    ABX_AUTO_FD dir = abx__store_open(home, &why);
    *entries = NULL;
    *count = 0;
    if (why)
        return abx_error_take(err, ABX_TAKE(why));
    for (int tries = 0; dir >= 0; tries++) {
        if (abx_tree_names(dir, &names, &n) < 0)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot read '%s/providers'", home);
        *entries = (abx_store_entry *)abx_alloc_array(n + 1, sizeof(abx_store_entry));
        size_t links = read_receipts(home, dir, names, n, *entries, count);
        leftovers left = find_leftovers(dir, names, n, links);
        if (left != LEFT_NONE)
            abx__store_sweep_quietly(dir);
        abx_tree_names_free(names, n);
        if (left != LEFT_PLUGIN || tries == TRIES)
            break;
        abx_store_entries_free(*entries, *count);
        *entries = NULL;
        *count = 0;
    }
    return 0;
}
