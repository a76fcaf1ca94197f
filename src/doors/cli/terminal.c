#include "doors/cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"

/* Read by a signal handler: set before raw is 1, and never changed while it is. */
static struct termios saved;
static int saved_fd = -1;
static volatile sig_atomic_t raw;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL, SIGABRT,
                                    SIGQUIT, SIGSYS, SIGALRM, SIGXCPU};

void abx_terminal_restore(void)
{
    if (!raw)
        return;
    int keep = errno;
    tcsetattr(saved_fd, TCSANOW, &saved);
    raw = 0;
    errno = keep;
}

static void on_fatal(int sig)
{
    abx_terminal_restore();
    /* The handler was installed with SA_RESETHAND: this ends the process as it would have ended. */
    raise(sig);
}

static void install_handlers(void)
{
    static int installed;
    if (installed++)
        return;
    atexit(abx_terminal_restore);
    struct sigaction act = {.sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < ABX_COUNT(fatal_signals); i++) {
        struct sigaction old;
        /* What is taken already (by a sanitizer, or ignored by the caller) stays. */
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL &&
            !(old.sa_flags & SA_SIGINFO))
            sigaction(fatal_signals[i], &act, NULL);
    }
}

int abx_terminal_raw(int fd, abx_error **err)
{
    if (raw)
        return 0;
    if (tcgetattr(fd, &saved) < 0)
        return abx_fail_errno(err, ABX_ERR_USAGE, errno, "cannot read the mode of the terminal");
    saved_fd = fd;
    install_handlers();
    struct termios mode = saved;
    cfmakeraw(&mode);
    raw = 1;
    if (tcsetattr(fd, TCSANOW, &mode) == 0)
        return 0;
    int error = errno;
    raw = 0;
    return abx_fail_errno(err, ABX_ERR_USAGE, error, "cannot set the mode of the terminal");
}

int abx_terminal_size(int fd, int *cols, int *rows)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        return -1;
    *cols = size.ws_col;
    *rows = size.ws_row;
    return 0;
}
