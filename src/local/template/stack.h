/* What lies under the private layer of a sandbox that is not made from the host's system alone: the layers of a template, of
 * snapshots, or both. Looking it up is quick. */
#ifndef ABX_LOCAL_TEMPLATE_STACK_H
#define ABX_LOCAL_TEMPLATE_STACK_H

#include <stdbool.h>

#include "local/template/store.h"

#define ABX_STACK_MAX 160 /* layers */

typedef struct abx_stack {
    /* What the sandbox's state keeps of it: {"name","templateId","snapshot","lower","host","flat","config"}. lower: names of the
     * layers, "NAMEk:NAMEk", the highest first. */
    yyjson_doc *origin;
    const char *lower;  /* of origin, as the rest */
    yyjson_val *config; /* env, user, uid, workdir, command; or NULL */
    bool on_host;       /* the skeleton and the host's /usr lie below */
    bool flat;          /* the one layer is a whole root: it is copied, never laid under */
    bool missing;       /* layers are not there in this form: abx_template_prepare first */
    bool range_only;    /* … and they are there only with ids of the caller's range */
} abx_stack;

/* The stack of a template (name or id) or of a snapshot (id or name), for sandboxes with these ids. Exactly one is given. NULL and
 * *err: TEMPLATE_NOT_FOUND, CONFLICT (a snapshot made with other ids). */
abx_stack *abx_stack_find(abx_store *s, const char *template_word, const char *snapshot,
                          abx_ids ids, abx_error **err);
void abx_stack_free(abx_stack *stack); /* NULL allowed */
/* The overlay's option: each layer below `at`, with ':' between, or "" for none. Owned. */
char *abx_stack_lower(const abx_stack *stack, const char *at);
/* Copy all layers as one tree to `up` in folder `to`, for a machine without overlay. shift: added to each owner; 0: all is the
 * caller's. Blocks. */
int abx_stack_copy(abx_store *s, const abx_stack *stack, int to, uid_t shift, abx_error **err);

#endif
