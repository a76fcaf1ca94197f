#include "doors/cli/ask.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

/* Milliseconds until the deadline of the command line; -1: none. */
static int time_left(const abx_cli *cli)
{
    if (cli->deadline == ABX_FOREVER)
        return -1;
    uint64_t now = abx_now_mono_ms();
    uint64_t ms = cli->deadline > now ? cli->deadline - now : 0;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int abx_wait_readable(abx_cli *cli, int fd, abx_error **err)
{
    if (abx_cli_open_loop(cli, err) < 0) /* it has the signals */
        return -1;
    for (;;) {
        uv_run(&cli->_loop, UV_RUN_NOWAIT);
        if (abx_cli_interrupted(cli))
            return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
        int left = time_left(cli);
        if (left == 0)
            return abx_fail(err, ABX_ERR_TIMEOUT, "nothing came within the time limit");
        struct pollfd wait[] = {{.fd = fd, .events = POLLIN},
                                {.fd = uv_backend_fd(&cli->_loop), .events = POLLIN}};
        int rc = poll(wait, 2, left);
        if ((rc < 0 && errno != EINTR) || (rc > 0 && wait[0].revents))
            return 0; /* the read will tell */
    }
}

int abx_confirm(abx_cli *cli, const char *question, const char *flag, abx_error **err)
{
    if (cli->yes)
        return 1;
    if (cli->no_input || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        abx_fail(err, ABX_ERR_USAGE, "%s: an answer is needed, and nobody can be asked", question);
        return abx_hint(err, "add %s to answer yes", flag);
    }
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (abx_wait_readable(cli, STDIN_FILENO, err) < 0) {
        fputc('\n', stderr);
        return -1;
    }
    char answer[16];
    ssize_t n = read(STDIN_FILENO, answer, sizeof answer - 1);
    return n > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}
