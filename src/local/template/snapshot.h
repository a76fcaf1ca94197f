/* Snapshots: the files that a sandbox changed, kept as a layer of their own over what it was made from. The functions that write
 * block and run in a process of their own (work.h). */
#ifndef ABX_LOCAL_TEMPLATE_SNAPSHOT_H
#define ABX_LOCAL_TEMPLATE_SNAPSHOT_H

#include "local/template/template.h"

/* Snapshots lying over one another before they are merged into one. */
#define ABX_SNAPSHOT_DEPTH 16

/* Copy what the living sandbox `sandbox` changed. Its processes are quiet meanwhile: who calls sees to that. name: or NULL; id:
 * filled in. CONFLICT: the name is taken. */
int abx_snapshot_make(abx_store *s, const char *sandbox, const char *name,
                      const abx_template_progress *progress, char id[ABX_STORE_ID + 1],
                      abx_error **err);
/* The record of an id or a name. NULL and *err (TEMPLATE_NOT_FOUND). */
yyjson_doc *abx_snapshot_read(abx_store *s, const char *word, abx_error **err);
/* The snapshot object: {"id","name","sandbox","template","createdAt","size"}. */
yyjson_mut_val *abx_snapshot_object(yyjson_mut_doc *d, yyjson_val *record);
/* {"snapshots":[…]}, the oldest first. */
int abx_snapshot_list(abx_store *s, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err);
/* Sandboxes that were made from it keep their layers. */
int abx_snapshot_remove(abx_store *s, const char *word, abx_error **err);

#endif
