#include "doors/cli/secret_input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "doors/cli/ask.h"
#include "doors/cli/guard.h"

#define LINE_BYTES 16384 /* of a line, at most */

bool abx_may_ask(const abx_cli *cli)
{
    return !cli->no_input && !cli->stdin_closed && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* Bytes of the first line, without its end. -1 and *err. */
static ssize_t read_line(abx_cli *cli, char text[LINE_BYTES + 1], abx_error **err)
{
    size_t n = 0;
    while (n < LINE_BYTES) {
        if (abx_wait_readable(cli, STDIN_FILENO, err) < 0)
            return -1;
        ssize_t rc = read(STDIN_FILENO, text + n, 1); /* what comes behind the line is not ours */
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            return abx_fail_errno(err, ABX_ERR_USAGE, errno,
                                  "cannot read the value from standard input");
        if (rc == 0 || text[n] == '\n')
            break;
        n++;
    }
    return (ssize_t)(n > 0 && text[n - 1] == '\r' ? n - 1 : n);
}

/* No echo, and no way to leave the terminal like this by stopping the program. */
static void silence(const struct termios *before)
{
    struct termios mode = *before;
    mode.c_lflag &= ~(tcflag_t)ECHO;
    mode.c_cc[VSUSP] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &mode);
}

char *abx_read_secret(abx_cli *cli, const abx_secret_ask *ask, abx_error **err)
{
    struct termios before;
    memset(&before, 0, sizeof before);
    bool hidden = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (hidden && !ask->silent && !abx_may_ask(cli)) {
        abx_fail(err, ABX_ERR_USAGE, "a value is needed, and nobody can be asked");
        abx_hint(err, "give it on standard input: %s", ask->instead);
        return NULL;
    }
    abx_guard_memory();
    if (abx_cli_open_loop(cli, err) < 0) /* a signal must not leave the terminal silent */
        return NULL;
    if (hidden) {
        silence(&before);
        if (abx_may_ask(cli))
            fprintf(stderr, "%s: ", ask->what);
    }
    char text[LINE_BYTES + 1];
    ssize_t n = cli->stdin_closed ? 0 : read_line(cli, text, err);
    if (hidden) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputc('\n', stderr);
    }
    char *value = NULL;
    if (n > 0 && memchr(text, 0, (size_t)n))
        abx_fail(err, ABX_ERR_USAGE, "what standard input holds is no text");
    else if (n >= 0)
        value = abx_strndup(text, (size_t)n);
    explicit_bzero(text, sizeof text);
    return value;
}

char *abx_ask_line(abx_cli *cli, const char *question, abx_error **err)
{
    char text[LINE_BYTES + 1];
    fprintf(stderr, "%s", question);
    fflush(stderr);
    ssize_t n = read_line(cli, text, err);
    if (n < 0) {
        fputc('\n', stderr);
        return NULL;
    }
    return abx_strndup(text, strnlen(text, (size_t)n));
}
