/* The tree of a plugin folder: its digest (tree_sha256), and what a plugin may not hold. docs/providers/store.md defines the
 * digest to the byte. All of it blocks, any thread.
 *
 * tree_sha256 is the SHA-256 of "abx-tree/1\0" and one record for each entry below the folder:
 *     TYPE ' ' MODE ' ' DIGEST ' ' PATH '\0'
 * TYPE d, f or l; MODE four octal digits (of a link 0777); DIGEST 64 hexadecimal digits of the file's bytes or of the link's text,
 * "-" for a folder; PATH with "/" between its parts. A folder comes before what it holds; the names of one folder in the order of
 * their bytes. The folder itself has no record, nor have the two files of the store in it (ABX_STORE_RECEIPT, ABX_STORE_FILES). */
#ifndef ABX_HOST_STORE_TREE_H
#define ABX_HOST_STORE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#define ABX_STORE_RECEIPT ".abx-receipt.json"
#define ABX_STORE_FILES   ".abx-files" /* the records, to tell later what was changed */

#define ABX_TREE_HEAD "abx-tree/1" /* with its 0 byte, in front of the records */

#define ABX_PLUGIN_ENTRIES 100000u      /* most files, folders and links of a plugin */
#define ABX_PLUGIN_BYTES   (1ULL << 30) /* most bytes of all its files */
#define ABX_PLUGIN_DEPTH   64           /* most levels of folders */
#define ABX_LISTING_MAX    ((size_t)64 << 20)

/* Work that goes on for a while: asked now and then whether it shall go on. 0, or -1 and *err to stop it. */
typedef struct abx_store_task {
    int (*tick)(void *data, uint64_t entries, uint64_t bytes, abx_error **err); /* or NULL */
    void *data;
} abx_store_task;

/* A file that is open already, so that what the digest covers is what will be used: the walk hashes this descriptor (or this text,
 * when it was read) where it meets the file, instead of opening it anew. */
typedef struct abx_tree_held {
    int fd;           /* of a regular file, readable; borrowed */
    const char *text; /* or NULL */
    size_t len;
    bool met; /* set by the walk: the digest covers it */
} abx_tree_held;

/* A file whose bytes are kept: they are those that were hashed. */
typedef struct abx_tree_kept {
    char *path, *text; /* text: with a 0 byte behind it */
    size_t len;
} abx_tree_kept;
#define ABX_KEPT_MAX ((size_t)64 << 20)                     /* most bytes that are kept */
void abx_tree_kept_free(abx_tree_kept *kept, size_t count); /* NULL allowed */

typedef struct abx_tree_walk {
    const abx_store_task *task; /* or NULL */
    bool strict;                /* refuse links that leave and names that differ only by case */
    bool owned;                 /* refuse what belongs to neither this user nor root */
    abx_tree_held *held;
    size_t held_count;
    abx_buf *listing;               /* the records are added; NULL: not wanted */
    bool (*keep)(const char *path); /* which ordinary files to keep; NULL: none */
    abx_tree_kept *kept;            /* out, owned by the caller also after a failure */
    size_t kept_count, kept_bytes;  /* out */
    uint64_t entries, bytes;        /* out */
} abx_tree_walk;

/* The digest of an open folder. 0, or -1 and *err (FILE with the entry's name; TOO_LARGE; what the tick said). */
int abx_tree_digest(int dirfd, abx_tree_walk *walk, char hex[65], abx_error **err);

/* What differs between two listings, for people: "'a' was changed", "'b' was added" or "'c' is gone", the first of them by path with
 * the number of the others; NULL when nothing does. Owned. */
char *abx_tree_difference(const abx_buf *before, const abx_buf *now);

/* The names in an open folder, sorted by their bytes, without "." and "..". Owned with each name; 0, or -1 with errno. */
int abx_tree_names(int dirfd, char ***names, size_t *count);
void abx_tree_names_free(char **names, size_t count);
/* Fill *err (FILE): "entry 'PATH' of the plugin is refused: WHY". Returns -1. */
int abx_tree_refuse(const char *path, const char *why, abx_error **err);
/* Why an entry of this type is refused, or NULL for a file, a folder and a link. */
const char *abx_tree_odd_type(mode_t mode);

#endif
