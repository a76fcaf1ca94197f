/* What runs in the new process, between its birth and envd: the steps follow the plan and never parse. Each step
 * returns 0, or -1 after abx_refused has noted the layer, the step and errno. Nothing here prints; the report
 * travels to the creator over the first connection. */
#ifndef ABX_LOCAL_SETUP_H
#define ABX_LOCAL_SETUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "local/cgroup.h"
#include "local/layers.h"
#include "local/plan.h"

#define ABX_REPORT_MAGIC 0x61627830u

typedef enum abx_report_kind {
    ABX_REPORT_BORN = 'B', /* waits for its id maps */
    ABX_REPORT_UPLINK =
        'U', /* its net namespace is there: the helper may join; it goes on meanwhile */
    ABX_REPORT_READY = 'R',   /* serves */
    ABX_REPORT_REFUSED = 'E', /* layer, error and step say what was refused */
} abx_report_kind;

/* The creator's word to go on: ids are mapped. PLAIN: the clone of /usr has no mapped ids and cannot be laid under. */
#define ABX_GO          'G'
#define ABX_GO_PLAIN    'P'
/* A second byte says which clones come along, in this order. */
#define ABX_GO_USR      1u
#define ABX_GO_SKELETON 2u
#define ABX_GO_LAYERS   4u
#define ABX_GO_CLONES   3

/* One message of the hand-shake; fixed size, same program on both ends. */
typedef struct abx_setup_report {
    uint32_t magic;
    int32_t kind;
    int32_t layer;
    int32_t error;     /* errno */
    uint32_t weakened; /* bits of layers that were left out */
    uint32_t
        plain_usr; /* 1: the host's /usr could not be put under a private layer and is read-only */
    char step[104];
} abx_setup_report;

/* The process that makes the net namespace; net_helper.c */
typedef struct abx_net_helper {
    int pid, fd, error;
    const char *step; /* what failed */
    void *stack;
} abx_net_helper;

typedef struct abx_setup {
    const abx_plan *plan;
    int folder;                /* where the layers lie: it becomes the working directory */
    const char *skeleton_path; /* absolute, where the layers lie elsewhere; or NULL */
    int pair;                  /* the first connection */
    int creator_end; /* our copy of its other end; closed first, else the creator's death is no end of file */
    int listener, lock;
    abx_cgroups *groups; /* of the sandbox; none made: empty */
    int layer;           /* the private layer, for counting what it holds; -1 */
    int skeleton;        /* clones sent by a root caller, or -1: see mounts.c */
    int usr;
    int layers;               /* clone of the store of layers; or -1 */
    const char *layers_path;  /* absolute; for a caller who can walk there; or NULL */
    bool plain_usr;           /* see ABX_GO_PLAIN */
    int root_userns;          /* nested namespace for "root" with a single id, or -1 */
    bool own_net;             /* the net namespace is the sandbox's own */
    int hold;                 /* the pipe by which the helper of its network sees its end; or -1 */
    abx_prefix *own_prefixes; /* what must not be reached; owned, for a sandbox with a network */
    size_t own_prefix_count;
    abx_net_helper net;
    abx_setup_report report;
} abx_setup;

/* Note that the kernel refused a step (errno is kept). Returns -1, or 0 when the plan allows this layer to be
 * missing: then the sandbox goes on without it. */
int abx_refused(abx_setup *s, abx_layer layer, const char *step, ...) ABX_PRINTF(3, 4);

/* Send a report to the creator; ends this process when there is none any more. */
void abx_setup_tell(abx_setup *s, abx_report_kind kind);

/* The whole of it; never returns. */
_Noreturn void abx_setup_main(abx_setup *s);

/* Steps, in order; the working directory is where the layers lie, until abx_mount_usr. */
int abx_enter_groups(abx_setup *s); /* limits.c */
int abx_set_affinity(abx_setup *s);
int abx_wait_for_maps(abx_setup *s); /* ids.  setup_ids.c */
int abx_take_inside_ids(abx_setup *s);
int abx_make_root_userns(abx_setup *s);
int abx_mount_root(abx_setup *s); /* mounts.c */
int abx_mount_usr(abx_setup *s);
int abx_show_layer(abx_setup *s);
int abx_mount_stack(abx_setup *s); /* mount_stack.c; a root of templates' layers alone */
int abx_reach_layers(abx_setup *s);
#define ABX_STACK_AT   "/tmp" /* where the store of layers is attached meanwhile */
#define ABX_STACK_ROOT ABX_STACK_AT "/m"
/* The lower layers of the plan's stack with `below` behind them, for an overlay; owned. NULL, errno is set. */
char *abx_stack_option(abx_setup *s, const char *below);
int abx_mount_proc(abx_setup *s); /* mount_kernel.c */
int abx_mount_dev(abx_setup *s);
int abx_mask_proc(abx_setup *s);
int abx_enter_root(abx_setup *s);
int abx_lock_proc(abx_setup *s);
int abx_write_own_files(abx_setup *s); /* own_files.c */
int abx_start_net(abx_setup *s);       /* net_helper.c */
int abx_join_net(abx_setup *s);
int abx_note_own_routes(abx_setup *s); /* uplink_inside.c */
int abx_ask_uplink(abx_setup *s);
int abx_join_uplink(abx_setup *s);
int abx_set_sysctls(abx_setup *s); /* limits.c */
int abx_set_names(abx_setup *s);
int abx_raise_rlimits(abx_setup *s); /* rlimits.c; those that the set-up itself needs */
int abx_set_rlimits(abx_setup *s);
int abx_drop_caps(abx_setup *s);   /* caps.c */
int abx_bound_exec(abx_setup *s);  /* landlock.c */
int abx_base_filter(abx_setup *s); /* seccomp.c */

/* In a command's process between vfork and exec; async-signal-safe. data: the abx_plan. 0 or an errno. caps.c */
int abx_lock_child(void *data);
/* The child's filter alone. 0 or an errno. seccomp.c */
int abx_child_filter(void);
/* One more, under which no space is taken in advance (fallocate). The same. */
int abx_no_fallocate_filter(void);

/* Forget what this process's command line and environment said, in place. wipe.c */
void abx_wipe_origin(void);

#endif
