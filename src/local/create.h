/* Parts of making a sandbox that have their own files. */
#ifndef ABX_LOCAL_CREATE_H
#define ABX_LOCAL_CREATE_H

#include "local/backend.h"
#include "local/cgroup.h"
#include "local/plan.h"
#include "local/setup.h"
#include "local/state.h"

/* --- create.c --- */
/* How a try went, for doctor: which layer was refused, or left out. */
typedef struct abx_attempt {
    abx_setup_report report;
    bool copied_root;
} abx_attempt;
/* abx_local_create with a plan that is made already (taken over, also on failure). attempt: filled before cb, or
 * NULL. With plan->only_try everything is removed before cb, which then gets no info. */
int abx_create_planned(abx_local *local, abx_plan *plan, const abx_local_spec *spec,
                       abx_attempt *attempt, abx_local_created_cb cb, void *data, abx_error **err);

/* --- clone.c --- */
/* Start pid 1 in the namespaces of the plan; in the new process abx_setup_main runs and never returns. Returns the
 * host pid and *pidfd; -1 and *err (ISOLATION, names the layer that is refused). A layer that may be missing is left
 * out of plan->namespaces when the kernel refuses it. */
pid_t abx_clone(abx_setup *setup, abx_plan *plan, int *pidfd, abx_error **err);

/* --- slot_maps.c: root caller --- */
/* Write the maps of pid's user namespace. */
int abx_write_maps(pid_t pid, const abx_plan *plan, abx_error **err);
/* Clones for a root caller's sandbox; -1: none. */
typedef struct abx_layers {
    int skeleton, usr, layers;
    bool plain_usr; /* usr has no mapped ids: the host's file system cannot */
} abx_layers;
/* Clones of the skeleton, of /usr and of the store of layers, as far as the plan needs them, with the ids of pid's namespace. Not
 * even the skeleton, or not the layers: returns 1 (they must be copied). */
int abx_idmapped_layers(abx_local *local, pid_t pid, const abx_plan *plan, abx_layers *out,
                        abx_error **err);
/* Let the new process go on, with the clones. */
int abx_send_go(int pair, const abx_layers *layers, abx_error **err);

/* --- upper.c --- */
/* Can the folder hold an upper layer? Else another place is chosen (plan->upper, made, noted in the folder), else
 * plan->copied_root is set. */
int abx_upper_choose(abx_local *local, int folder_fd, abx_plan *plan, abx_error **err);
/* Remove the layers that this folder's note names, if any. */
int abx_upper_remove(int folder_fd, uint64_t until_ms);

/* --- hints.c --- */
/* Does this errno tell of a limit that is reached, and nothing about the isolation? */
bool abx_is_shortage(int e);
/* Fill *err (QUOTA) for such an errno, with a hint. Returns -1. */
int abx_shortage_error(abx_error **err, int e, const char *step);
/* Fill *err for a refused layer, with the hint for what is found on this machine; QUOTA for a shortage. Returns -1. */
int abx_layer_error(abx_error **err, abx_layer layer, int e, const char *step);
/* The fix to print for a refused layer, or NULL. Caller frees. */
char *abx_layer_fix(abx_layer layer, int e);

/* --- info.c --- */
/* The sandbox object of a state. */
yyjson_mut_val *abx_state_object(yyjson_mut_doc *d, const abx_state *state);

#endif
