/* Attacks by name. `probe NAME [ARG...]` tries one and says by its exit code what came of it: 0 it worked, 1 it was
 * refused, 2 it could not be tried. */
#ifndef TESTS_PROBE_H
#define TESTS_PROBE_H

#include <errno.h>
#include <stddef.h>

typedef struct probe {
    const char *name;
    /* 0 or more: it worked; -1 with errno: refused. args: what follows the name, NULL at its end; args[-1] is the name. */
    long (*attack)(char **args);
} probe;

/* Each ends with an entry without a name. */
extern const probe probes_file[];
extern const probe probes_kernel[];
extern const probe probes_mount[];
extern const probe probes_ns[];
extern const probe probes_pid1[];
extern const probe probes_socket[];
extern const probe probes_trick[];
extern const probe probes_tty[];

/* In naive.c: a sandbox as one makes it who thinks of namespaces alone: user (all capabilities in it), mount, pid, net,
 * ipc, uts, cgroup. Its pid 1 is an ordinary process that ends at SIGTERM. Returns in pid 2, which goes on. With
 * `at`, a file that can be read and written lies there. */
void enter_naive(const char *at);
/* In grant.c: from now on this system call answers 0, as a kernel does that says yes. */
void grant(const char *call);
/* In file.c: 0: the folder shows an entry; -1 with errno, ENODATA: it is empty. */
long list_folder(const char *path);

#endif
