/* Shared between the files of control groups. */
#ifndef ABX_LOCAL_CGROUP_INNER_H
#define ABX_LOCAL_CGROUP_INNER_H

#include "local/cgroup.h"

#define ABX__CGROUP_NOTE   "cgroup" /* in the sandbox's folder: one folder of a group a line */
#define ABX__CGROUP_PARENT "abx"
#define ABX__CGROUP_CHILD  "c"
#define ABX__CGROUP_CALLER "abx-caller" /* where the calling program moves in a unit of its own */

/* Folders below which groups may be made in this tree, best first. Owned list, NULL at the end. */
char **abx__cgroup_bases(const abx_cgroup_tree *tree);
void abx__cgroup_bases_free(char **bases);

/* Write `text` to FOLDER/FILE in one write. 0, or -1 with errno. */
int abx__cgroup_write(const char *folder, const char *file, const char *text);
/* Read it, at most room - 1 bytes, 0-terminated. The length, or -1 with errno. */
ssize_t abx__cgroup_read(const char *folder, const char *file, char *out, size_t room);
/* The number behind `key` at the start of a line ("" : of the whole file), -1: not there. */
int64_t abx__cgroup_number(const char *folder, const char *file, const char *key);

#endif
