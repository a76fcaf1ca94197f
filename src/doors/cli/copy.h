/* cp: what its ways have in common. The names follow docker cp: a folder is copied into a folder that exists, else to that
 * name; SRC/. means the contents; a file goes into a folder that exists. */
#ifndef ABX_CLI_COPY_H
#define ABX_CLI_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "doors/cli/cli.h"
#include "doors/cli/remote_path.h"
#include "doors/cli/stream.h"

typedef enum abx_copy_kind { ABX_COPY_NONE, ABX_COPY_FILE, ABX_COPY_DIR } abx_copy_kind;

/* A path in a sandbox, as it is now; links are followed. */
typedef struct abx_copy_place {
    const char *sandbox; /* borrowed */
    char *path;          /* absolute where it exists, else as given; owned */
    abx_copy_kind kind;
    bool
        special; /* ABX_COPY_FILE, but a device, a pipe or a socket: nothing that could be copied */
    int64_t size;
    mode_t mode;         /* permission bits */
    int64_t modified_ms; /* Unix time; -1: unknown */
} abx_copy_place;

typedef struct abx_copy {
    abx_cli *cli;
    const char *user;
    int64_t files, bytes; /* what was copied, where it is known */
} abx_copy;

int abx_copy_look(abx_copy *c, const abx_remote_path *path, abx_copy_place *out, abx_error **err);
void abx_copy_place_clear(abx_copy_place *p);
/* True if the word asks for the contents of a folder: "." or ending in "/.". */
bool abx_copy_is_contents(const char *word);
/* The last part of a path, without slashes at its end; NULL when it has none ("/", "..", "."). Caller frees. */
char *abx_copy_base(const char *path);
/* Where a folder called `base` (NULL: its contents only) goes at place: the folder is made when it is not there. *path is
 * absolute and owned; *created tells whether it is new. */
int abx_copy_folder_target(abx_copy *c, const abx_copy_place *place, const char *base, char **path,
                           bool *created, abx_error **err);
/* Where a file called `base` goes. word: as the user wrote it. *path is owned. */
int abx_copy_file_target(const abx_copy_place *place, const char *word, const char *base,
                         char **path, abx_error **err);
/* Start tar in the sandbox: extract to dir, or pack `name` of dir. */
int abx_copy_tar_extract(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                         abx_error **err);
int abx_copy_tar_pack(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                      const char *name, abx_error **err);
/* Wait for tar: an error with its own words when it failed. */
int abx_copy_tar_finish(abx_stream *s, abx_error **err);
/* Start reading or writing one file of a sandbox. size and mode < 0: unknown. */
int abx_copy_read_file(abx_copy *c, abx_stream *s, const abx_copy_place *from, abx_error **err);
int abx_copy_write_file(abx_copy *c, abx_stream *s, const char *sandbox, const char *path,
                        int64_t size, int64_t mode, abx_error **err);
/* Wait for the end of a file that was written: its size must be `sent`. */
int abx_copy_write_finish(abx_stream *s, const char *path, int64_t sent, abx_error **err);

/* The ways. from or to NULL where the word itself is a path here, or "-". */
int abx_copy_in(abx_copy *c, const char *from, const abx_remote_path *to, abx_error **err);
int abx_copy_out(abx_copy *c, const char *from_word, const abx_remote_path *from, const char *to,
                 abx_error **err);
int abx_copy_between(abx_copy *c, const char *from_word, const abx_remote_path *from,
                     const abx_remote_path *to, abx_error **err);

#endif
