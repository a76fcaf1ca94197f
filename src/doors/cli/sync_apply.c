/* Do what the plan says: on each side deletions first, then one tar stream with all that is copied to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "doors/cli/safe_place.h"
#include "doors/cli/sync_inner.h"
#include "doors/cli/tar_pack.h"
#include "doors/cli/tar_unpack.h"

#define SINGLY 8 /* so many deletions in the sandbox go by calls of their own */

/* --- deletions on this machine --------------------------------------------------------------------------- */

/* Only what the list holds goes: what came meanwhile keeps its folder. */
static int delete_one_local(abx_sync *s, int root, const abx_sync_entry *e, abx_error **err)
{
    const char *base = NULL;
    ABX_AUTO_FD dir = abx_safe_parent(root, e->path, false, &base);
    int rc = dir < 0 ? -1 : unlinkat(dir, base, e->type == ABX_SYNC_DIR ? AT_REMOVEDIR : 0);
    if (rc == 0 || errno == ENOENT || errno == ELOOP || errno == ENOTDIR)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == EISDIR) {
        abx_cli_warn(s->cli, "abx: kept '%s/%s': something new is in it", s->local, e->path);
        return 0;
    }
    return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot remove '%s/%s'", s->local, e->path);
}

static int delete_local(abx_sync *s, int root, const abx_sync_entry *e, abx_error **err)
{
    const abx_sync_entry *end = s->lists[0].entries + s->lists[0].count, *last = e;
    while (e->type == ABX_SYNC_DIR && last + 1 < end && abx_sync_is_below(last[1].path, e->path))
        last++;
    for (;; last--) {
        if (delete_one_local(s, root, last, err) < 0)
            return -1;
        s->done.deleted++;
        if (last == e)
            return 0;
    }
}

static int delete_all_local(abx_sync *s, int root, const abx_sync_plan *plan, abx_error **err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const abx_sync_action *a = &plan->actions[i];
        if (a->kind == ABX_SYNC_DELETE && abx__sync_place(s, a->to) == 0 &&
            delete_local(s, root, a->entry, err) < 0)
            return -1;
    }
    return 0;
}

/* --- deletions in the sandbox ------------------------------------------------------------------------------ */

static char *remote_path(const abx_sync *s, const char *path)
{
    return abx_path_join(s->remote, path);
}

static int delete_by_call(abx_sync *s, const char *path, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(s->sandbox, &root);
    ABX_AUTO_FREE char *full = remote_path(s, path);
    abx_mut_str(d, root, "path", full);
    abx_mut_str(d, root, "user", s->copy.user);
    return abx_cli_call(s->cli, ABX_OP_FS_REMOVE, d, NULL, err);
}

/* Many at once. 1: the sandbox has no program for it. */
static int delete_by_program(abx_sync *s, const abx_buf *names, abx_error **err)
{
    static const char *const words[] = {"rm", "-rf", "--", NULL};
    abx_stream stream;
    yyjson_val *result = NULL;
    ABX_AUTO_ERROR failed = NULL;
    int rc = abx__sync_names_run(s, names, words, &stream, &failed);
    if (rc == 0)
        rc = abx_stream_finish(&stream, &result, &failed);
    int64_t code = rc == 0 ? abx_json_int(result, "exitCode", -1) : 0;
    if (rc == 0 && code == 127)
        rc = 1;
    else if (rc == 0 && code != 0)
        rc = abx_fail(err, ABX_ERR_FILE, "cannot remove in the sandbox: %s",
                      abx_stream_notes(&stream));
    else if (rc < 0 && failed->id == ABX_ERR_START_FAILED)
        rc = 1;
    else if (rc < 0)
        abx_error_take(err, ABX_TAKE(failed));
    abx_stream_close(&stream);
    return rc;
}

static int delete_all_remote(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    ABX_AUTO_BUF names = ABX_BUF(SIZE_MAX / 2);
    int64_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const abx_sync_action *a = &plan->actions[i];
        if (a->kind != ABX_SYNC_DELETE || abx__sync_place(s, a->to) != 1)
            continue;
        count++;
        abx__sync_names_add(&names, a->entry->path);
    }
    s->done.deleted += count;
    int rc = count > SINGLY ? delete_by_program(s, &names, err) : 1;
    if (rc <= 0)
        return rc;
    for (const char *p = abx_buf_cstr(&names); count > 0; count--, p += strlen(p) + 1)
        if (delete_by_call(s, p + 2, err) < 0)
            return -1;
    return 0;
}

/* --- to the sandbox ------------------------------------------------------------------------------------------- */

static int send_tar(const void *bytes, size_t n, void *data, abx_error **err)
{
    abx_stream *stream = data;
    return stream->_ended ? 1 : abx_stream_write(stream, bytes, n, err);
}

static int make_remote_root(abx_sync *s, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(s->sandbox, &root);
    abx_mut_str(d, root, "path", s->remote);
    abx_mut_str(d, root, "user", s->copy.user);
    if (abx_cli_call(s->cli, ABX_OP_FS_MAKE_DIR, d, NULL, err) < 0)
        return -1;
    abx_remote_path path = {s->sandbox, s->remote};
    abx_copy_place place; /* its absolute path: tar starts elsewhere */
    int rc = abx_copy_look(&s->copy, &path, &place, err);
    if (rc == 0) {
        free(s->remote);
        s->remote = ABX_TAKE(place.path);
    }
    abx_copy_place_clear(&place);
    return rc;
}

static int push(abx_sync *s, int root, const char *const *names, size_t count, abx_error **err)
{
    abx_copy_tar kind = ABX_COPY_TAR_PLAIN;
    abx_stream stream;
    int rc = abx_copy_tar_extract(&s->copy, &stream, s->sandbox, s->remote, err);
    if (rc == 0)
        rc = abx_copy_tar_kind(&s->copy, s->sandbox, &kind, err);
    if (rc == 0) {
        abx_tar_pack_options options = {.cli = s->cli,
                                        .root = s->local,
                                        .plain = kind == ABX_COPY_TAR_PLAIN,
                                        .names = names,
                                        .name_count = count,
                                        .write = send_tar,
                                        .data = &stream,
                                        .transfer = &s->copy.transfer};
        rc = abx_tar_pack(root, &options, &s->done.files, &s->done.bytes, err);
        if (rc == 0)
            abx_stream_write_end(&stream);
    }
    if (rc == 0)
        rc = abx_copy_tar_finish(&stream, err);
    abx_stream_close(&stream);
    return rc;
}

/* --- from the sandbox -------------------------------------------------------------------------------------------- */

static int next_bytes(const uint8_t **bytes, size_t *n, void *data, abx_error **err)
{
    return abx_stream_read(data, bytes, n, err);
}

typedef struct wanted {
    const char *const *names; /* in the order of paths */
    size_t count;
} wanted;

static int by_order(const void *a, const void *b)
{
    return abx_sync_path_order(*(const char *const *)a, *(const char *const *)b);
}

static bool is_wanted(const char *name, void *data)
{
    const wanted *w = data;
    return bsearch(&name, w->names, w->count, sizeof *w->names, by_order) != NULL;
}

/* Did tar only miss what is gone since the list was made? */
static bool only_gone(const char *notes)
{
    static const char *const harmless[] = {
        "No such file or directory", "file changed as we read it", "File removed before we read it",
        "Exiting with failure status"};
    bool any = false;
    while (*notes) {
        size_t n = strcspn(notes, "\n");
        ABX_AUTO_FREE char *line = abx_strndup(notes, n);
        bool fine = n == 0;
        for (size_t i = 0; i < ABX_COUNT(harmless); i++)
            fine = fine || strstr(line, harmless[i]);
        if (!fine)
            return false;
        any = any || n > 0;
        notes += n + (notes[n] == '\n');
    }
    return any;
}

static int finish_pull(abx_sync *s, abx_stream *stream, int rc, abx_error **err)
{
    ABX_AUTO_ERROR own = NULL;
    if ((rc < 0 && !stream->_ended) || abx_copy_tar_finish(stream, &own) == 0)
        return rc;
    if (rc == 0 && own->id == ABX_ERR_FILE && only_gone(abx_stream_notes(stream))) {
        abx_cli_note(s->cli, "abx: something changed in '%s' meanwhile; the next run copies it",
                     s->remote);
        return 0;
    }
    if (rc < 0 && err)
        abx_error_free(ABX_TAKE(*err));
    return abx_error_take(err, ABX_TAKE(own));
}

static int pull(abx_sync *s, int root, const char *const *names, size_t count, abx_error **err)
{
    abx_copy_tar kind;
    if (abx_copy_tar_kind(&s->copy, s->sandbox, &kind, err) < 0)
        return -1;
    if (kind == ABX_COPY_TAR_PLAIN) {
        abx_fail(err, ABX_ERR_FEATURE_MISSING,
                 "the tar of sandbox '%s' takes no list of names, which sync needs", s->sandbox);
        return abx_hint(err, "install GNU tar or bsdtar in it");
    }
    ABX_AUTO_BUF list = ABX_BUF(SIZE_MAX / 2);
    for (size_t i = 0; i < count; i++)
        abx__sync_names_add(&list, names[i]);
    wanted w = {names, count};
    abx_stream stream;
    int rc = abx_copy_tar_pack_names(&s->copy, &stream, s->sandbox, s->remote, &list, err);
    if (rc == 0) {
        abx_tar_unpack_options options = {.cli = s->cli,
                                          .root = root,
                                          .name = s->local,
                                          .read = next_bytes,
                                          .data = &stream,
                                          .wants = is_wanted,
                                          .wants_data = &w,
                                          .transfer = &s->copy.transfer};
        rc = abx_tar_unpack(&options, &s->done.files, &s->done.bytes, err);
        rc = finish_pull(s, &stream, rc, err);
    }
    abx_stream_close(&stream);
    return rc;
}

/* --- all of it --------------------------------------------------------------------------------------------------------- */

/* Names of what goes to this side, in the order of paths. Owned array of borrowed names. */
static const char **names_to(const abx_sync *s, const abx_sync_plan *plan, int place, size_t *count)
{
    const char **names = abx_alloc_array(plan->count + 1, sizeof *names);
    *count = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->actions[i].kind == ABX_SYNC_COPY &&
            abx__sync_place(s, plan->actions[i].to) == place)
            names[(*count)++] = plan->actions[i].entry->path;
    return names;
}

static int open_local_root(abx_sync *s, abx_error **err)
{
    if (s->local_missing && abx_make_dirs(s->local, 0777, err) < 0)
        return -1;
    int root = open(s->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root >= 0 ? root
                     : abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open '%s'", s->local);
}

int abx__sync_apply(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    ABX_AUTO_FD root = open_local_root(s, err);
    if (root < 0)
        return -1;
    if (s->remote_missing && (s->two_way || !s->to_local) && make_remote_root(s, err) < 0)
        return -1;
    abx_sync_done size = abx__sync_measure(plan);
    s->copy.transfer.state.total_bytes = size.bytes;
    s->copy.transfer.state.total_files = size.files;
    s->copy.transfer.state.bytes = s->copy.transfer.state.files = 0;
    size_t to_local, to_remote;
    const char **in = names_to(s, plan, 0, &to_local), **out = names_to(s, plan, 1, &to_remote);
    int rc = delete_all_local(s, root, plan, err);
    if (rc == 0)
        rc = delete_all_remote(s, plan, err);
    if (rc == 0 && to_remote > 0)
        rc = push(s, root, out, to_remote, err);
    if (rc == 0 && to_local > 0)
        rc = pull(s, root, in, to_local, err);
    free(in);
    free(out);
    return rc;
}
