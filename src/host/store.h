/* The store of providers: HOME/providers. docs/providers/store.md describes it for people and for other languages.
 *
 *      ID/                      an installed plugin, with the store's own two files in it (store_tree.h): its receipt, and
 *                               the list of what was installed
 *      ID -> .links/X/plugin    a link for development: .links/X holds the receipt and `plugin`, which leads to the folder
 *      .lock                    held (flock) by who changes something; it ends with its holder
 *      .new-*, .old-*, .was-*   what is being made, removed or replaced: of a killed run if nobody holds the lock
 *
 * One rename puts a plugin and its receipt in place, or takes both away, so whoever reads, without the lock, sees the old one or the
 * new one. All functions block; any thread. */
#ifndef ABX_HOST_STORE_H
#define ABX_HOST_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "host/plugin.h"
#include "host/store_tree.h"

#define ABX_RECEIPT_SCHEMA 1

/* What the receipt of an installed plugin says. */
typedef struct abx_store_entry {
    char *id, *name, *version, *description; /* description may be NULL */
    abx_provider_kind kind;
    abx_trust trust;
    char *source;       /* the folder or archive (absolute path), or "catalog" */
    char *installed_at; /* RFC 3339, UTC */
    char *tree_sha256;  /* 64 hexadecimal digits; NULL for a link */
    uint64_t entries, bytes;
    bool consent[ABX_CORE_COUNT];
    char *folder; /* absolute path of the plugin's files: in the store, or where the link leads */
    /* Why it cannot be used (no receipt, a broken one, one of a newer schema): then only id is certain. NULL: all is well so
     * far; the files were not looked at. */
    abx_error *problem;
} abx_store_entry;

void abx_store_entry_clear(abx_store_entry *entry);
void abx_store_entries_free(abx_store_entry *entries, size_t count);

/* Everything that is installed, by id; receipts only. Broken ones are in the list with their problem. 0 (also when there is no
 * store), or -1 and *err. What killed runs left behind is removed if nobody is at work. */
int abx_store_list(const char *home, abx_store_entry **entries, size_t *count, abx_error **err);
/* One of them. -1: PROVIDER_NOT_FOUND, or the problem of its receipt. */
int abx_store_look_up(const char *home, const char *id, abx_store_entry *out, abx_error **err);
/* True if something is installed under this id, be it broken. */
bool abx_store_has(const char *home, const char *id);

/* Load a plugin for use: the receipt is read, the digest of its tree recomputed and compared in constant time, the manifest parsed
 * from the bytes that were hashed, the program opened by the descriptor that was hashed. For a link nothing is compared. *out for
 * abx_plugin_free. -1: PROVIDER_NOT_FOUND; PROVIDER_INTEGRITY; what is wrong with the manifest. task: NULL, or asked now and then. */
int abx_store_load(const char *home, const char *id, abx_plugin **out, abx_error **err);
int abx_store_load_task(const char *home, const char *id, const abx_store_task *task,
                        abx_plugin **out, abx_error **err);

/* --- changes: prepare, look, commit ------------------------------------------------------------------- */

typedef enum abx_store_step {
    ABX_STORE_NEW,
    ABX_STORE_SAME, /* the same tree, trust and version are installed: commit only writes another consent, if it differs */
    ABX_STORE_UPGRADE,
    ABX_STORE_DOWNGRADE,
    ABX_STORE_REPLACE /* the same version with other files or another trust, or what was there cannot be read */
} abx_store_step;

/* A plugin that lies ready beside the installed one. Holds the store's lock until it is freed. */
typedef struct abx_store_change {
    abx_manifest *manifest;
    abx_store_step step;
    abx_store_entry
        now; /* what commit will put there; consent: as it will be, the caller may change it */
    abx_store_entry then; /* what is there (id NULL: nothing) */
    /* Common keys that it asks for and that are not given by `now.consent` yet. */
    bool asks[ABX_CORE_COUNT];
    struct abx_store_work *work; /* private */
} abx_store_change;

/* Is a SOURCE a path ("/" in it, or ".tar.gz" at its end)? Else it is an id of the catalog. */
bool abx_store_is_path(const char *source);
/* Make a copy of a plugin ready. source: a path when it holds a "/" or ends in ".tar.gz", else an id of the catalog (store_catalog.h).
 * Nothing is executed. Consent that was given before is kept, if the trust is the same. NULL and *err: FILE_NOT_FOUND,
 * PROVIDER_NOT_FOUND (catalog), FILE (an entry is refused, by its name), TOO_LARGE, NO_SPACE, the manifest's problems, CONFLICT
 * (another run holds the lock for long), what the tick said. */
abx_store_change *abx_store_prepare(const char *home, const char *source,
                                    const abx_store_task *task, abx_error **err);
/* The same for a link to a folder. */
abx_store_change *abx_store_prepare_link(const char *home, const char *folder,
                                         const abx_store_task *task, abx_error **err);
/* Put it in place. Killed at any moment, the old one or the new one is there, whole. A key in now.consent that the manifest does not
 * ask for: USAGE. 0, or -1 and *err (then the old one is there; after a failed write of the folder itself it may be the new one). */
int abx_store_commit(abx_store_change *change, abx_error **err);
/* Ends a change, committed or not, and gives the lock back. NULL allowed. */
void abx_store_change_free(abx_store_change *change);
ABX_DEFINE_AUTO(abx_store_change, abx_store_change_free)

/* Take a plugin away, in whatever state it is. A link's folder is not touched. -1: PROVIDER_NOT_FOUND, … */
int abx_store_uninstall(const char *home, const char *id, const abx_store_task *task,
                        abx_error **err);

#endif
