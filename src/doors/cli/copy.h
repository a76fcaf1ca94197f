/* cp: what its ways have in common. The names follow docker cp: a folder is copied into a folder that exists, else to that
 * name; SRC/. means the contents; a file goes into a folder that exists. */
#ifndef ABX_CLI_COPY_H
#define ABX_CLI_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "doors/cli/cli.h"
#include "doors/cli/progress.h"
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
    bool is_link; /* the path itself is a link to it */
    int64_t size;
    bool has_holes; /* so many that they are worth to be kept */
    mode_t mode;    /* permission bits */
    bool has_modified;
    struct timespec modified;
} abx_copy_place;

/* Bytes of holes from which a file goes by way of tar, which keeps them. */
#define ABX_COPY_HOLES_MIN ((int64_t)1024 * 1024)

/* Which tar a sandbox has: holes, nanoseconds and lists of names are for the first two. */
typedef enum abx_copy_tar { ABX_COPY_TAR_GNU, ABX_COPY_TAR_BSD, ABX_COPY_TAR_PLAIN } abx_copy_tar;

typedef struct abx_copy {
    abx_cli *cli;
    const char *user;
    int64_t files, bytes; /* what was copied, where it is known */
    abx_transfer transfer;
    struct {
        char sandbox[64];
        abx_copy_tar kind;
    } tars[2]; /* what was asked already */
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
/* Ask which tar the sandbox has. FEATURE_MISSING when it has none. */
int abx_copy_tar_kind(abx_copy *c, const char *sandbox, abx_copy_tar *kind, abx_error **err);
/* Start tar in the sandbox: extract to dir, or pack `name` of dir. */
int abx_copy_tar_extract(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                         abx_error **err);
int abx_copy_tar_pack(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                      const char *name, abx_error **err);
/* Pack one file, behind all links, as one entry called `as`. Not for the plain kind. */
int abx_copy_tar_pack_file(abx_copy *c, abx_stream *s, const abx_copy_place *from, const char *as,
                           abx_error **err);
/* Pack these of dir (each ends with a 0 byte, relative), folders without what is in them. Not for the plain kind. */
int abx_copy_tar_pack_names(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                            const abx_buf *names, abx_error **err);
/* Wait for tar: an error with its own words when it failed. */
int abx_copy_tar_finish(abx_stream *s, abx_error **err);
/* Start reading or writing one file of a sandbox. size < 0: unknown; modified NULL: now. What was there stays until all
 * bytes have come. */
int abx_copy_read_file(abx_copy *c, abx_stream *s, const abx_copy_place *from, abx_error **err);
int abx_copy_write_file(abx_copy *c, abx_stream *s, const char *sandbox, const char *path,
                        int64_t size, mode_t mode, const struct timespec *modified,
                        abx_error **err);
/* A file with holes by way of tar, if the sandbox at `to` can: its entry `as` (".abx-" and a random tail) is extracted
 * beside `path`, then takes its place. begin: 1 started, 0 it cannot, -1 and *err. finish also removes what was begun
 * when `rc` (of the bytes' way) is < 0; returns rc or its own failure. */
int abx_copy_holes_begin(abx_copy *c, abx_stream *s, const abx_copy_place *to, const char *path,
                         abx_error **err);
int abx_copy_holes_finish(abx_copy *c, abx_stream *s, const abx_copy_place *to, const char *path,
                          const char *as, int rc, abx_error **err);
#define ABX_COPY_AS_SIZE 16
void abx_copy_as(char out[ABX_COPY_AS_SIZE]);
/* Wait for the end of a file that was written: its size must be `sent`. */
int abx_copy_write_finish(abx_stream *s, const char *path, int64_t sent, abx_error **err);

/* The ways. from or to NULL where the word itself is a path here, or "-". */
int abx_copy_in(abx_copy *c, const char *from, const abx_remote_path *to, abx_error **err);
int abx_copy_out(abx_copy *c, const char *from_word, const abx_remote_path *from, const char *to,
                 abx_error **err);
int abx_copy_between(abx_copy *c, const char *from_word, const abx_remote_path *from,
                     const abx_remote_path *to, abx_error **err);

#endif
