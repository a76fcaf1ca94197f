/* A folder of this machine as a tar stream: files, folders, links (hard ones too), holes, modes and times to the
 * nanosecond. Sockets and devices are left out with a note. Owners are not told: they mean nothing in a sandbox. */
#ifndef ABX_CLI_TAR_PACK_H
#define ABX_CLI_TAR_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/cli/cli.h"
#include "doors/cli/progress.h"

typedef struct abx_tar_pack_options {
    abx_cli *cli;
    const char *root; /* name of the folder in errors */
    bool with_root;   /* the mode of the folder itself too */
    bool plain;       /* the old form that every tar reads: whole seconds, no holes */
    /* Only these (relative, no ".." parts; a folder without what is in it); NULL: everything. What is gone meanwhile
     * is left out. */
    const char *const *names;
    size_t name_count;
    abx_transfer *transfer; /* counts too; NULL allowed */
    /* Takes the bytes: 0 go on, 1 nobody wants more (no error), -1 and *err. */
    int (*write)(const void *bytes, size_t n, void *data, abx_error **err);
    void *data;
} abx_tar_pack_options;

/* fd: the folder, borrowed. Counts are added to. 0, or -1 and *err. */
int abx_tar_pack(int fd, const abx_tar_pack_options *options, int64_t *files, int64_t *bytes,
                 abx_error **err);
/* One regular file, open at fd, as a stream with one entry of this name. */
int abx_tar_pack_file(int fd, const char *name, const abx_tar_pack_options *options, int64_t *files,
                      int64_t *bytes, abx_error **err);

#endif
