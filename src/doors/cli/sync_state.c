/* What two folders had in common after the last run: one small file a pair in ABX_HOME/sync, replaced as a whole. Before
 * bytes leave for the sandbox the file says which paths are on their way: if the run is ended in the middle, half a file
 * there is known to be ours. The file of a sandbox that is gone is removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/sync_inner.h"
#include "host/digest.h"

#define STATE_MAX ((size_t)256 * 1024 * 1024)
#define VERSION   1

enum { AT_PATH, AT_TYPE, AT_SIZE, AT_SECONDS, AT_NS, AT_MODE, AT_TARGET, AT_COUNT };

/* --- which file ------------------------------------------------------------------------------------------- */

/* Files are called SANDBOX.DIGEST.json. */
static void clear_gone(abx_sync *s, const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        const char *dot = strchr(d->d_name, '.');
        ABX_AUTO_FREE char *id = dot ? abx_strndup(d->d_name, (size_t)(dot - d->d_name)) : NULL;
        if (!id || !id[0] || strcmp(id, s->sandbox) == 0)
            continue;
        ABX_AUTO_FREE char *found = NULL;
        ABX_AUTO_FREE char *provider = NULL;
        ABX_AUTO_ERROR err = NULL;
        if (abx_host_resolve(s->cli->_host, id, &found, &provider, &err) < 0 &&
            err->id == ABX_ERR_SANDBOX_NOT_FOUND)
            (void)unlinkat(dirfd(dir), d->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static int find_file(abx_sync *s, abx_error **err)
{
    ABX_AUTO_FREE char *folder = abx_path_join(s->cli->_home, "sync");
    if (abx_make_dirs(folder, 0700, err) < 0)
        return -1;
    clear_gone(s, folder);
    ABX_AUTO_FREE char *pair = abx_format("%s\n%s", s->local, s->remote);
    char digest[ABX_DIGEST_SIZE];
    abx_digest(pair, strlen(pair), s->sandbox, strlen(s->sandbox), digest);
    s->state_path = abx_format("%s/%s.%.32s.json", folder, s->sandbox, digest);
    ABX_AUTO_FREE char *lock = abx_format("%s.lock", s->state_path);
    s->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open '%s'", lock);
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    abx_fail(err, ABX_ERR_CONFLICT, "'%s' and '%s:%s' are being synchronised already", s->local,
             s->sandbox, s->remote);
    return abx_hint(err, "wait for the other run, or end it");
}

/* --- reading ---------------------------------------------------------------------------------------------- */

/* NULL: the row does not fit. */
static abx_sync_entry *add_row(abx_sync_list *l, yyjson_val *row)
{
    yyjson_val *v[AT_COUNT];
    for (size_t i = 0; i < AT_COUNT; i++)
        v[i] = yyjson_arr_get(row, i);
    if (!yyjson_is_str(v[AT_PATH]) || yyjson_get_int(v[AT_TYPE]) < ABX_SYNC_NONE ||
        yyjson_get_int(v[AT_TYPE]) > ABX_SYNC_LINK)
        return NULL;
    abx_sync_entry *e = abx_sync_list_add(l, yyjson_get_str(v[AT_PATH]));
    e->type = (abx_sync_type)yyjson_get_int(v[AT_TYPE]);
    e->size = yyjson_get_sint(v[AT_SIZE]);
    e->seconds = yyjson_get_sint(v[AT_SECONDS]);
    e->ns = (long)yyjson_get_sint(v[AT_NS]);
    e->mode = (mode_t)yyjson_get_int(v[AT_MODE]);
    e->target = abx_strdup(yyjson_get_str(v[AT_TARGET]));
    return e;
}

/* What was on its way: marked where it was the same before, else added as nothing. */
static void add_in_flight(abx_sync_list *l, yyjson_val *paths)
{
    size_t sorted = l->count, i, n;
    yyjson_val *path;
    yyjson_arr_foreach(paths, i, n, path)
    {
        abx_sync_list known = {l->entries, sorted, 0};
        const char *text = yyjson_get_str(path);
        abx_sync_entry *e = text ? abx_sync_list_find(&known, text) : NULL;
        if (text && !e)
            e = abx_sync_list_add(l, text);
        if (e)
            e->in_flight = true;
    }
    abx_sync_list_sort(l);
}

static int read_state(abx_sync *s, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(STATE_MAX);
    int rc = abx_read_file(s->state_path, STATE_MAX, &text, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_FILE, s->state_path, err);
    if (!doc)
        return abx_hint(err, "remove the file: the next run then compares the folders anew");
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (abx_json_int(root, "version", 0) != VERSION) {
        abx_fail(err, ABX_ERR_FILE, "'%s' is of another version", s->state_path);
        return abx_hint(err, "remove the file: the next run then compares the folders anew");
    }
    size_t i, n;
    yyjson_val *row;
    yyjson_arr_foreach(abx_json_get(root, "entries"), i, n, row)
    {
        (void)add_row(&s->state, row);
    }
    abx_sync_list_sort(&s->state);
    add_in_flight(&s->state, abx_json_get(root, "inFlight"));
    return 0;
}

int abx__sync_state_open(abx_sync *s, abx_error **err)
{
    abx_sync_list_clear(&s->state);
    if (s->lock < 0 && find_file(s, err) < 0)
        return -1;
    return read_state(s, err);
}

void abx__sync_state_close(abx_sync *s)
{
    abx_close_fd(&s->lock);
    free(ABX_TAKE(s->state_path));
    abx_sync_list_clear(&s->state);
}

/* --- writing ----------------------------------------------------------------------------------------------- */

static void put_row(yyjson_mut_doc *d, yyjson_mut_val *rows, const abx_sync_entry *e)
{
    yyjson_mut_val *row = yyjson_mut_arr_add_arr(d, rows);
    yyjson_mut_arr_add_str(d, row, e->path);
    yyjson_mut_arr_add_int(d, row, e->type);
    yyjson_mut_arr_add_int(d, row, e->size);
    yyjson_mut_arr_add_int(d, row, e->seconds);
    yyjson_mut_arr_add_int(d, row, e->ns);
    yyjson_mut_arr_add_int(d, row, (int64_t)e->mode);
    if (e->target)
        yyjson_mut_arr_add_str(d, row, e->target);
}

static int write_state(abx_sync *s, const abx_sync_list *entries, const abx_sync_plan *in_flight,
                       abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_int(d, root, "version", VERSION);
    abx_mut_str(d, root, "local", s->local);
    abx_mut_str(d, root, "sandbox", s->sandbox);
    abx_mut_str(d, root, "remote", s->remote);
    yyjson_mut_val *rows = abx_mut_arr(d, root, "entries");
    for (size_t i = 0; i < entries->count; i++)
        if (entries->entries[i].type != ABX_SYNC_NONE)
            put_row(d, rows, &entries->entries[i]);
    rows = abx_mut_arr(d, root, "inFlight");
    for (size_t i = 0; in_flight && i < in_flight->count; i++)
        if (in_flight->actions[i].kind == ABX_SYNC_COPY && in_flight->actions[i].to == 1)
            yyjson_mut_arr_add_str(d, rows, in_flight->actions[i].entry->path);
    ABX_AUTO_BUF text = ABX_BUF(STATE_MAX);
    if (abx_json_write_mut(root, &text) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "too many files for '%s'", s->state_path);
    return abx_write_atomic(s->state_path, text.data, text.len, 0600, true, err);
}

int abx__sync_state_begin(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    return write_state(s, &s->state, plan, err);
}

/* What was sent to this side is there as it was sent, whatever has happened to the source since. */
static const abx_sync_entry *as_sent(const abx_sync_list former[2], const abx_sync_list now[2],
                                     const char *path)
{
    for (int side = 0; side < 2; side++) {
        const abx_sync_entry *sent = abx_sync_list_find(&former[!side], path);
        const abx_sync_entry *got = abx_sync_list_find(&now[side], path);
        if (sent && got && abx_sync_same(sent, got))
            return sent;
    }
    return NULL;
}

static bool is_as_before(const abx_sync_list *a, const abx_sync_list *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (strcmp(a->entries[i].path, b->entries[i].path) != 0 || b->entries[i].in_flight ||
            !abx_sync_same(&a->entries[i], &b->entries[i]))
            return false;
    return a->count == b->count;
}

int abx__sync_state_end(abx_sync *s, const abx_sync_list former[2], abx_error **err)
{
    ABX_AUTO_SYNC_LIST next = {0};
    for (size_t i = 0; i < s->lists[0].count; i++) {
        const abx_sync_entry *here = &s->lists[0].entries[i];
        const abx_sync_entry *there = abx_sync_list_find(&s->lists[1], here->path);
        bool folders = there && here->type == ABX_SYNC_DIR && there->type == ABX_SYNC_DIR;
        const abx_sync_entry *old = abx_sync_list_find(&s->state, here->path);
        const abx_sync_entry *sent = as_sent(former, s->lists, here->path);
        if (there && (folders || abx_sync_same(here, there)))
            abx_sync_list_add_copy(&next, here);
        else if (there && sent)
            abx_sync_list_add_copy(&next, sent);
        else if (old)
            abx_sync_list_add_copy(&next, old);
    }
    for (size_t i = 0; i < s->lists[1].count; i++) {
        const char *path = s->lists[1].entries[i].path;
        const abx_sync_entry *old = abx_sync_list_find(&s->state, path);
        if (old && !abx_sync_list_find(&s->lists[0], path))
            abx_sync_list_add_copy(&next, old);
    }
    abx_sync_list_sort(&next);
    for (size_t i = 0; i < next.count; i++)
        next.entries[i].in_flight = false;
    if (is_as_before(&next, &s->state) && access(s->state_path, F_OK) == 0)
        return 0;
    if (write_state(s, &next, NULL, err) < 0)
        return -1;
    abx_sync_list_clear(&s->state);
    s->state = next;
    next = (abx_sync_list){0};
    return 0;
}
