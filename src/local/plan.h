/* The whole plan of one sandbox: made and checked before anything runs, so that setting up only follows it. */
#ifndef ABX_LOCAL_PLAN_H
#define ABX_LOCAL_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/mem.h"
#include "local/backend.h"
#include "local/layers.h"
#include "local/limits.h"
#include "local/uplink.h"

#define ABX_ID_MAP_SIZE 160

typedef struct abx_plan {
    char *id, *name;        /* name: host name inside too; NULL: the id */
    char token[2 * 32 + 1]; /* hexadecimal */
    abx_ids ids;
    uint32_t weaker;              /* bits of layers that may be missing */
    uint64_t namespaces;          /* CLONE_NEW… */
    uint64_t timeout_ms, idle_ms; /* idle_ms: 0 is none */
    bool pause_on_limit;
    bool tied;
    bool only_try; /* doctor: end at "ready" instead of serving */
    char **env;    /* "K=V" for each process, NULL at the end */
    abx_limits limits;
    abx_network network;
    abx_uplink_choice uplink; /* the helper of a network */

    uid_t outer_uid; /* host id of `user` */
    gid_t outer_gid;
    char uid_map[ABX_ID_MAP_SIZE], gid_map[ABX_ID_MAP_SIZE]; /* empty: written by newuidmap */
    uint32_t sub_uid, sub_gid;                               /* range: first ids and their count */
    uint32_t sub_uids, sub_gids;
    int slot; /* number of a root caller's slot, or -1 */

    char digest[17];    /* of the skeleton */
    char skeleton[64];  /* how the set-up reaches it from where the layers lie */
    bool copied_root;   /* no overlay: the skeleton was copied to `up` */
    bool usr_overlay;   /* /usr can be written (root caller); else only /usr/local */
    bool local_overlay; /* /usr/local is one (ordinary user) */
    char *upper;        /* where the layers lie when it is not the sandbox's folder, or NULL */

    struct abx_stack *stack; /* layers of a template or a snapshot; NULL: the host's system alone */
    int stack_lock;          /* held until the state names what is used; -1: none */
    char *user, *workdir;    /* of commands that name none; NULL: "user", "/home/user" */
} abx_plan;

/* A plan for spec: ids chosen, maps written out, layers chosen. Nothing is made yet. NULL and *err: a parameter that
 * cannot be honoured, or a layer that this machine cannot give. */
abx_plan *abx_plan_new(abx_local *local, const abx_local_spec *spec, abx_error **err);
void abx_plan_free(abx_plan *plan);
/* Are the skeleton and the host's /usr a part of the root? */
bool abx_plan_on_host(const abx_plan *plan);
/* Which ids a sandbox of this caller would get. with_root: a range is wanted. */
abx_ids abx_ids_wanted(bool with_root);
/* Fill in the maps for slot k. */
void abx_plan_use_slot(abx_plan *plan, int slot);

ABX_DEFINE_AUTO(abx_plan, abx_plan_free)

#endif
