#include "doors/cli/code_results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

typedef enum format_kind { TEXT, BASE64, TREE } format_kind;

typedef struct format {
    const char *key, *mime, *ending;
    format_kind kind;
    bool is_file; /* worth a file, and a note where it is not shown */
} format;

/* In the order in which one is chosen to be shown: the first text there is. */
static const format FORMATS[] = {
    {"text", "text/plain", "txt", TEXT, false},
    {"markdown", "text/markdown", "md", TEXT, true},
    {"latex", "text/latex", "tex", TEXT, true},
    {"json", "application/json", "json", TREE, true},
    {"html", "text/html", "html", TEXT, true},
    {"svg", "image/svg+xml", "svg", TEXT, true},
    {"javascript", "application/javascript", "js", TEXT, true},
    {"png", "image/png", "png", BASE64, true},
    {"jpeg", "image/jpeg", "jpg", BASE64, true},
    {"pdf", "application/pdf", "pdf", BASE64, true},
    {"data", "data", "data.json", TREE, true},
    {"chart", "chart", "chart.json", TREE, true},
};

/* --- files ---------------------------------------------------------------------------------------------- */
int abx_code_files_open(abx_code_files *f, const char *dir, abx_error **err)
{
    memset(f, 0, sizeof *f);
    f->_dir_fd = -1;
    f->dir = dir;
    if (!dir)
        return 0;
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot make folder '%s'", dir);
    f->_dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->_dir_fd < 0)
        return abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot open folder '%s'", dir);
    char now[ABX_RFC3339_SIZE];
    abx_format_rfc3339(abx_now_wall_ms() / 1000 * 1000, now);
    size_t k = 0; /* 20260131-120000 */
    for (const char *p = now; *p && *p != 'Z' && k + 1 < sizeof f->_run; p++)
        if (*p == 'T')
            f->_run[k++] = '-';
        else if (*p >= '0' && *p <= '9')
            f->_run[k++] = *p;
    return 0;
}

void abx_code_files_close(abx_code_files *f)
{
    if (f->_dir_fd >= 0)
        abx_close_fd(&f->_dir_fd);
}

/* A new file in the folder, by a name of ours. -1 and *err. */
static int new_file(abx_code_files *f, const char *ending, char name[64], abx_error **err)
{
    for (;;) {
        (void)snprintf(name, 64, "%s-%u.%s", f->_run, ++f->_count, ending);
        int fd =
            openat(f->_dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST || f->_count == UINT32_MAX)
            return fd >= 0 ? fd
                           : abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot write '%s/%s'",
                                            f->dir, name);
    }
}

static int save(abx_code_files *f, const format *kind, const void *bytes, size_t n, char **path,
                abx_error **err)
{
    char name[64];
    ABX_AUTO_FD fd = new_file(f, kind->ending, name, err);
    if (fd < 0)
        return -1;
    if (abx_write_full(fd, bytes, n) < 0) {
        int error = errno;
        (void)unlinkat(f->_dir_fd, name, 0); /* half a picture is of no use */
        return abx_fail_errno(err, ABX_ERR_FILE, error, "cannot write '%s/%s'", f->dir, name);
    }
    free(*path);
    *path = abx_format("%s/%s", f->dir, name);
    return 0;
}

/* --- what it is ------------------------------------------------------------------------------------------- */
static unsigned big16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* Width and height from the head of a picture; false when it does not say. */
static bool picture_size(const format *kind, const uint8_t *p, size_t n, unsigned *w, unsigned *h)
{
    if (strcmp(kind->key, "png") == 0) {
        if (n < 24 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0)
            return false;
        *w = big16(p + 16) << 16 | big16(p + 18);
        *h = big16(p + 20) << 16 | big16(p + 22);
        return true;
    }
    if (strcmp(kind->key, "jpeg") != 0 || n < 4 || p[0] != 0xff || p[1] != 0xd8)
        return false;
    for (size_t i = 2; i + 9 < n && p[i] == 0xff;) {
        bool frame = p[i + 1] >= 0xc0 && p[i + 1] <= 0xcf && p[i + 1] != 0xc4 && p[i + 1] != 0xc8 &&
                     p[i + 1] != 0xcc;
        if (frame) {
            *h = big16(p + i + 5);
            *w = big16(p + i + 7);
            return true;
        }
        i += 2 + big16(p + i + 2);
    }
    return false;
}

static int add_note(abx_buf *notes, const format *kind, const void *bytes, size_t n,
                    const char *path)
{
    char size[32];
    unsigned w = 0, h = 0;
    if (n < 1000)
        (void)snprintf(size, sizeof size, "%zu bytes", n);
    else
        (void)snprintf(size, sizeof size, "%zu kB", (n + 500) / 1000);
    ABX_AUTO_FREE char *safe = path ? abx_printable(path) : NULL;
    int rc = abx_buf_addf(notes, "[%s", kind->mime);
    if (picture_size(kind, bytes, n, &w, &h))
        rc |= abx_buf_addf(notes, " %ux%u", w, h);
    rc |= abx_buf_addf(notes, ", %s]%s%s\n", size, safe ? " " : "", safe ? safe : "");
    return rc;
}

/* --- one format --------------------------------------------------------------------------------------------- */
/* The bytes of a member, owned; NULL when it is not what its format says. */
static uint8_t *bytes_of(const format *kind, yyjson_val *v, size_t *n)
{
    if (kind->kind == TREE) {
        char *text = abx_json_text(v);
        *n = strlen(text);
        return (uint8_t *)text;
    }
    if (!yyjson_is_str(v))
        return NULL;
    *n = yyjson_get_len(v);
    if (kind->kind == BASE64)
        return abx_base64_bytes(yyjson_get_str(v), *n, ABX_BASE64_STANDARD, n);
    return (uint8_t *)abx_strndup(yyjson_get_str(v), *n);
}

static int show_format(abx_code_files *f, const format *kind, yyjson_val *v, bool shown,
                       abx_buf *out, abx_buf *notes, char **saved, abx_error **err)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes = bytes_of(kind, v, &n);
    if (!bytes)
        return 0;
    char *path = NULL;
    if (kind->is_file && f->dir && save(f, kind, bytes, n, &path, err) < 0)
        return -1;
    int rc = 0;
    if (shown)
        rc = abx_buf_add(out, bytes, n) < 0 || abx_buf_add_byte(out, '\n') < 0;
    if (path || (kind->kind == BASE64 && !shown))
        rc |= add_note(notes, kind, bytes, n, path);
    ABX_CHECK(rc == 0);
    if (path && saved) {
        free(*saved);
        *saved = ABX_TAKE(path);
    }
    free(path);
    return 0;
}

int abx_code_show(abx_code_files *f, yyjson_val *result, abx_buf *out, abx_buf *notes, char **saved,
                  abx_error **err)
{
    bool shown = false;
    for (size_t i = 0; i < ABX_COUNT(FORMATS); i++) {
        yyjson_val *v = yyjson_obj_get(result, FORMATS[i].key);
        bool show = v && !shown && FORMATS[i].kind != BASE64 && strchr(FORMATS[i].mime, '/');
        shown = shown || show;
        if (v && show_format(f, &FORMATS[i], v, show, out, notes, saved, err) < 0)
            return -1;
    }
    return 0;
}
