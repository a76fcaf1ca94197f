/* Copying a whole tree whose names and contents are hostile: an upper layer of a sandbox, a folder given as a template. Names are
 * opened beneath their folder only, no link is followed, no mount is crossed, nothing but regular files is read. Bytes are shared
 * with the source where the file system can (FICLONE), holes stay holes, hard links stay together; modes, times, user attributes,
 * whiteouts and opaque folders are kept. Devices and sockets are left out. Blocks. */
#ifndef ABX_LOCAL_TEMPLATE_TREE_COPY_H
#define ABX_LOCAL_TEMPLATE_TREE_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

typedef enum abx_copy_owners {
    ABX_OWNERS_NONE,  /* all becomes the caller's */
    ABX_OWNERS_SHIFT, /* owner and group become what they are plus `shift` */
} abx_copy_owners;

typedef struct abx_tree_copy {
    int from, to; /* open folders: the contents of `from` come into `to` */
    abx_copy_owners owners;
    int64_t shift;
    /* The target may hold a lower layer already: what comes lies over it, as an overlay would show it. */
    bool onto;
    /* Nothing will lie below the result: whiteouts and marks of opaque folders are not kept. */
    bool last;
    bool
        plain; /* the source is no layer: a character device 0:0 in it is left out, marks are attributes like others */
    uint64_t free_bytes;   /* left free on the target's disk */
    uint64_t most_entries; /* 0: no limit of its own */
    /* Called now and then; not 0: stop. NULL allowed. */
    int (*progress)(void *data, uint64_t bytes, abx_error **err);
    /* Each entry when it is there: what a folder holds comes before the folder, by name. `name` in the open folder `to`;
     * path as below the root. -1: stop. NULL allowed. */
    int (*entry)(void *data, const char *path, int to, const char *name, abx_error **err);
    void *data;
    /* Out: */
    uint64_t bytes, entries; /* that were copied */
    bool shared;             /* at least one file shares its bytes with the source */
} abx_tree_copy;

/* 0, or -1 and *err (LOCAL_STATE, NO_SPACE, TOO_LARGE: names the entry). The target is then half full. */
int abx_tree_copy_run(abx_tree_copy *copy, abx_error **err);

#endif
