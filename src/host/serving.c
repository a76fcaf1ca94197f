#include "host/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abx_build.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#define FILE_MAX ((size_t)64 * 1024)

struct abx_serving {
    int fd; /* the lock */
    char *file;
};

static struct flock whole_file(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static int open_lock(const char *home, const char *name, int flags, abx_error **err)
{
    ABX_AUTO_FREE char *leaf = abx_format("%s.lock", name);
    ABX_AUTO_FREE char *path = abx_path_join(home, leaf);
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && (errno != ENOENT || (flags & O_CREAT)))
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot open '%s'", path);
    return fd;
}

static char *file_path(const char *home, const char *name)
{
    ABX_AUTO_FREE char *leaf = abx_format("%s.json", name);
    return abx_path_join(home, leaf);
}

/* A record lock of the process: it tells others its holder, no child inherits it, and it ends with the process. */
int abx_serving_begin(const char *home, const char *name, abx_serving **out, abx_error **err)
{
    ABX_AUTO_FD fd = open_lock(home, name, O_RDWR | O_CREAT, err);
    if (fd < 0)
        return -1;
    struct flock lock = whole_file(F_WRLCK);
    if (fcntl(fd, F_SETLK, &lock) < 0) {
        if (errno == EACCES || errno == EAGAIN)
            return 1;
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot lock '%s/%s.lock'", home, name);
    }
    abx_serving *s = ABX_NEW(abx_serving);
    s->fd = abx_take_fd(&fd);
    s->file = file_path(home, name);
    (void)unlink(s->file); /* of one that was killed */
    *out = s;
    return 0;
}

int abx_serving_publish(abx_serving *s, yyjson_mut_doc *doc, abx_error **err)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    char now[ABX_RFC3339_SIZE];
    abx_format_rfc3339(abx_now_wall_ms(), now);
    abx_mut_int(doc, root, "pid", getpid());
    abx_mut_str(doc, root, "version", ABX_VERSION);
    abx_mut_str(doc, root, "startedAt", now);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    if (abx_json_write_mut(root, &text) < 0 || abx_buf_add_byte(&text, '\n') < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "'%s' would be too long", s->file);
    return abx_write_atomic(s->file, text.data, text.len, 0600, false, err);
}

void abx_serving_retire(abx_serving *s)
{
    (void)unlink(s->file);
}

void abx_serving_end(abx_serving *s)
{
    if (!s)
        return;
    (void)unlink(s->file);
    abx_close_fd(&s->fd);
    free(s->file);
    free(s);
}

/* A text of the file may be shown to somebody: it is one plain line. */
static bool is_plain(yyjson_val *root)
{
    yyjson_obj_iter members = yyjson_obj_iter_with(root);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
        const char *text = yyjson_get_str(yyjson_obj_iter_get_val(key));
        if (abx_has_control(yyjson_get_str(key)) || (text && abx_has_control(text)))
            return false;
    }
    return !abx_json_has_nul(root);
}

/* The file of the living server; NULL without an error while it is not there or is that of an older one. */
static int read_info(const char *path, pid_t pid, yyjson_doc **info, abx_error **err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0
                               : abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        abx_fail(err, ABX_ERR_HOME,
                 "'%s' holds a key and is not a file that only its owner can read", path);
        return abx_hint(err, "stop the server and start it again: the file is written anew");
    }
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    int rc = abx_read_file(path, FILE_MAX, &text, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_HOME, path, err);
    if (!doc)
        return -1;
    int64_t writer = abx_json_int(yyjson_doc_get_root(doc), "pid", 0);
    int64_t port = abx_json_int(yyjson_doc_get_root(doc), "port", 0);
    bool broken = !is_plain(yyjson_doc_get_root(doc));
    if (broken || writer <= 0 || port <= 0 || port > 65535) {
        abx_fail(err, ABX_ERR_HOME, "'%s' %s", path,
                 broken ? "is broken: it holds control characters"
                        : "does not tell where the server is");
        return abx_hint(err, "stop the server and start it again: the file is written anew");
    }
    if (writer == pid)
        *info = ABX_TAKE(doc);
    return 0;
}

int abx_serving_find(const char *home, const char *name, pid_t *pid, yyjson_doc **info,
                     abx_error **err)
{
    if (info)
        *info = NULL;
    abx_error *why = NULL;
    ABX_AUTO_FD fd = open_lock(home, name, O_RDWR, &why);
    if (fd < 0)
        return why ? abx_error_take(err, why) : 1;
    struct flock lock = whole_file(F_WRLCK);
    if (fcntl(fd, F_GETLK, &lock) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot ask for the lock of '%s'", name);
    if (lock.l_type == F_UNLCK)
        return 1;
    *pid = lock.l_pid;
    ABX_AUTO_FREE char *path = file_path(home, name);
    return info ? read_info(path, lock.l_pid, info, err) : 0;
}
