/* One layer's tar stream becomes a folder that an overlay can lie on: marks of removed files become whiteouts, opaque folders
 * get their attribute. Names are hostile: nothing is made outside of the folder, no link is followed. Dropped: set-user-ID bits,
 * devices, attributes that mean something to the kernel. Refused: names that lead out, links to what is not there, too much of
 * anything. Blocks; any thread. */
#ifndef ABX_LOCAL_TEMPLATE_LAYER_UNPACK_H
#define ABX_LOCAL_TEMPLATE_LAYER_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "local/template/layer_stream.h"

#define ABX_UNPACK_BYTES   (64ULL << 30) /* of all layers of one image */
#define ABX_UNPACK_ENTRIES (2u << 20)
#define ABX_UNPACK_OWNERS  (256u << 20) /* bytes of the list of owners */

typedef struct abx_unpack {
    int dirfd;        /* the folder, empty */
    bool own;         /* give each file to its owner (the caller may); else all is the caller's */
    uint64_t bytes;   /* in: how many may come; out: how many are left */
    uint64_t entries; /* the same for entries */
    uint64_t free_bytes; /* left free on the disk */
    /* Owners that are not 0:0, "UID GID PATH\0" each, PATH as in the layer ("" the root); or NULL. */
    abx_buf *owners;
    /* Called now and then with the bytes that were unpacked so far; not 0: stop. NULL allowed. */
    int (*progress)(void *data, uint64_t bytes, abx_error **err);
    void *data;
    /* Out: */
    bool opaque_root; /* all layers below are hidden */
    uint64_t done_bytes, done_entries;
} abx_unpack;

/* 0, or -1 and *err (FILE with the entry's name, TOO_LARGE, NO_SPACE). The folder is then half full. */
int abx_layer_unpack(abx_layer_stream *stream, abx_unpack *u, abx_error **err);

#endif
