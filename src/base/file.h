/* Paths, folders and small files of our own: whole reads with a limit, atomic writes. */
#ifndef ABX_BASE_FILE_H
#define ABX_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

char *abx_path_join(const char *dir, const char *name); /* caller frees */
const char *abx_path_base(const char *path);            /* behind the last '/' */
char *abx_path_dir(const char *path);                   /* caller frees; "." without a slash */

/* mkdir -p with this mode for what is new. 0 or -1. */
int abx_make_dirs(const char *path, mode_t mode, abx_error **err);

/* The home of all state: ABX_HOME, else ~/.abx (HOME, else the password file). Made with 0700 if it is
 * not there; refused (E1004) if owned by another or writable by group or others; only readable wider:
 * tightened and *tightened set, but refused when it holds nothing of abx's and something else. Relative ABX_HOME is taken from the working directory. Returns an owned
 * absolute path, or NULL and *err. */
char *abx_home_open(bool *tightened, abx_error **err);
/* The same for a folder that the caller chose (absolute). */
char *abx_home_open_at(const char *path, bool *tightened, abx_error **err);
/* Where it is or would be; nothing is made or checked. Owned; NULL and *err. */
char *abx_home_path(abx_error **err);

/* Read a whole file of at most max bytes. Returns 0; 1 when there is no such file (no error is set);
 * -1 otherwise. The buffer is 0-terminated. */
int abx_read_file(const char *path, size_t max, abx_buf *out, abx_error **err);
int abx_read_file_at(int dirfd, const char *path, size_t max, abx_buf *out, abx_error **err);
/* The same of a file that is open at its start; it stays open. path: its name in errors. 0 or -1. */
int abx_read_open_file(int fd, const char *path, size_t max, abx_buf *out, abx_error **err);

/* Replace `path` by these bytes: a temporary file beside it, mode, fsync (if durable), rename. The old
 * or the new file is there at any moment, whole. */
int abx_write_atomic(const char *path, const void *data, size_t n, mode_t mode, bool durable,
                     abx_error **err);
int abx_write_atomic_at(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
                        bool durable, abx_error **err);

/* Remove the temporary files of atomic writes (".XXXXXXXX.tmp") in a folder that are older than this, by the wall
 * clock: their writers were killed. Returns how many. */
int abx_sweep_temporaries(int dirfd, int older_s);

/* Remove a tree by descriptors only (names in it are hostile): never follows a link, opens folders of
 * mode 0 by chmod first, goes on after an error. A missing tree is success. 0, or -1 and the first
 * error. */
int abx_remove_tree_at(int dirfd, const char *name, abx_error **err);
/* The same until this time of abx_now_mono_ms at the most. 1: it is over, and something is left, for another
 * call. */
int abx_remove_tree_until(int dirfd, const char *name, uint64_t until_ms, abx_error **err);

#endif
