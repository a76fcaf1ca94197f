#include "host/plugin_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

struct abx_plugin_log {
    char *folder, *path, *older;
    int fd; /* -1: not open */
    bool failed;
};

char *abx_plugin_log_path(const char *home, const char *id, int older)
{
    return abx_format("%s/logs/%s.log%s", home, id, older ? ".1" : "");
}

abx_plugin_log *abx_plugin_log_new(const char *home, const char *id)
{
    abx_plugin_log *log = ABX_NEW(abx_plugin_log);
    log->folder = abx_path_join(home, "logs");
    log->path = abx_plugin_log_path(home, id, 0);
    log->older = abx_plugin_log_path(home, id, 1);
    log->fd = -1;
    return log;
}

void abx_plugin_log_free(abx_plugin_log *log)
{
    if (!log)
        return;
    abx_close_fd(&log->fd);
    free(log->folder);
    free(log->path);
    free(log->older);
    free(log);
}

static int open_file(abx_plugin_log *log)
{
    if (log->fd >= 0)
        return 0;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    log->fd = open(log->path, flags, 0600);
    if (log->fd < 0 && errno == ENOENT && abx_make_dirs(log->folder, 0700, NULL) == 0)
        log->fd = open(log->path, flags, 0600);
    return log->fd < 0 ? -1 : 0;
}

/* True if our file still has its name. */
static bool is_current(const abx_plugin_log *log)
{
    struct stat ours, named;
    return fstat(log->fd, &ours) == 0 && stat(log->path, &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

/* Another process may turn the same file over: who holds its lock does it, and only while it has its name. */
static void turn_over(abx_plugin_log *log)
{
    if (flock(log->fd, LOCK_EX | LOCK_NB) == 0 && is_current(log))
        (void)rename(log->path, log->older);
    abx_close_fd(&log->fd);
}

void abx_plugin_log_write(abx_plugin_log *log, abx_log_level level, const char *line)
{
    struct stat st;
    char time[ABX_RFC3339_SIZE];
    if (log->failed)
        return;
    if (log->fd >= 0 && fstat(log->fd, &st) == 0 && (size_t)st.st_size >= ABX_PLUGIN_LOG_MAX)
        turn_over(log);
    if (open_file(log) < 0) {
        log->failed = true;
        return;
    }
    abx_format_rfc3339(abx_now_wall_ms(), time);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (abx_buf_addf(&text, "%s %d %s %s\n", time, (int)getpid(), abx_log_name(level), line) == 0 &&
        write(log->fd, text.data, text.len) < 0)
        log->failed = true; /* a full disk: the plugin's words are not worth more */
}
