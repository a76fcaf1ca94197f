/* POST /files: one fs.write a file. */
#include "doors/e2b/data_inner.h"

#include <string.h>

typedef struct upload {
    e2b_data *data;
    abx_e2b_put *put;
    abx_call *call; /* NULL: over */
    char *path;
    bool open; /* put_close has not come yet */
    abx_e2b_put_done done;
    void *arg;
    abx_e2b_fault fault;
    int64_t size;
} upload;

static void upload_free(upload *u)
{
    e2b_data *d = u->data;
    free(u->path);
    free(u);
    e2b_plane_release(d);
}

static void conclude(upload *u)
{
    abx_e2b_put_info info = {.size = u->size};
    abx_e2b_put_done done = u->done;
    void *arg = u->arg;
    abx_e2b_fault fault = u->fault;
    upload_free(u);
    done(arg, &info, &fault);
}

/* The words of E2B, where the provider has its own. */
static void set_fault(upload *u, const abx_error *err)
{
    ABX_AUTO_FREE char *text = e2b_text_of(err);
    abx_e2b_fault_set(&u->fault, e2b_file_status(err), "%s", text);
}

static void on_writable(abx_call *c, void *data)
{
    (void)c;
    const upload *u = data;
    if (u->open)
        abx_e2b_put_more(u->put);
}

static void on_looked(void *data, e2b_box *box, const abx_error *err)
{
    (void)err;
    upload *u = data;
    if (box->state != E2B_RUNNING)
        abx_e2b_fault_set(&u->fault, 502, "The sandbox was not found");
    conclude(u);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    upload *u = data;
    u->call = NULL;
    if (err)
        set_fault(u, err);
    if (u->open)
        abx_e2b_put_more(u->put); /* its next write tells the server */
    else if (e2b_is_gone(err) && !u->data->closing)
        e2b_box_look(u->data->box, on_looked, u);
    else
        conclude(u);
}

void *e2b_put_open(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f)
{
    static const abx_call_handlers on = {.on_writable = on_writable, .on_end = on_end};
    e2b_data *d = data;
    upload *u = ABX_NEW(upload);
    u->data = d;
    u->put = o->put;
    u->path = abx_strdup(path);
    u->open = true;
    e2b_plane_hold(d);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = e2b_params(d, NULL, &root);
    abx_mut_str(params, root, "path", path);
    abx_mut_str(params, root, "user", *o->user ? o->user : NULL);
    if (o->size >= 0)
        abx_mut_int(params, root, "size", o->size);
    yyjson_mut_val *meta = o->meta_count > 0 ? abx_mut_obj(params, root, "metadata") : NULL;
    for (size_t i = 0; i < o->meta_count; i++)
        abx_mut_str(params, meta, o->meta[i].key, o->meta[i].value);
    ABX_AUTO_ERROR err = NULL;
    if (e2b_launch(d, ABX_OP_FS_WRITE, params, &on, u, &u->call, &err) == 0)
        return u;
    set_fault(u, err);
    *f = u->fault;
    upload_free(u);
    return NULL;
}

int e2b_put_write(void *file, const uint8_t *bytes, size_t n)
{
    upload *u = file;
    if (!u->call)
        return -1;
    u->size += (int64_t)n;
    return abx_call_write(u->call, bytes, n);
}

void e2b_put_close(void *file, bool whole, abx_e2b_put_done done, void *arg)
{
    upload *u = file;
    u->open = false;
    u->done = done;
    u->arg = arg;
    if (!u->call) {
        if (u->fault.status == 0) /* the end came before all bytes had */
            abx_e2b_fault_set(&u->fault, 500, "error writing file: it was closed too early");
        conclude(u);
    } else if (whole) {
        abx_call_write_end(u->call);
    } else {
        abx_call_cancel(u->call);
    }
}
