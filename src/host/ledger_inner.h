/* Shared by ledger*.c only.
 *
 *      HOME/ledger/KEY.json    one entry
 *      HOME/ledger/names/NAME  a symbolic link to KEY: the name is taken
 *      HOME/ledger/keys/…      the same for idempotency keys
 *      HOME/ledger/ids/ID      the same for ids that a provider chose (the key is another one then)
 *      HOME/ledger/.lock       held (flock) while links change; it ends with its holder
 *
 * A link whose entry is not there is stale: it means nothing and is replaced by the next claim. The link is made
 * before the entry and removed after it, so a process that is killed in between leaves at most a stale link. */
#ifndef ABX_HOST_LEDGER_INNER_H
#define ABX_HOST_LEDGER_INNER_H

#include "host/ledger.h"

struct abx_ledger {
    char *path; /* HOME/ledger */
};

typedef enum abx_claim { ABX_CLAIM_NAME, ABX_CLAIM_KEY, ABX_CLAIM_ID } abx_claim;

/* ledger_file.c; dir: descriptor of HOME/ledger */
bool abx__ledger_key_ok(const char *key); /* usable as a file name */
/* 0: *out is filled; 1: no such entry; -1: unreadable or corrupt (*err names the file). */
int abx__ledger_load(const abx_ledger *l, int dir, const char *key, abx_ledger_entry *out,
                     abx_error **err);
/* Write an entry; fresh: it must not exist yet (1 when it does). 0, 1, -1. */
int abx__ledger_save(const abx_ledger *l, int dir, const abx_ledger_entry *e, bool fresh,
                     abx_error **err);

/* ledger_claim.c */
/* Waits for the lock, at most some seconds. A descriptor to close, or -1. */
int abx__ledger_lock(const abx_ledger *l, int dir, abx_error **err);
/* The key that a link names (owned), or NULL. */
char *abx__ledger_claimed(int dir, abx_claim claim, const char *word);
/* Point the link at key, whatever it pointed at. 0 or -1. Under the lock. */
int abx__ledger_claim(const abx_ledger *l, int dir, abx_claim claim, const char *word,
                      const char *key, abx_error **err);
/* Remove the link if it points at key. Under the lock. */
void abx__ledger_disclaim(int dir, abx_claim claim, const char *word, const char *key);
/* Name of the link of a word inside its folder, with the folder: "names/…"; owned. */
char *abx__ledger_link(abx_claim claim, const char *word);
/* What such a name stands for, without the folder; owned, NULL if it cannot be known (a very long word). */
char *abx__ledger_unlink_name(const char *name);

#endif
