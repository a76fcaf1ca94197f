/* What lies in a folder, as sync sees it: a sorted list of relative paths, parents before what is in them and everything
 * below a folder in one run. */
#ifndef ABX_CLI_SYNC_LIST_H
#define ABX_CLI_SYNC_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum abx_sync_type {
    ABX_SYNC_NONE, /* of a state: nothing was there */
    ABX_SYNC_FILE,
    ABX_SYNC_DIR,
    ABX_SYNC_LINK
} abx_sync_type;

typedef struct abx_sync_entry {
    char *path;   /* owned */
    char *target; /* of a link, owned */
    abx_sync_type type;
    mode_t mode; /* permission bits */
    int64_t size, seconds;
    long ns;
    bool keep;      /* a folder that holds what is ignored: it cannot go as a whole */
    bool closed;    /* a folder whose contents may not be read */
    bool in_flight; /* of a state: was on its way to the sandbox when the last run ended */
    bool has_digest;
    uint8_t digest[32]; /* SHA-256 of a file */
} abx_sync_entry;

typedef struct abx_sync_list {
    abx_sync_entry *entries;
    size_t count, _cap;
} abx_sync_list;

/* Zeroed is empty. */
void abx_sync_list_clear(abx_sync_list *l);
/* A new entry at the end with this path (copied). The pointer holds until the next add. */
abx_sync_entry *abx_sync_list_add(abx_sync_list *l, const char *path);
/* The same as another entry of another list. */
void abx_sync_list_add_copy(abx_sync_list *l, const abx_sync_entry *e);
void abx_sync_list_sort(abx_sync_list *l);
/* NULL when it is not there. The list must be sorted. */
abx_sync_entry *abx_sync_list_find(const abx_sync_list *l, const char *path);
/* The order of paths: '/' before every other byte. */
int abx_sync_path_order(const char *a, const char *b);
/* True if path lies below folder. */
bool abx_sync_is_below(const char *path, const char *folder);
/* The same thing: type, size and time (or digest, where both have one), target, permission bits. A time without a part of
 * a second on either side is compared by seconds; the time of a folder or a link does not count. */
bool abx_sync_same(const abx_sync_entry *a, const abx_sync_entry *b);
const char *abx_sync_type_name(abx_sync_type t); /* "file", "folder", "link", "nothing" */

static inline void abx_sync_list_auto_(abx_sync_list *l)
{
    abx_sync_list_clear(l);
}
#define ABX_AUTO_SYNC_LIST __attribute__((cleanup(abx_sync_list_auto_))) abx_sync_list

#endif
