#include "doors/cli/follow_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/stream.h"

#define PIECE   ((size_t)64 * 1024)
#define LOOK_MS 200 /* between two looks at a file that is followed */

typedef struct reading {
    abx_sink sink;
    const char *path;
    int fd;
    ino_t inode;
} reading;

/* Pass on what there is. 0 or -1. */
static int copy(reading *r, abx_error **err)
{
    ABX_AUTO_FREE char *piece = abx_alloc(PIECE);
    ssize_t n;
    while (r->fd >= 0 && (n = read(r->fd, piece, PIECE)) > 0)
        if (abx_sink_write(&r->sink, piece, (size_t)n, err) < 0)
            return -1;
    return 0;
}

static int show_older(reading *r, const char *path, abx_error **err)
{
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int rc = copy(r, err);
    abx_close_fd(&r->fd);
    return rc;
}

/* Open the file that has the name now, if it is another one than before. */
static void reopen(reading *r)
{
    struct stat st;
    if (stat(r->path, &st) < 0 || (r->fd >= 0 && st.st_ino == r->inode))
        return;
    abx_close_fd(&r->fd);
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd >= 0 && fstat(r->fd, &st) == 0)
        r->inode = st.st_ino;
}

static void on_look(uv_timer_t *t)
{
    (void)t; /* only wakes the loop */
}

static int follow(abx_cli *cli, reading *r, abx_error **err)
{
    uv_timer_t timer;
    int rc = 0;
    ABX_CHECK(uv_timer_init(&cli->_loop, &timer) == 0);
    ABX_CHECK(uv_timer_start(&timer, on_look, LOOK_MS, LOOK_MS) == 0);
    while (rc == 0 && !abx_cli_interrupted(cli)) {
        rc = copy(r, err); /* all of the old one, before a new one takes its name */
        reopen(r);
        if (rc == 0)
            rc = copy(r, err);
        if (rc == 0)
            abx_cli_turn(cli);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    return rc < 0 ? -1 : abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
}

int abx_follow_file(abx_cli *cli, const char *older, const char *path, bool follows,
                    abx_error **err)
{
    reading r = {.path = path, .fd = -1};
    abx_sink_open(&r.sink, cli, STDOUT_FILENO);
    int rc = older ? show_older(&r, older, err) : 0;
    if (rc == 0) {
        reopen(&r);
        rc = follows ? follow(cli, &r, err) : copy(&r, err);
    }
    abx_sink_close(&r.sink);
    abx_close_fd(&r.fd);
    return rc;
}
