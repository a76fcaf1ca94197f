/* Terminals: input that nobody typed, lines for others. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

/* A terminal of one's own as the controlling one. */
static int own_terminal(void)
{
    int master, slave;
    struct termios raw;
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
        return -1;
    if (getpid() != getsid(0) && setsid() < 0 && fork() > 0)
        _exit(0);
    (void)setsid();
    (void)ioctl(slave, TIOCSCTTY, 0);
    (void)tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    (void)tcsetattr(slave, TCSANOW, &raw);
    return slave;
}

static long inject(unsigned long request)
{
    int tty = own_terminal();
    return tty < 0 ? -1 : syscall(SYS_ioctl, tty, request, "x");
}

static long try_tiocsti(char **args)
{
    return inject(TIOCSTI);
}

/* The kernel looks at the lower half only. */
static long try_high_bits(char **args)
{
    return inject(TIOCSTI | 0xabcdUL << 32);
}

static long try_tioclinux(char **args)
{
    return inject(TIOCLINUX);
}

static long try_tioccons(char **args)
{
    return inject(TIOCCONS);
}

static long try_tiocsetd(char **args)
{
    int line = 0;
    int tty = own_terminal();
    return tty < 0 ? -1 : ioctl(tty, TIOCSETD, &line);
}

/* The caller's terminal, handed on: "/dev/tty", or one of the three. */
static long try_caller_tty(char **args)
{
    for (int fd = 0; fd < 3; fd++)
        if (isatty(fd))
            return 0;
    return open("/dev/tty", O_RDWR | O_CLOEXEC);
}

const probe probes_tty[] = {
    {"tiocsti", try_tiocsti},
    {"tiocsti-high-bits", try_high_bits},
    {"tioclinux", try_tioclinux},
    {"tioccons", try_tioccons},
    {"tiocsetd", try_tiocsetd},
    {"caller-tty", try_caller_tty},
    {NULL, NULL},
};
