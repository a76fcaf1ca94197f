/* A tar stream of foreign origin into a folder of this machine. Nothing is ever made outside that folder: no absolute
 * names, no "..", no link is followed on the way (not even one that was there before). A file that was there stays until
 * the new one is whole; holes stay holes. Files, folders, links and hard
 * links to files of the same stream; devices and pipes are left out with a note. Modes without setuid, setgid and
 * sticky bits; times; never owners. */
#ifndef ABX_CLI_TAR_UNPACK_H
#define ABX_CLI_TAR_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doors/cli/cli.h"
#include "doors/cli/progress.h"

typedef struct abx_tar_unpack_options {
    abx_cli *cli;
    int root;         /* the folder, borrowed */
    const char *name; /* its name in errors */
    bool with_root;   /* the folder is new: the stream's own mode and time for it */
    const char *
        only; /* the stream holds one file: made under this name, whatever it is called; NULL: any */
    /* False: this name was not asked for, and the stream is refused. NULL: every name is taken. */
    bool (*wants)(const char *name, void *data);
    void *wants_data;
    int64_t most_entries;   /* files, folders, links; 0: 2,097,152, of which 262,144 folders */
    abx_transfer *transfer; /* counts too; NULL allowed */
    /* The next bytes: 1, 0 at the end, -1 and *err. */
    int (*read)(const uint8_t **bytes, size_t *n, void *data, abx_error **err);
    void *data;
} abx_tar_unpack_options;

/* Counts are added to. 0, or -1 and *err; what was made until then stays. */
int abx_tar_unpack(const abx_tar_unpack_options *options, int64_t *files, int64_t *bytes,
                   abx_error **err);

#endif
