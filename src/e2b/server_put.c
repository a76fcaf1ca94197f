/* POST /files: one raw body, or multipart with a file a part; gzip of the whole body on both. */
#include "e2b/server_inner.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "wire/multipart.h"

enum {
    MAX_META = 64,
    META_TOTAL = 4096,
    META_KEY = 246,
    META_PREFIX_LEN = 9,
    FIRST_STEP = 1024,
    MAX_KEPT = 1024 * 1024,
    MANY_PENDING = 8 /* files that are being closed: more wait until there are fewer */
};

struct abx_e2b_put {
    abx_e2b_server *server;
    abx_exchange *x; /* NULL when the client is gone */
    abx__seat seat;
    bool file_full; /* the file takes no more now */
    bool many;      /* too many are being closed */
    bool rest;      /* gzip data of the last bytes waits */
    abx_buf kept;   /* bytes of parts that wait */
    char *user;
    char *path; /* of the query, NULL: by the parts' names */
    abx__gunzip *gz;
    bool is_multipart;
    bool multipart_open;
    abx_multipart multipart;
    void *file; /* that is being written */
    char *file_path;
    char **paths; /* of all files so far, NULL at the end */
    size_t path_count;
    abx_e2b_meta meta[MAX_META];
    size_t meta_count;
    int mode;
    bool whole, has_modified;
    struct timespec modified;
    int64_t want_size; /* -1: not told */
    int64_t size;
    bool sizes; /* tell them */
    yyjson_mut_doc *doc;
    yyjson_mut_val *list;
    size_t pending; /* files that are being closed */
    bool body_done;
    bool replied;
};

/* --- end of it ------------------------------------------------------------------------------------------ */
static void put_free(abx_e2b_put *p)
{
    abx__seat_free(&p->seat);
    free(p->user);
    free(p->path);
    free(p->file_path);
    abx__gunzip_free(p->gz);
    abx_buf_clear(&p->kept);
    if (p->multipart_open)
        abx_multipart_clear(&p->multipart);
    for (size_t i = 0; i < p->path_count; i++)
        free(p->paths[i]);
    free(p->paths);
    for (size_t i = 0; i < p->meta_count; i++)
        free((char *)(uintptr_t)p->meta[i].key);
    yyjson_mut_doc_free(p->doc);
    free(p);
}

static void refuse(abx_e2b_put *p, const abx_e2b_fault *f)
{
    if (p->replied || !p->x)
        return;
    p->replied = p->seat.answered = true;
    abx__reply_fault(p->x, f);
}

static void refuse_text(abx_e2b_put *p, int status, const char *text)
{
    abx_e2b_fault f;
    abx_e2b_fault_set(&f, status, "%s", text);
    refuse(p, &f);
}

static void finish(abx_e2b_put *p)
{
    if (!p->body_done || p->pending > 0 || p->replied || !p->x)
        return;
    if (p->want_size >= 0 && p->size != p->want_size) {
        abx_e2b_fault f;
        abx_e2b_fault_set(&f, 400, "expected %" PRId64 " bytes, got %" PRId64, p->want_size,
                          p->size);
        refuse(p, &f);
        return;
    }
    ABX_AUTO_BUF body = ABX_BUF((size_t)16 * 1024 * 1024);
    if (abx_json_write_mut(p->list, &body) < 0) {
        refuse_text(p, 500, "the answer is too long");
        return;
    }
    p->replied = p->seat.answered = true;
    abx__lines l;
    abx__lines_init(&l, p->x, true);
    abx__lines_add(&l, "Content-Type: application/json");
    abx_exchange_reply_with(p->x, 200, l.items, l.count, body.data, body.len);
}

/* --- holds ------------------------------------------------------------------------------------------------ */
static bool is_held(const abx_e2b_put *p)
{
    return p->file_full || p->many;
}

static void hold(abx_e2b_put *p, bool *why)
{
    *why = true;
    if (p->x)
        abx_exchange_pause(p->x);
}

static void take_kept(abx_e2b_put *p);
static void unpack_rest(abx_e2b_put *p);

static bool keeps_nothing(const abx_e2b_put *p)
{
    return !is_held(p) && p->kept.len == 0 && !p->rest;
}

static void let_go(abx_e2b_put *p, bool *why)
{
    if (!*why)
        return;
    *why = false;
    if (p->kept.len > 0 && !is_held(p))
        take_kept(p);
    if (p->rest && p->kept.len == 0 && !is_held(p))
        unpack_rest(p);
    if (keeps_nothing(p) && p->x)
        abx_exchange_resume(p->x);
}

void abx_e2b_put_more(abx_e2b_put *p)
{
    let_go(p, &p->file_full);
}

/* --- one file --------------------------------------------------------------------------------------------- */
static void file_done(void *arg, const abx_e2b_put_info *info, const abx_e2b_fault *f)
{
    abx_e2b_put *p = arg;
    p->pending--;
    if (p->pending < MANY_PENDING / 2)
        let_go(p, &p->many);
    if (f->status != 0)
        refuse(p, f);
    p->size += info->size;
    if (p->sizes && p->pending == 0 && yyjson_mut_arr_size(p->list) > 0)
        abx_mut_int(p->doc, yyjson_mut_arr_get_last(p->list), "size", info->size);
    if (p->x)
        finish(p);
    else if (p->pending == 0)
        put_free(p);
}

static void file_close(abx_e2b_put *p, bool whole)
{
    if (!p->file)
        return;
    if (whole) {
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(p->doc, p->list);
        ABX_AUTO_FREE char *shown = abx__shown(p->file_path);
        abx_mut_str(p->doc, o, "name", abx_path_base(shown));
        abx_mut_str(p->doc, o, "path", shown);
        abx_mut_str(p->doc, o, "type", "file");
        yyjson_mut_val *meta = p->meta_count > 0 ? abx_mut_obj(p->doc, o, "metadata") : NULL;
        for (size_t i = 0; i < p->meta_count; i++)
            abx_mut_str(p->doc, meta, p->meta[i].key, p->meta[i].value);
    }
    if (++p->pending >= MANY_PENDING)
        hold(p, &p->many);
    p->file_full = false; /* whatever waits for the file goes with it */
    if (keeps_nothing(p) && p->x)
        abx_exchange_resume(p->x);
    p->server->filling->put_close(ABX_TAKE(p->file), whole, file_done, p); /* p may be gone then */
}

/* 0, or -1: refused. */
static int file_open(abx_e2b_put *p, const char *path)
{
    abx_e2b_fault f = {0};
    free(p->file_path);
    p->file_path = p->server->filling->resolve(p->server->data, path, p->user, &f);
    if (!p->file_path) {
        refuse(p, &f);
        return -1;
    }
    for (size_t i = 0; i < p->path_count; i++)
        if (strcmp(p->paths[i], p->file_path) == 0) {
            abx_e2b_fault_set(&f, 400,
                              "you cannot upload multiple files to the same path '%s' in one "
                              "upload request, only the first specified file was uploaded",
                              p->file_path);
            refuse(p, &f);
            return -1;
        }
    p->paths = abx_realloc(p->paths, (p->path_count + 1) * sizeof(*p->paths));
    p->paths[p->path_count++] = abx_strdup(p->file_path);
    abx_e2b_put_options o = {.put = p,
                             .user = p->user,
                             .mode = p->mode,
                             .whole = p->whole,
                             .size = p->want_size,
                             .has_modified = p->has_modified,
                             .modified = p->modified,
                             .meta = p->meta,
                             .meta_count = p->meta_count};
    p->file = p->server->filling->put_open(p->server->data, p->file_path, &o, &f);
    if (!p->file)
        refuse(p, &f);
    return p->file ? 0 : -1;
}

static int on_part(const abx_multipart_part *part, void *user)
{
    abx_e2b_put *p = user;
    if (strcmp(part->name, "file") != 0)
        return 0;
    const char *path = p->path ? p->path : part->filename;
    if (!path) {
        refuse_text(p, 400,
                    "error getting multipart custom part file name: filename not found in "
                    "Content-Disposition header");
        return -1;
    }
    return file_open(p, path);
}

static int on_data(const uint8_t *bytes, size_t n, void *user)
{
    abx_e2b_put *p = user;
    int rc = p->file && n > 0 ? p->server->filling->put_write(p->file, bytes, n) : 1;
    if (rc == 0)
        hold(p, &p->file_full);
    if (rc >= 0)
        return 0;
    file_close(p, false); /* its end says what went wrong */
    return -1;
}

static int on_part_end(void *user)
{
    file_close(user, true);
    return 0;
}

static const abx_multipart_handlers PARTS = {on_part, on_data, on_part_end};

/* --- the body ----------------------------------------------------------------------------------------------- */
/* 0; -1: refused, or the file's end will tell why. */
static int feed_parts(abx_e2b_put *p, const uint8_t *bytes, size_t n)
{
    ABX_AUTO_ERROR err = NULL;
    int rc = abx_multipart_feed(&p->multipart, bytes, n, &err);
    if (rc < 0) {
        file_close(p, false);
        abx_e2b_fault f;
        abx_e2b_fault_set(&f, 500, "error parsing multipart form: %s", abx_error_text(err));
        refuse(p, &f);
    }
    return rc == 0 ? 0 : -1;
}

/* 0; 1: no more now; -1: refused, or the file's end will tell why. */
static int take(void *arg, const uint8_t *bytes, size_t n)
{
    abx_e2b_put *p = arg;
    if (!p->is_multipart)
        return on_data(bytes, n, p) < 0 ? -1 : is_held(p);
    size_t step = FIRST_STEP; /* many small files in one piece do not all begin at once */
    while (n > 0) {
        size_t len = step < n ? step : n, files = p->path_count;
        if (feed_parts(p, bytes, len) < 0)
            return -1;
        bytes += len;
        n -= len;
        step = p->path_count == files ? step * 4 : FIRST_STEP;
        if (!is_held(p) || n == 0)
            continue;
        if (abx_buf_add(&p->kept, bytes, n) < 0) {
            refuse_text(p, 500, "too many bytes wait");
            return -1;
        }
        return 1;
    }
    return is_held(p);
}

/* Some of the body went through: rc of the gzip reader, or of take. */
static void took(abx_e2b_put *p, int rc)
{
    p->rest = p->gz && rc == 1;
    if (rc >= 0)
        return;
    if (rc == -1 && p->gz && !p->replied) {
        file_close(p, false);
        refuse_text(p, 400,
                    "error decompressing request body: failed to create gzip reader: "
                    "gzip: invalid header");
    }
    if (!p->replied)
        p->body_done = true; /* the file's end will tell why */
}

static void take_kept(abx_e2b_put *p)
{
    ABX_AUTO_BUF kept = p->kept;
    abx_buf_init(&p->kept, MAX_KEPT);
    if (p->replied || p->body_done || !p->x)
        return;
    int rc = take(p, kept.data, kept.len);
    if (rc < 0)
        took(p, -2);
}

static void unpack_rest(abx_e2b_put *p)
{
    p->rest = false;
    if (!p->replied && !p->body_done && p->x)
        took(p, abx__gunzip_go_on(p->gz, take, p));
}

static void on_body(abx_exchange *x, const uint8_t *bytes, size_t n, void *data)
{
    (void)x;
    abx_e2b_put *p = data;
    if (!p->replied && !p->body_done)
        took(p, p->gz ? abx__gunzip_feed(p->gz, bytes, n, take, p) : take(p, bytes, n));
}

static void on_body_end(abx_exchange *x, void *data)
{
    (void)x;
    abx_e2b_put *p = data;
    if (p->replied || p->body_done)
        return;
    if (p->gz && !abx__gunzip_whole(p->gz)) {
        file_close(p, false);
        refuse_text(p, 400,
                    "error decompressing request body: failed to create gzip reader: unexpected "
                    "EOF");
        return;
    }
    if (p->is_multipart && abx_multipart_end(&p->multipart, NULL) < 0) {
        file_close(p, false);
        refuse_text(p, 500, "error writing file: unexpected EOF");
        return;
    }
    p->body_done = true;
    if (!p->is_multipart)
        file_close(p, true);
    finish(p);
}

static void on_close(abx_exchange *x, bool complete, void *data)
{
    (void)x;
    (void)complete;
    abx_e2b_put *p = data;
    p->x = NULL;
    abx__seat_leave(&p->seat);
    abx__use_end(p->server);
    if (p->file) {
        file_close(p, false); /* frees p when that is over */
        return;
    }
    if (p->pending == 0)
        put_free(p);
}

/* --- the head ------------------------------------------------------------------------------------------------- */
/* Metadata headers. 0, or -1: f. */
static int read_meta(abx_e2b_put *p, abx_e2b_fault *f)
{
    static const char PREFIX[] = "x-metadata-";
    const abx_http_headers *h = abx_exchange_headers(p->x);
    size_t total = 0;
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->items[i].name, *value = h->items[i].value;
        if (strncasecmp(name, PREFIX, sizeof(PREFIX) - 1) != 0 || !name[sizeof(PREFIX) - 1])
            continue;
        char *key = abx_strdup(name + sizeof(PREFIX) - 1);
        bool known = false;
        for (char *k = key; *k; k++)
            *k = (char)tolower((unsigned char)*k);
        for (size_t k = 0; k < p->meta_count; k++)
            known = known || strcmp(p->meta[k].key, key) == 0;
        if (known || p->meta_count == MAX_META) {
            free(key);
            continue;
        }
        p->meta[p->meta_count++] = (abx_e2b_meta){key, value};
        if (strlen(key) > META_KEY) {
            abx_e2b_fault_set(f, 400, "invalid metadata: metadata key exceeds %d bytes", META_KEY);
            return -1;
        }
        for (const unsigned char *v = (const unsigned char *)value; *v; v++)
            if (*v < 0x20 || *v > 0x7e) {
                abx_e2b_fault_set(f, 400,
                                  "invalid metadata: metadata value for key \"%s\" contains "
                                  "non-printable-ASCII byte 0x%02x at offset %zu",
                                  key, *v, (size_t)(v - (const unsigned char *)value));
                return -1;
            }
        total += META_PREFIX_LEN + strlen(key) + strlen(value);
    }
    if (total <= META_TOTAL)
        return 0;
    abx_e2b_fault_set(f, 400, "invalid metadata: total metadata size %zu exceeds %d bytes", total,
                      META_TOTAL);
    return -1;
}

/* "SECONDS.NNNNNNNNN", seconds since 1970, nine digits of a second. 0, or -1. */
static int parse_time(const char *text, struct timespec *out)
{
    char seconds[24];
    const char *dot = strchr(text, '.');
    const char *digits = text[0] == '-' ? text + 1 : text;
    uint64_t s = 0, ns = 0;
    if (!dot || dot < digits || (size_t)(dot - digits) >= sizeof seconds || strlen(dot + 1) != 9)
        return -1;
    memcpy(seconds, digits, (size_t)(dot - digits));
    seconds[dot - digits] = 0;
    if (abx_parse_uint(seconds, INT64_MAX, &s) < 0 || abx_parse_uint(dot + 1, 999999999, &ns) < 0)
        return -1;
    *out = (struct timespec){text[0] == '-' ? -(time_t)s : (time_t)s, (long)ns};
    return 0;
}

/* Our additions to the query. 0, or -1: f. */
static int read_query(abx_e2b_put *p, abx_e2b_fault *f)
{
    p->mode = -1;
    p->want_size = -1;
    if (!p->server->http)
        return 0;
    ABX_AUTO_FREE char *mode = abx_exchange_query_get(p->x, "abx_mode");
    ABX_AUTO_FREE char *size = abx_exchange_query_get(p->x, "abx_size");
    ABX_AUTO_FREE char *abx = abx_exchange_query_get(p->x, "abx");
    ABX_AUTO_FREE char *whole = abx_exchange_query_get(p->x, "abx_whole");
    ABX_AUTO_FREE char *modified = abx_exchange_query_get(p->x, "abx_mtime");
    p->sizes = abx_str_eq(abx, "1");
    p->whole = abx_str_eq(whole, "1");
    if (modified && parse_time(modified, &p->modified) < 0) {
        abx_e2b_fault_set(f, 400, "abx_mtime is not a time: %s", modified);
        return -1;
    }
    p->has_modified = modified != NULL;
    if (mode) {
        char *end = NULL;
        long value = strtol(mode, &end, 8);
        if (!*mode || *end || value < 0 || value > 07777) {
            abx_e2b_fault_set(f, 400, "abx_mode is not an octal mode: %s", mode);
            return -1;
        }
        p->mode = (int)value;
    }
    uint64_t bytes = 0;
    if (size && abx_parse_uint(size, INT64_MAX, &bytes) < 0) {
        abx_e2b_fault_set(f, 400, "abx_size is not a size: %s", size);
        return -1;
    }
    if (size)
        p->want_size = (int64_t)bytes;
    return 0;
}

/* What the head says about the body. 0, or -1: f. */
static int read_head(abx_e2b_put *p, abx_e2b_fault *f)
{
    const char *coding = abx_exchange_header(p->x, "Content-Encoding");
    if (coding && strcasecmp(coding, "gzip") == 0) {
        p->gz = abx__gunzip_new();
    } else if (coding && *coding && strcasecmp(coding, "identity") != 0) {
        abx_e2b_fault_set(f, 400,
                          "error decompressing request body: unsupported Content-Encoding: %s, "
                          "supported: [gzip]",
                          coding);
        return -1;
    }
    if (!p->server->filling->has_user(p->server->data, p->user)) {
        abx_e2b_fault_set(f, 401, "error looking up user '%s': user: unknown user %s", p->user,
                          p->user);
        return -1;
    }
    if (read_meta(p, f) < 0 || read_query(p, f) < 0)
        return -1;
    const char *type = abx_exchange_header(p->x, "Content-Type");
    size_t n = type ? strcspn(type, "; ") : 0;
    if (type && strncasecmp(type, "multipart/", 10) == 0) {
        char boundary[ABX_MULTIPART_BOUNDARY_MAX + 1];
        p->is_multipart = true;
        if (abx_multipart_boundary(type, boundary) < 0) {
            abx_e2b_fault_set(f, 500,
                              "error parsing multipart form: no multipart boundary param "
                              "in Content-Type");
            return -1;
        }
        abx_multipart_init(&p->multipart, boundary, &PARTS, p);
        p->multipart_open = true;
        return 0;
    }
    if (n == 24 && strncasecmp(type, "application/octet-stream", n) == 0) {
        if (!p->server->http && !p->gz)
            p->want_size = abx_exchange_content_length(p->x);
        if (p->path)
            return 0;
        abx_e2b_fault_set(f, 400, "path query parameter is required for raw body upload");
        return -1;
    }
    abx_e2b_fault_set(f, 400,
                      "unsupported content type: %s, expected multipart/form-data or "
                      "application/octet-stream",
                      type ? type : "");
    return -1;
}

void abx__put_start(abx_e2b_server *s, abx_exchange *x)
{
    if (abx__sign_check(s, x, "write") < 0)
        return;
    abx_e2b_put *p = ABX_NEW(abx_e2b_put);
    yyjson_mut_val *root = NULL;
    p->server = s;
    p->x = x;
    abx_buf_init(&p->kept, MAX_KEPT);
    p->doc = abx_mut_new(&root);
    p->list = yyjson_mut_arr(p->doc);
    char *user = abx_exchange_query_get(x, "username");
    if (!user || !*user) {
        free(user);
        user = abx_strdup(s->default_user);
    }
    p->user = user;
    p->path = abx_exchange_query_get(x, "path");
    if (p->path && !*p->path) {
        free(p->path);
        p->path = NULL;
    }
    abx_exchange_handlers handlers = {
        .on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
    abx__use_begin(s);
    abx__seat_take(s, &p->seat, x);
    abx_exchange_handle(x, &handlers, p);
    abx_exchange_limit_body(x, UINT64_MAX);
    abx_e2b_fault f = {0};
    if (read_head(p, &f) < 0)
        refuse(p, &f);
    else if (!p->is_multipart)
        (void)file_open(p, p->path);
}
