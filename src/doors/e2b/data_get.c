/* GET /files: fs.stat for the head, fs.read for the bytes. */
#include "doors/e2b/data_inner.h"

#include <string.h>

typedef struct download {
    e2b_data *data;
    abx_e2b_get *get; /* NULL: its client is gone */
    char *path, *user;
    bool links;     /* a link's target was asked already */
    bool began;     /* the server has it, and closes it */
    abx_call *call; /* fs.read; NULL: over, or not begun */
    int64_t left;   /* -1: until the end */
    int64_t size;   /* of the file; -1: not known */
} download;

static void download_free(download *f)
{
    e2b_data *d = f->data;
    free(f->path);
    free(f->user);
    free(f);
    e2b_plane_release(d);
}

/* --- the head ------------------------------------------------------------------------------------------------- */
static void refuse(download *f, int status, const char *text)
{
    abx_e2b_fault fault;
    abx_e2b_fault_set(&fault, status, "%s", text);
    abx_e2b_get_fail(f->get, &fault);
    download_free(f);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    download *f = data;
    if (box->state == E2B_RUNNING)
        refuse(f, 503, "E6001: the connection to the sandbox broke");
    else
        refuse(f, 502, "The sandbox was not found");
}

static void on_stat(void *arg, yyjson_val *file, const abx_error *err);

static void look(download *f, const char *path)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(f->data, NULL, &root);
    abx_mut_str(d, root, "path", path);
    abx_mut_str(d, root, "user", f->user);
    e2b_run(f->data, ABX_OP_FS_STAT, d, on_stat, f);
}

/* What the kernel makes up has no size of its own. */
static bool is_made_up(const char *path)
{
    return abx_has_prefix(path, "/proc/") || abx_has_prefix(path, "/sys/");
}

static void on_stat(void *arg, yyjson_val *file, const abx_error *err)
{
    download *f = arg;
    const char *type = abx_json_str(file, "type", "");
    if (e2b_is_gone(err) && !f->data->closing) {
        e2b_box_look(f->data->box, on_looked, f);
        return;
    }
    if (err) {
        ABX_AUTO_FREE char *missing = abx_format("path '%s' does not exist", f->path);
        ABX_AUTO_FREE char *text = e2b_text_of(err);
        refuse(f, e2b_file_status(err), err->id == ABX_ERR_FILE_NOT_FOUND ? missing : text);
        return;
    }
    if (abx_str_eq(abx_json_str(file, "targetType", NULL), "none")) {
        ABX_AUTO_FREE char *text = abx_format("path '%s' does not exist", f->path);
        refuse(f, 404, text);
        return;
    }
    const char *target = abx_json_str(file, "targetPath", NULL);
    if (strcmp(type, "symlink") == 0 && !f->links && target && *target == '/') {
        f->links = true;
        look(f, target);
        return;
    }
    if (strcmp(type, "dir") == 0) {
        ABX_AUTO_FREE char *text = abx_format("path '%s' is a directory", f->path);
        refuse(f, 400, text);
        return;
    }
    abx_e2b_file_info info = {.size = abx_json_int(file, "size", -1), .path = f->path};
    int64_t ms = 0;
    const char *modified = abx_json_str(file, "modifiedAt", NULL);
    if (strcmp(type, "file") != 0 || (info.size == 0 && is_made_up(f->path)))
        info.size = -1;
    if (modified && abx_parse_rfc3339(modified, &ms) == 0)
        info.modified_s = ms / 1000;
    f->size = info.size;
    f->began = true;
    abx_e2b_get_begin(f->get, &info, f);
}

void e2b_get_open(void *data, abx_e2b_get *g, const char *path, const char *user, bool live)
{
    (void)live;
    download *f = ABX_NEW(download);
    f->data = data;
    f->get = g;
    f->path = abx_strdup(path);
    f->user = *user ? abx_strdup(user) : NULL;
    e2b_plane_hold(data);
    look(f, path);
}

/* --- the bytes -------------------------------------------------------------------------------------------------- */
/* What is wanted is there. */
static void finish(download *f)
{
    abx_e2b_get *g = ABX_TAKE(f->get);
    abx_call_resume(f->call);
    abx_e2b_get_end(g);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    download *f = data;
    if (!f->get || n == 0)
        return;
    if (f->left >= 0 && (uint64_t)f->left < n)
        n = (size_t)f->left;
    if (f->left > 0)
        f->left -= (int64_t)n;
    if (n > 0 && !abx_e2b_get_bytes(f->get, bytes, n))
        abx_call_pause(c);
    if (f->left == 0)
        finish(f);
}

/* Before the head was sent the client hears why. */
static void fail(abx_e2b_get *g, const abx_error *err)
{
    ABX_AUTO_FREE char *text = e2b_text_of(err);
    abx_e2b_fault fault;
    abx_e2b_fault_set(&fault, e2b_file_status(err), "%s", text);
    abx_e2b_get_fail(g, &fault);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    download *f = data;
    abx_e2b_get *g = ABX_TAKE(f->get);
    f->call = NULL;
    if (g && !err && f->left <= 0)
        abx_e2b_get_end(g);
    else if (g && err && !e2b_is_gone(err))
        fail(g, err);
    else if (g)
        abx_e2b_get_break(g); /* its length was promised */
    if (!f->began)
        download_free(f);
}

void e2b_get_send(void *file, int64_t offset, int64_t length)
{
    static const abx_call_handlers on = {.on_chunk = on_chunk, .on_end = on_end};
    download *f = file;
    f->left = length;
    if (length == 0) {
        abx_e2b_get_end(ABX_TAKE(f->get));
        return;
    }
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = e2b_params(f->data, NULL, &root);
    abx_mut_str(d, root, "path", f->path);
    abx_mut_str(d, root, "user", f->user);
    if (offset > 0)
        abx_mut_int(d, root, "offset", offset);
    if (length >= 0 && offset + length < f->size)
        abx_mut_int(d, root, "limit", length);
    ABX_AUTO_ERROR err = NULL;
    if (e2b_launch(f->data, ABX_OP_FS_READ, d, &on, f, &f->call, &err) < 0)
        fail(ABX_TAKE(f->get), err);
}

void e2b_get_more(void *file)
{
    const download *f = file;
    if (f->call)
        abx_call_resume(f->call);
}

void e2b_get_close(void *file)
{
    download *f = file;
    f->get = NULL;
    f->began = false;
    if (f->call)
        abx_call_cancel(f->call);
    else
        download_free(f);
}
