/* Where templates and snapshots lie, below HOME/local:
 *   layers/NAMEk      one layer as a folder; NAME: 16 hexadecimal digits of its digest, k: how its files are owned
 *   layers/NAME.json  what it is (the whole digest, sizes); NAME.own: the owners that the archive named
 *   layers/m          empty: where a sandbox's root is mounted, in its own mount namespace
 *   templates/ID/     template.json; ID: 16 digits of the template's digest
 *   templates/names/  links NAME → ID
 *   snapshots/ID/     snapshot.json
 * What has its name is whole and never changed; what is being made has a name with ".new-" and is locked by its maker.
 * Two locks: `templates.lock` is held shared by who makes a sandbox or a snapshot, until its state names what it uses, and alone by
 * who removes; `layers.lock` is held shared while something is added, and alone while unused layers are removed. */
#ifndef ABX_LOCAL_TEMPLATE_STORE_H
#define ABX_LOCAL_TEMPLATE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "local/backend.h"
#include "local/template/oci.h"

#define ABX_STORE_ID    16 /* digits of a name */
#define ABX_LAYER_NAME  (ABX_STORE_ID + 1)
#define ABX_STORE_MOUNT "m"

typedef struct abx_store {
    abx_local *local;                        /* borrowed */
    int layers, templates, names, snapshots; /* folders; -1: not there yet */
} abx_store;

/* Open the folders; make: and make what is not there. 0, or -1 and *err. */
int abx_store_open(abx_local *local, bool make, abx_store *out, abx_error **err);
void abx_store_close(abx_store *s);

typedef enum abx_store_lock { ABX_LOCK_USE, ABX_LOCK_LAYERS } abx_store_lock;
/* Take a lock: shared or alone; wait: until it is free. A descriptor that holds it; -1 and *err (CONFLICT: busy, without wait). */
int abx_store_take(abx_store *s, abx_store_lock which, bool alone, bool wait, abx_error **err);

/* The letter of a kind of owners: 's' all the caller's, 'r' ids of the caller's range, 'o' ids as inside (root caller). */
char abx_store_kind(abx_ids ids);
/* NAMEk of a digest. */
void abx_store_layer_name(const char *digest, char kind, char out[ABX_LAYER_NAME + 1]);
/* Is this layer there: 1, 0; -1 and *err: another layer has its name. kind 0: in any form, which *found is set to. */
int abx_store_has_layer(abx_store *s, const char *digest, char kind, char *found, abx_error **err);

/* --- what is being made ------------------------------------------------------------------------------ */
typedef struct abx_new_layer {
    int fd; /* the folder, empty at first, locked */
    char temp[32];
    abx_store *store;
} abx_new_layer;

int abx_new_layer_begin(abx_store *s, abx_new_layer *out, abx_error **err);
/* Give it its name: first the description and the owners (NULL: none), then the folder. One that is there already stays and ours
 * goes. */
int abx_new_layer_commit(abx_new_layer *n, const char *digest, char kind, yyjson_mut_val *about,
                         const abx_buf *owners, abx_error **err);
void abx_new_layer_clear(abx_new_layer *n); /* removes what was not committed; twice is allowed */

/* Write FOLDER/ID/FILE for templates and snapshots: whole or not at all. One that is there stays. */
int abx_store_record(abx_store *s, int folder, const char *id, const char *file, yyjson_mut_val *v,
                     abx_error **err);
/* Read it. NULL without *err: there is none. */
yyjson_doc *abx_store_read(int folder, const char *id, const char *file, abx_error **err);

/* --- names ------------------------------------------------------------------------------------------- */
/* True for what may be a template's name: as a sandbox's, with '.', '_' too; not "host". */
bool abx_is_template_name(const char *s);
/* The id of a name or of an id: 1, 0: there is none. */
int abx_store_find(abx_store *s, const char *word, char id[ABX_STORE_ID + 1]);
/* Link the name to the id. CONFLICT when it leads elsewhere. */
int abx_store_name(abx_store *s, const char *name, const char *id, abx_error **err);

/* --- removal ----------------------------------------------------------------------------------------- */
/* Remove a tree of the store, also one whose files belong to ids of the range. */
int abx_store_remove(int folder, const char *name, abx_error **err);
/* Remove what nothing refers to: layers, half-made ones, records without content. Skipped while somebody adds. Returns how many
 * things went; dry: would go. */
int abx_store_sweep(abx_store *s, bool dry);

#endif
