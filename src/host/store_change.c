/* Install and link: make a plugin ready beside the installed one, compare, put it in place. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/store_catalog.h"
#include "host/store_inner.h"

/* What is in the making: .new-X in the store, with `tree` in it (install) or the receipt and `plugin` (link). */
struct abx_store_work {
    const abx_store_task *task;
    char *home, *stage;
    int lock, dir, stage_fd, tree_fd;
    abx_buf listing;
};

static bool is_link(const abx_store_change *c)
{
    return c->now.trust == ABX_TRUST_LINK;
}

/* --- beginning and end -------------------------------------------------------------------------------- */

static int begin(abx_store_change *c, const char *home, const abx_store_task *task, abx_error **err)
{
    struct abx_store_work *w = c->work = ABX_NEW(struct abx_store_work);
    *w = (struct abx_store_work){task, abx_strdup(home),        NULL, -1, -1, -1,
                                 -1,   ABX_BUF(ABX_LISTING_MAX)};
    w->dir = abx__store_open_locked(home, task, &w->lock, err);
    if (w->dir < 0)
        return -1;
    ABX_AUTO_FREE char *stage = abx__store_fresh_name(ABX_STORE_NEW_PREFIX);
    if (mkdirat(w->dir, stage, 0700) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write to '%s/providers'", home);
    w->stage = ABX_TAKE(stage);
    w->stage_fd = openat(w->dir, w->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return w->stage_fd < 0 ? abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s'", w->stage)
                           : 0;
}

void abx_store_change_free(abx_store_change *c)
{
    if (!c)
        return;
    struct abx_store_work *w = c->work;
    if (w) {
        if (w->stage && w->dir >= 0)
            (void)abx_remove_tree_at(w->dir, w->stage, NULL);
        abx_close_fd(&w->tree_fd);
        abx_close_fd(&w->stage_fd);
        abx_close_fd(&w->dir);
        abx_close_fd(&w->lock);
        abx_buf_clear(&w->listing);
        free(w->stage);
        free(w->home);
        free(w);
    }
    abx_manifest_free(c->manifest);
    abx_store_entry_clear(&c->now);
    abx_store_entry_clear(&c->then);
    free(c);
}

/* --- what it is ---------------------------------------------------------------------------------------- */

/* The manifest of an open folder that people know by this name; checked as for use. */
static abx_manifest *read_manifest(int fd, const char *name, abx_error **err)
{
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_read(fd, name, &problems);
    if (m)
        abx_plugin_find_program(m, fd, name, NULL, &problems);
    if (abx_problems_to_error(&problems, err) == 0)
        return m;
    abx_manifest_free(m);
    return NULL;
}

static void describe(abx_store_change *c, abx_trust trust, const char *source)
{
    const abx_manifest *m = c->manifest;
    char now[ABX_RFC3339_SIZE];
    abx_format_rfc3339(abx_now_wall_ms() / 1000 * 1000, now);
    c->now.id = abx_strdup(m->id);
    c->now.name = abx_strdup(m->name);
    c->now.version = abx_strdup(m->version);
    c->now.description = abx_strdup(m->description);
    c->now.kind = m->kind;
    c->now.trust = trust;
    c->now.source = abx_strdup(source);
    c->now.installed_at = abx_strdup(now);
    c->now.folder = trust == ABX_TRUST_LINK ? abx_strdup(source)
                                            : abx_format("%s/providers/%s", c->work->home, m->id);
}

/* What the catalog brings counts as consented; what the user gave before stays given, unless the trust is another one. */
static void find_consent(abx_store_change *c)
{
    bool keep = c->then.id && !c->then.problem && c->then.trust == c->now.trust;
    for (int k = 0; k < ABX_CORE_COUNT; k++) {
        bool wants = c->manifest->inherit[k];
        c->now.consent[k] =
            wants && (c->now.trust == ABX_TRUST_CATALOG || (keep && c->then.consent[k]));
        c->asks[k] = wants && !c->now.consent[k];
    }
}

static bool is_same(const abx_store_entry *a, const abx_store_entry *b)
{
    if (a->trust != b->trust || strcmp(a->version, b->version) != 0 || a->kind != b->kind)
        return false;
    return a->trust == ABX_TRUST_LINK ? strcmp(a->source, b->source) == 0
                                      : strcmp(a->tree_sha256, b->tree_sha256) == 0;
}

/* A receipt that says the same is not enough: the installed files may have been changed. */
static bool is_whole(abx_store_change *c)
{
    abx_plugin *p = NULL;
    bool whole = abx_store_load_task(c->work->home, c->now.id, c->work->task, &p, NULL) == 0;
    abx_plugin_free(p);
    return whole;
}

static int compare(abx_store_change *c, abx_error **err)
{
    abx_error *problem = NULL;
    if (abx_is_reserved_id(c->now.id))
        return abx_fail(err, ABX_ERR_CONFLICT, "the id '%s' is built in and cannot be installed",
                        c->now.id);
    int rc = abx__receipt_read(c->work->home, c->work->dir, c->now.id, &c->then, NULL, &problem);
    if (rc < 0) {
        c->then.id = abx_strdup(c->now.id);
        c->then.problem = problem;
    }
    if (rc == 1)
        c->step = ABX_STORE_NEW;
    else if (rc < 0)
        c->step = ABX_STORE_REPLACE;
    else if (is_same(&c->now, &c->then) && is_whole(c))
        c->step = ABX_STORE_SAME;
    else {
        int order = abx_version_compare(c->now.version, c->then.version);
        c->step = order < 0   ? ABX_STORE_DOWNGRADE
                  : order > 0 ? ABX_STORE_UPGRADE
                              : ABX_STORE_REPLACE;
    }
    find_consent(c);
    return 0;
}

/* --- making it ready ------------------------------------------------------------------------------------ */

static int make_tree(struct abx_store_work *w, abx_error **err)
{
    if (mkdirat(w->stage_fd, "tree", 0700) < 0 ||
        (w->tree_fd = openat(w->stage_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write to '%s/providers'", w->home);
    return 0;
}

static int fail_source(const char *source, abx_error **err)
{
    int e = errno;
    abx_err_id id = e == ENOENT || e == ENOTDIR ? ABX_ERR_FILE_NOT_FOUND : ABX_ERR_FILE;
    abx_fail_errno(err, id, e, "cannot open '%s'", source);
    if (strstr(source, "://"))
        return abx_hint(err, "nothing is downloaded to install it: fetch the archive first");
    return -1;
}

static int copy_folder(abx_store_change *c, int from, const char *path, abx_error **err)
{
    struct abx_store_work *w = c->work;
    ABX_AUTO_FREE char *store = abx_format("%s/providers/", w->home);
    ABX_AUTO_FREE char *real = realpath(store, NULL);
    ABX_AUTO_FREE char *above = abx_path_join(path, "");
    if (real && abx_has_prefix(real, above))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' holds the store of providers itself", path);
    /* What is wrong with the manifest is told before anything is copied. */
    abx_manifest *m = read_manifest(from, path, err);
    abx_manifest_free(m);
    return !m || make_tree(w, err) < 0 ? -1 : abx__store_copy(from, w->tree_fd, w->task, err);
}

/* An archive of a folder holds that folder, or what is in it. */
static int enter_single_folder(struct abx_store_work *w, const char *name, abx_error **err)
{
    char **names;
    size_t count;
    struct stat st;
    if (fstatat(w->tree_fd, ABX_MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (abx_tree_names(w->tree_fd, &names, &count) < 0)
        return fail_source(name, err);
    ABX_AUTO_FD only =
        count == 1 ? openat(w->tree_fd, names[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                   : -1;
    int rc = 0;
    if (only >= 0 && fstatat(only, ABX_MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        rc = renameat(w->tree_fd, names[0], w->stage_fd, "inner");
        if (rc == 0 && unlinkat(w->stage_fd, "tree", AT_REMOVEDIR) == 0)
            rc = renameat(w->stage_fd, "inner", w->stage_fd, "tree");
        abx_close_fd(&w->tree_fd);
        w->tree_fd = abx_take_fd(&only);
    }
    abx_tree_names_free(names, count);
    return rc < 0 ? abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot unpack '%s'", name) : 0;
}

static int unpack(abx_store_change *c, int fd, const char *name, abx_error **err)
{
    struct abx_store_work *w = c->work;
    if (make_tree(w, err) < 0 || abx__store_unpack(fd, name, w->tree_fd, w->task, err) < 0)
        return -1;
    if (enter_single_folder(w, name, err) < 0)
        return -1;
    (void)abx_remove_tree_at(w->tree_fd, ABX_STORE_RECEIPT, NULL); /* another store's */
    (void)abx_remove_tree_at(w->tree_fd, ABX_STORE_FILES, NULL);
    return 0;
}

static int fetch(abx_store_change *c, const char *source, abx_trust *trust, char **path,
                 char digest[65], abx_error **err)
{
    struct stat st;
    digest[0] = 0;
    if (!abx_store_is_path(source)) {
        *trust = ABX_TRUST_CATALOG;
        *path = abx_strdup("catalog");
        ABX_AUTO_FD fd = abx_catalog_open(source, digest, err);
        return fd < 0 ? -1 : unpack(c, fd, source, err);
    }
    *trust = ABX_TRUST_LOCAL;
    ABX_AUTO_FD fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *path = fd < 0 ? NULL : realpath(source, NULL);
    if (!*path || fstat(fd, &st) < 0)
        return fail_source(source, err);
    if (S_ISDIR(st.st_mode))
        return copy_folder(c, fd, *path, err);
    if (S_ISREG(st.st_mode))
        return unpack(c, fd, *path, err);
    return abx_fail(err, ABX_ERR_FILE, "'%s' is neither a folder nor a .tar.gz", source);
}

static int prepare(abx_store_change *c, const char *source, abx_error **err)
{
    struct abx_store_work *w = c->work;
    ABX_AUTO_FREE char *path = NULL;
    char digest[65], hex[65];
    abx_trust trust;
    abx_tree_walk walk = {.task = w->task, .strict = true, .listing = &w->listing};
    if (fetch(c, source, &trust, &path, digest, err) < 0)
        return -1;
    c->manifest = read_manifest(w->tree_fd, path, err);
    if (!c->manifest || abx_tree_digest(w->tree_fd, &walk, hex, err) < 0)
        return -1;
    if (trust == ABX_TRUST_CATALOG && !abx_equal_secret(hex, 64, digest, 64))
        return abx_fail(err, ABX_ERR_PROVIDER_INTEGRITY,
                        "provider '%s' of the catalog does not have the catalog's digest", source);
    describe(c, trust, path);
    c->now.tree_sha256 = abx_strdup(hex);
    c->now.entries = walk.entries;
    c->now.bytes = walk.bytes;
    return compare(c, err);
}

abx_store_change *abx_store_prepare(const char *home, const char *source,
                                    const abx_store_task *task, abx_error **err)
{
    abx_store_change *c = ABX_NEW(abx_store_change);
    if (begin(c, home, task, err) == 0 && prepare(c, source, err) == 0)
        return c;
    abx_store_change_free(c);
    return NULL;
}

static int prepare_link(abx_store_change *c, const char *folder, abx_error **err)
{
    ABX_AUTO_FREE char *path = realpath(folder, NULL);
    ABX_AUTO_FD fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return fail_source(folder, err);
    c->manifest = read_manifest(fd, path, err);
    if (!c->manifest || abx__store_check_owner(fd, path, true, err) < 0)
        return -1;
    describe(c, ABX_TRUST_LINK, path);
    return compare(c, err);
}

abx_store_change *abx_store_prepare_link(const char *home, const char *folder,
                                         const abx_store_task *task, abx_error **err)
{
    abx_store_change *c = ABX_NEW(abx_store_change);
    if (begin(c, home, task, err) == 0 && prepare_link(c, folder, err) == 0)
        return c;
    abx_store_change_free(c);
    return NULL;
}

bool abx_store_is_path(const char *source)
{
    return strchr(source, '/') || abx_has_suffix(source, ".tar.gz");
}

/* --- putting it in place --------------------------------------------------------------------------------- */

static int check_consent(const abx_store_change *c, abx_error **err)
{
    for (int k = 0; k < ABX_CORE_COUNT; k++)
        if (c->now.consent[k] && !c->manifest->inherit[k])
            return abx_fail(err, ABX_ERR_USAGE, "provider '%s' does not ask for '%s'", c->now.id,
                            abx_core_key_name((abx_core_key)k));
    return 0;
}

static int write_receipt(const abx_store_change *c, int dir, const char *name, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(1 << 20);
    abx__receipt_write(&c->now, &text);
    return abx_write_atomic_at(dir, name, text.data, text.len, 0644, true, err);
}

static int commit_tree(abx_store_change *c, abx_error **err)
{
    struct abx_store_work *w = c->work;
    ABX_AUTO_FREE char *name = abx_format("%s/tree", w->stage);
    if (write_receipt(c, w->tree_fd, ABX_STORE_RECEIPT, err) < 0 ||
        abx_write_atomic_at(w->tree_fd, ABX_STORE_FILES, w->listing.data, w->listing.len, 0644,
                            false, err) < 0 ||
        abx__store_sync(w->tree_fd, c->now.entries, err) < 0)
        return -1;
    return abx__store_switch(w->dir, name, c->now.id, err);
}

static int commit_link(abx_store_change *c, abx_error **err)
{
    struct abx_store_work *w = c->work;
    ABX_AUTO_FREE char *place = abx__store_fresh_name(ABX_STORE_LINKS "/");
    ABX_AUTO_FREE char *target = abx_format("%s/plugin", place);
    ABX_AUTO_FREE char *name = abx_format("%s/link", w->stage);
    if ((mkdirat(w->dir, ABX_STORE_LINKS, 0700) < 0 && errno != EEXIST) ||
        mkdirat(w->stage_fd, "holder", 0700) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write to '%s/providers'", w->home);
    ABX_AUTO_FD holder = openat(w->stage_fd, "holder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (holder < 0 || symlinkat(c->now.source, holder, "plugin") < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write to '%s/providers'", w->home);
    if (write_receipt(c, holder, ABX_STORE_RECEIPT, err) < 0 || abx__store_sync(holder, 0, err) < 0)
        return -1;
    if (renameat(w->stage_fd, "holder", w->dir, place) < 0 ||
        symlinkat(target, w->stage_fd, "link") < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write to '%s/providers'", w->home);
    return abx__store_switch(w->dir, name, c->now.id, err);
}

/* Only the receipt changes: written aside, so that nothing but it is ever in the plugin's folder. */
static int commit_consent(abx_store_change *c, abx_error **err)
{
    struct abx_store_work *w = c->work;
    ABX_AUTO_FD folder = openat(w->dir, c->now.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || write_receipt(c, w->stage_fd, "receipt", err) < 0 ||
        renameat(w->stage_fd, "receipt", folder, ABX_STORE_RECEIPT) < 0 || fsync(folder) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write the receipt of provider '%s'",
                              c->now.id);
    return 0;
}

int abx_store_commit(abx_store_change *c, abx_error **err)
{
    if (check_consent(c, err) < 0)
        return -1;
    bool same = c->step == ABX_STORE_SAME;
    if (same && memcmp(c->now.consent, c->then.consent, sizeof(c->now.consent)) == 0)
        return 0;
    if (is_link(c) ? commit_link(c, err) < 0
        : same     ? commit_consent(c, err) < 0
                   : commit_tree(c, err) < 0)
        return -1;
    (void)abx_remove_tree_at(c->work->dir, c->work->stage, NULL);
    abx__store_sweep(c->work->dir); /* the folder of a former link */
    return 0;
}

/* --- remove ------------------------------------------------------------------------------------------------ */

int abx_store_uninstall(const char *home, const char *id, const abx_store_task *task,
                        abx_error **err)
{
    struct stat st;
    if (!abx_store_has(home, id)) {
        abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "no provider '%s' is installed", id);
        return abx_hint(err, "'abx provider list' lists what is installed");
    }
    ABX_AUTO_FD lock = -1;
    ABX_AUTO_FD dir = abx__store_open_locked(home, task, &lock, err);
    ABX_AUTO_FREE char *old = abx__store_fresh_name(ABX_STORE_OLD_PREFIX);
    if (dir < 0)
        return -1;
    if (fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) < 0) /* another one was quicker */
        return 0;
    if (renameat(dir, id, dir, old) < 0 || fsync(dir) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot change '%s/providers'", home);
    abx__store_sweep(dir);
    return 0;
}
