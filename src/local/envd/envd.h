/* pid 1 of a local sandbox: init and envd in one process. Entered by local/ after the last privileged step of
 * the set-up; never returns. */
#ifndef ABX_LOCAL_ENVD_ENVD_H
#define ABX_LOCAL_ENVD_ENVD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/protocols.h"

#define ABX_ENVD_VERSION ABX_PROTOCOL_ENVD /* what we report; see docs/envd.md for differences */

/* How a command's process gets its ids: with one id outside, "root" is a nested user namespace. */
typedef struct abx_envd_user {
    const char *name; /* "user", "root" */
    uid_t uid;        /* inside */
    gid_t gid;
    const char *home;
    const char *shell;
    int userns_fd; /* join this namespace first; -1: none */
    bool has_caps; /* keep the small capability set (an id range exists) */
} abx_envd_user;

typedef struct abx_envd_config {
    int listen_fd;          /* bound, not yet listening: pid 1 calls listen() */
    int first_fd;           /* the creator's connection, already past the hand-shake; -1: none */
    bool tied;              /* exit when first_fd's connection ends */
    int lock_fd;            /* held for life, never inherited by commands */
    int log_fd;             /* append-only log, or -1 */
    const char *id;         /* sandbox id */
    const char *name;       /* host name inside */
    const char *token;      /* access token that every request must bear */
    uint64_t timeout_ms;    /* from now; ABX_FOREVER: none */
    const char *const *env; /* "K=V" for every process, NULL at the end */
    const char *workdir;    /* "/home/user" */
    bool has_range;         /* real uid/gid 0..65535 exist inside */
    uint32_t max_processes;
    /* The next two are 0 or -1 where there is none. cgroup.procs of the commands' own control group: each command
     * writes itself there. And a file that counts processes killed for memory (abx_cgroup_kills). */
    int commands_fd, events_fd;
    int layer_fd; /* the private layer, for looking only; 0 or -1: none */
    /* Sizes that were asked for (0: none), for metrics; and the same where pid 1 is to watch them: guard.c. */
    uint64_t memory_size, memory_limit, disk_size, disk_limit;
    uint32_t cpu_millis;
    uint64_t reserve_bytes; /* of the disk below, left free; 0: not watched */
    bool disk_is_memory;    /* files of the sandbox lie in memory */
    int freeze_fd,
        frozen_fd; /* of the same group: abx_cgroup_ask_freeze, _see_frozen; 0 or -1: stop them by signals */
    /* Called once when the loop serves (listening): tells the creator that commands can run. */
    void (*ready)(void *data);
    void *ready_data;
    /* Make (once) and return the descriptor of the nested user namespace for root; -1 with errno. NULL when
     * has_range. */
    int (*root_userns)(void *data);
    void *root_userns_data;
    /* Runs in each command's process between vfork and exec (async-signal-safe only): installs the child
     * seccomp filter. 0 or an errno. */
    int (*lock_child)(void *data);
    void *lock_child_data;
    /* The rest may be left 0. */
    uint64_t idle_ms;    /* so long without a request or an open stream: as if its time were over */
    bool pause_on_limit; /* when its time is over: pause instead of ending */
    const char *default_user; /* NULL: "user" */
    const char *passwd;       /* file that names the users, NULL: "/etc/passwd" */
    const char *group;        /* NULL: "/etc/group" */
    /* /proc/self/oom_score_adj, opened for writing while pid 1 was dumpable; 0 or -1: none. Commands get their
     * score from the start then, else right after exec. */
    int oom_fd;
} abx_envd_config;

/* Serve until the sandbox ends. The strings of *config are copied; its descriptors are taken over. */
_Noreturn void abx_envd_main(const abx_envd_config *config);

/* The same server as a part of another program, on its loop: what pid 1 does for the whole pid namespace (reaping
 * orphans, signals, memory) is left out, each process is awaited by its pidfd. listen_fd may be -1.
 * on_end: the time limit passed or, when tied, the first connection ended. Runs once, on the loop; NULL allowed. */
typedef struct abx_envd abx_envd;
int abx_envd_open(uv_loop_t *loop, const abx_envd_config *config, void (*on_end)(void *data),
                  void *data, abx_envd **out, abx_error **err);
/* One more connected stream socket, taken over. */
int abx_envd_adopt(abx_envd *e, int fd, abx_error **err);
/* Also listen on TCP, for tests with clients that know only URLs. */
int abx_envd_listen_tcp(abx_envd *e, const char *ip, int port, int *bound_port, abx_error **err);
/* Break off all connections, KILL all that was started, then cb(data) once; cb may be NULL. */
void abx_envd_close(abx_envd *e, void (*cb)(void *data), void *data);

#endif
