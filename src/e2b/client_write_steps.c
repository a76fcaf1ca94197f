/* fs.write to a stranger: the steps before and behind the upload. */
#include "e2b/client_write.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"

#define REMOVE_AGAIN_MS 300
#define NEW_MODE        0644 /* of a file that envd makes */

/* --- fail ---------------------------------------------------------------------------------------------------- */
static void remove_again(abx__envd_job *job)
{
    abx__writing *w = job->state;
    abx__write_fail(job, w->why);
}

/* An upload of which no end was heard may still be under way, and end after the removal. */
static bool may_come_back(abx__writing *w)
{
    abx_err_id id = w->why->id;
    bool unheard = id == ABX_ERR_NETWORK || id == ABX_ERR_TIMEOUT || id == ABX_ERR_CANCELLED;
    return unheard && w->removals++ == 0;
}

static void on_removed(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__writing *w = job->state;
    bool good = !err;
    abx_error_free(err); /* the failure before it is the one that counts */
    if (good && may_come_back(w))
        abx__envd_job_after(job, REMOVE_AGAIN_MS, remove_again);
    else
        abx__envd_job_fail(job, ABX_TAKE(w->why));
}

void abx__write_fail(abx__envd_job *job, abx_error *err)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/Remove",
        .request = ABX_E2B_REMOVE_REQUEST,
        .answer = ABX_E2B_REMOVE_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .has_user = true,
        .timeout_ms = ABX__ENVD_LINGER_MS,
    };
    abx__writing *w = job->state;
    if (w->why && w->why != err)
        abx_error_free(err);
    else
        w->why = err;
    bool gone = w->why->id == ABX_ERR_SANDBOX_ENDED || w->why->id == ABX_ERR_SANDBOX_NOT_FOUND;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", w->path ? w->path : w->to);
    if (!w->target || !w->sending || gone || job->main ||
        abx__envd_unary_start(job, &unary, ABX_TAKE(d), on_removed, NULL) < 0)
        abx__envd_job_fail(job, ABX_TAKE(w->why));
}

/* --- look ---------------------------------------------------------------------------------------------------- */
/* A name in the folder of this path. */
static char *beside(const char *path)
{
    char id[13];
    const char *slash = strrchr(path, '/');
    abx_random_id(id, 12);
    return abx_format("%.*s.abx-%s", slash ? (int)(slash - path) + 1 : 0, path, id);
}

/* What stands at the target decides where the bytes go. 0, or -1 and *err. */
static int read_place(abx__envd_job *job, yyjson_val *entry, abx_error **err)
{
    abx__writing *w = job->state;
    const char *type = abx_json_str(entry, "type", "");
    const char *at = abx__envd_text(entry, "symlinkTarget");
    if (strcmp(type, "FILE_TYPE_DIRECTORY") == 0) {
        (void)abx_fail(err, ABX_ERR_FILE, "'%s' is a folder", w->to);
        (*err)->sys_errno = EISDIR;
        return -1;
    }
    if (strcmp(type, "FILE_TYPE_FILE") != 0)
        return 0; /* a device, or a link to nothing: there is no old file to keep */
    if (at && *at != '/')
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "the link '%s' leads to an unfit path", w->to);
    w->target = abx_strdup(at ? at : w->to);
    int mode = (int)(abx_json_int(entry, "mode", NEW_MODE) & 0777);
    if (w->mode < 0 && mode != NEW_MODE)
        w->mode = mode;
    return 0;
}

static void on_looked(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__writing *w = job->state;
    if (err && err->id == ABX_ERR_FILE_NOT_FOUND) {
        abx_error_free(ABX_TAKE(err));
        w->target = abx_strdup(w->to);
    } else if (!err) {
        (void)read_place(job, yyjson_obj_get(answer, "entry"), &err);
    }
    if (!err && w->target) {
        free(w->to);
        w->to = beside(w->target);
    }
    if (err || w->why || abx__write_send(job, &err) < 0)
        abx__write_fail(job, err ? err : w->why);
    else
        abx_call_want_input(job->call);
}

int abx__write_look(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/Stat",
        .safe = true,
        .request = ABX_E2B_STAT_REQUEST,
        .answer = ABX_E2B_STAT_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .has_user = true,
        .timeout_ms = ABX__ENVD_UNARY_MS,
    };
    abx__writing *w = job->state;
    if (abx_has_suffix(w->to, "/"))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' names a folder", w->to);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", w->to);
    return abx__envd_unary_start(job, &unary, d, on_looked, err);
}

/* --- move ---------------------------------------------------------------------------------------------------- */
static void on_moved(abx__envd_job *job, yyjson_val *answer, abx_error *err)
{
    abx__writing *w = job->state;
    const char *path = abx__envd_text(yyjson_obj_get(answer, "entry"), "path");
    if (!path)
        path = w->target;
    if (!err && *path != '/')
        err = abx__envd_bad_answer(job->client, "the answer to the move has no path");
    if (err) {
        abx__write_fail(job, err);
        return;
    }
    free(w->path);
    w->path = abx_strdup(path);
    abx__write_done(job);
}

static void move(abx__envd_job *job)
{
    static const abx__envd_unary unary = {
        .path = "/filesystem.Filesystem/Move",
        .request = ABX_E2B_MOVE_REQUEST,
        .answer = ABX_E2B_MOVE_RESPONSE,
        .kind = ABX__ENVD_FILE,
        .has_user = true,
        .timeout_ms = ABX__ENVD_UNARY_MS,
    };
    abx__writing *w = job->state;
    abx_error *err = NULL;
    if (!w->target) {
        abx__write_done(job);
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "source", w->path);
    abx_mut_str(d, root, "destination", w->target);
    if (abx__envd_unary_start(job, &unary, d, on_moved, &err) < 0)
        abx__write_fail(job, err);
}

/* --- arrange ------------------------------------------------------------------------------------------------- */
static void on_arranged(abx__envd_job *job, int64_t exit, abx_error *err)
{
    abx__writing *w = job->state;
    if (!err && exit != 0) {
        ABX_AUTO_FREE char *words = abx_printable(abx_buf_cstr(&job->command.words));
        err = abx_error_new(ABX_ERR_FILE, "cannot set mode and time of '%s'%s%.200s",
                            w->target ? w->target : w->to, *words ? ": " : "", words);
    }
    if (err || w->why)
        abx__write_fail(job, err ? err : w->why);
    else
        move(job);
}

/* What sets the mode and the time of "$1"; coreutils takes parts of a second, others may not. */
static char *script_of(const abx__writing *w)
{
    ABX_AUTO_FREE char *mode =
        w->mode >= 0 ? abx_format("chmod %04o -- \"$1\"", (unsigned)w->mode) : abx_strdup("");
    if (!w->modified)
        return ABX_TAKE(mode);
    return abx_format("%s%stouch -d @%s -- \"$1\" 2>/dev/null || touch -d @%.*s -- \"$1\"; }", mode,
                      *mode ? " && { " : "{ ", w->modified, (int)strcspn(w->modified, "."),
                      w->modified);
}

void abx__write_arrange(abx__envd_job *job)
{
    abx__writing *w = job->state;
    abx_error *err = NULL;
    if (w->why) {
        abx__write_fail(job, w->why);
        return;
    }
    if (job->client->abx || (w->mode < 0 && !w->modified)) {
        move(job);
        return;
    }
    ABX_AUTO_FREE char *script = script_of(w);
    if (abx__envd_command(job, script, w->path, on_arranged, &err) < 0)
        abx__write_fail(job, err);
}
