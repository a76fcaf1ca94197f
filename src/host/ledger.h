/* The ledger: HOME/ledger/, one small JSON file a sandbox, written before the create request leaves and completed
 * after it, so that a killed client leaves no sandbox that nobody knows of. It holds provider, profile and URL,
 * never a secret. Several processes use it at once: each file is replaced atomically, names are claimed by a link. */
#ifndef ABX_HOST_LEDGER_H
#define ABX_HOST_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

typedef struct abx_ledger abx_ledger;

/* One entry; strings are owned by the entry. */
typedef struct abx_ledger_entry {
    char *id;   /* of the sandbox; while it is being made by a provider that chooses ids: NULL */
    char *key;  /* name of the file without .json: the id where we choose it */
    char *name; /* or NULL */
    char *provider;
    char *profile, *url;   /* or NULL */
    char *idempotency_key; /* or NULL */
    bool complete;         /* false: the create request may still be on its way */
    int64_t created_wall_ms;
    int creator_pid; /* who makes it; with start time, to tell a dead creator */
    uint64_t creator_start;
} abx_ledger_entry;

int abx_ledger_open(const char *home, abx_ledger **out, abx_error **err);
void abx_ledger_free(abx_ledger *ledger);
/* Write a new entry with complete = false. A name or idempotency key that a living entry has: CONFLICT, and the holder's
 * key is in *holder (owned) when holder is not NULL. */
int abx_ledger_begin(abx_ledger *ledger, const abx_ledger_entry *entry, char **holder,
                     abx_error **err);
int abx_ledger_complete(abx_ledger *ledger, const char *key, const char *id, const char *url,
                        abx_error **err);
/* Nobody makes the sandbox of this entry any more, and whether it exists is not known: its name is not busy, whoever wrote
 * the entry lives on or not. Absent: success. */
int abx_ledger_give_up(abx_ledger *ledger, const char *key, abx_error **err);
int abx_ledger_remove(abx_ledger *ledger, const char *key, abx_error **err); /* absent: success */
/* All entries, corrupt files named in *bad (owned list "FILE: why", may be empty) instead of failing. */
int abx_ledger_read(abx_ledger *ledger, abx_ledger_entry **entries, size_t *count, char ***bad,
                    size_t *bad_count, abx_error **err);
/* How many entries of a home a provider has; 0 also when they cannot be read. */
size_t abx_ledger_count_of(const char *home, const char *provider);
void abx_ledger_entries_free(abx_ledger_entry *entries, size_t count);
/* One entry by id, name, or unambiguous prefix of an id (4 or more): 0 and *out (clear with _entry_clear);
 * SANDBOX_NOT_FOUND, or CONFLICT with the candidates. One look at one file where the word is a whole id. */
int abx_ledger_find(abx_ledger *ledger, const char *word, abx_ledger_entry *out, abx_error **err);
void abx_ledger_entry_clear(abx_ledger_entry *e);

#endif
