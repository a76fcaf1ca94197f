/* A folder of this machine as a tar stream: files, folders, links (hard ones too), modes and times. Sockets and
 * devices are left out with a note. Owners are not told: they mean nothing in a sandbox. */
#ifndef ABX_CLI_TAR_PACK_H
#define ABX_CLI_TAR_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/cli/cli.h"

typedef struct abx_tar_pack_options {
    abx_cli *cli;
    const char *root; /* name of the folder in errors */
    bool with_root;   /* the mode of the folder itself too */
    /* Takes the bytes: 0 go on, 1 nobody wants more (no error), -1 and *err. */
    int (*write)(const void *bytes, size_t n, void *data, abx_error **err);
    void *data;
} abx_tar_pack_options;

/* fd: the folder, borrowed. Counts are added to. 0, or -1 and *err. */
int abx_tar_pack(int fd, const abx_tar_pack_options *options, int64_t *files, int64_t *bytes,
                 abx_error **err);

#endif
