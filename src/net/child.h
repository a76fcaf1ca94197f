/* A child process on a libuv loop, started by our own spawn and awaited by its pidfd: no SIGCHLD, no
 * signal handler, so a library may use it. The child gets exactly the three standard descriptors and one
 * more (fd 3) if asked, an environment from a list, its own process group, default signal actions and
 * an empty mask. */
#ifndef ABX_NET_CHILD_H
#define ABX_NET_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

typedef struct abx_child abx_child;

/* A program of somebody else's, kept apart: a session of its own (so a group, too), umask 022, no core file; it is KILLed when
 * the thread that started it ends (net/keeper.h), and bears a mark that what it starts inherits (net/kin.h). */
typedef struct abx_child_apart {
    uint64_t mark; /* of abx_kin_mark */
    /* Run this descriptor instead of options.path (which then is only its name in errors); borrowed; -1: none. */
    int program_fd;
    /* It begins with "#!": it needs its own text as descriptor 3, which its interpreter opens as /dev/fd/3. */
    bool is_script;
} abx_child_apart;

typedef struct abx_child_options {
    const char *path;             /* program, looked up on PATH of envp when without '/' */
    char *const *argv;            /* NULL at the end */
    char *const *envp;            /* the whole environment, NULL at the end */
    const char *cwd;              /* or NULL */
    int stdio[3];                 /* descriptors that become 0, 1, 2 (borrowed); -1: /dev/null */
    int fd3;                      /* becomes descriptor 3 (borrowed); -1: none */
    const abx_child_apart *apart; /* or NULL */
    struct abx_keeper *keeper;    /* whose thread starts it; NULL: this one */
    /* Once, on the loop, when the child has ended and was reaped; c is gone after it. status as of waitpid;
     * exit code 255 when somebody else in this process reaped it. */
    void (*on_exit)(abx_child *c, int status, void *data);
    void *data;
} abx_child_options;

/* Returns 0 and *out; -1 and *err (START_FAILED) also when exec fails (the cause is told). */
int abx_child_start(uv_loop_t *loop, const abx_child_options *options, abx_child **out,
                    abx_error **err);
pid_t abx_child_pid(const abx_child *c);
/* Signal the whole process group. */
void abx_child_signal(abx_child *c, int sig);
/* Forget the child: on_exit will not run; it is reaped in the background when it ends, and does not keep
 * the loop alive (but the loop cannot be closed before that). */
void abx_child_release(abx_child *c);

#endif
