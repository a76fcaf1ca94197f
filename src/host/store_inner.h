/* Shared by store*.c only. */
#ifndef ABX_HOST_STORE_INNER_H
#define ABX_HOST_STORE_INNER_H

#include "host/store.h"

/* --- store_place.c: the folder and its lock ----------------------------------------------------------- */

#define ABX_STORE_NEW_PREFIX ".new-"
#define ABX_STORE_OLD_PREFIX ".old-"
#define ABX_STORE_WAS_PREFIX                                                                       \
    ".was-" /* and the id: moved aside where two names cannot be exchanged */
#define ABX_STORE_LINKS ".links"

/* Open HOME/providers for reading. A descriptor; -1 and no *err when there is none; -1 and *err when it may not be used (HOME: another's,
 * or others may write to it). */
int abx__store_open(const char *home, abx_error **err);
/* The same for a change: made if need be, the lock taken (waits a while: CONFLICT), what killed runs left removed. *lock is the lock's
 * descriptor; closing it ends the lock. -1 and *err. */
int abx__store_open_locked(const char *home, const abx_store_task *task, int *lock,
                           abx_error **err);
/* Remove what killed runs left; under the lock. */
void abx__store_sweep(int dir);
/* The same if nobody holds the lock. */
void abx__store_sweep_quietly(int dir);
/* Nothing is called `id`: is it because it was moved aside (ABX_STORE_WAS_PREFIX)? Then wait for who did that, or put it back, and answer
 * true. Keeps errno. */
bool abx__store_put_back(int dir, const char *id);
/* PREFIX and random letters; owned. */
char *abx__store_fresh_name(const char *prefix);
/* Put `name` in the place of `id` in one step; what was there, if anything, is then called `name`. Durable. 0, or -1 and *err. */
int abx__store_switch(int dir, const char *name, const char *id, abx_error **err);
/* Write an open tree of so many entries to the disk. 0, or -1 and *err. */
int abx__store_sync(int fd, uint64_t entries, abx_error **err);

/* --- store_receipt.c ---------------------------------------------------------------------------------- */

/* Text of a receipt, for the file. */
void abx__receipt_write(const abx_store_entry *entry, abx_buf *out);
/* Read one. file names it in errors. 0 and *out, or -1 and *err (PROVIDER_INTEGRITY). */
int abx__receipt_parse(const char *id, const char *file, const void *text, size_t n,
                       abx_store_entry *out, abx_error **err);
/* What is installed under an id: 0 and *out, 1 when nothing is, -1 and *err. *folder_fd (may be NULL): the plugin's folder, O_PATH. */
int abx__receipt_read(const char *home, int dir, const char *id, abx_store_entry *out,
                      int *folder_fd, abx_error **err);

/* --- store_copy.c, store_archive.c -------------------------------------------------------------------- */

/* Copy the folder `from` into the empty folder `to`: contents, links and the right to execute; nothing else of a mode, no owner, no
 * time. 0, or -1 and *err (FILE with the entry's name, …). */
int abx__store_copy(int from, int to, const abx_store_task *task, abx_error **err);
/* The mode of a file in the store: 0755 if its owner may execute it, else 0644. */
mode_t abx__store_mode(mode_t mode);
/* Unpack a .tar.gz (a regular file, open) into the empty folder `to`, by the same rules. name: for errors. */
int abx__store_unpack(int fd, const char *name, int to, const abx_store_task *task,
                      abx_error **err);

/* --- store_load.c ------------------------------------------------------------------------------------- */

/* What another user owns or can write to is not run. link: root's folders are good too. 0, or -1 and *err (PROVIDER_INTEGRITY, with
 * the fix). */
int abx__store_check_owner(int fd, const char *path, bool link, abx_error **err);

#endif
