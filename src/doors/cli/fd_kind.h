/* What a standard descriptor is, and a way to use it without ever blocking the loop. */
#ifndef ABX_CLI_FD_KIND_H
#define ABX_CLI_FD_KIND_H

#include <stdbool.h>

typedef enum abx_fd_kind {
    ABX_FD_CLOSED,
    ABX_FD_FILE, /* regular file: reads and writes go through at once */
    ABX_FD_PIPE, /* also a named one */
    ABX_FD_SOCKET,
    ABX_FD_TTY,
    ABX_FD_NULL, /* /dev/null */
    ABX_FD_OTHER /* another device, a folder */
} abx_fd_kind;

abx_fd_kind abx_fd_kind_of(int fd);
const char *abx_fd_kind_name(abx_fd_kind kind);

/* Descriptors 0, 1, 2 that were closed get /dev/null in a direction that fails when it is used (as a closed one would), so that no
 * file of ours takes their number. *stdin_closed tells whether 0 was one. */
void abx_fd_fill_standard(bool *stdin_closed);

/* The same pipe or terminal by a description of its own, non-blocking: the flags of the caller's stay as they are.
 * flags: O_RDONLY or O_WRONLY. -1 when it cannot be opened anew (it may belong to another user). */
int abx_fd_reopen(int fd, int flags);

/* A descriptor (owned) that is readable whenever fd is readable (for_write: writable). Watching fd itself would make the caller's
 * description non-blocking. -1: fd never blocks (a regular file, some devices). */
int abx_fd_watch(int fd, bool for_write);

#endif
