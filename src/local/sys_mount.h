/* Mount calls that the C library of older systems has no names for. */
#ifndef ABX_LOCAL_SYS_MOUNT_H
#define ABX_LOCAL_SYS_MOUNT_H

#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <sys/syscall.h>

/* <sys/mount.h> and <linux/mount.h> do not go together in every version: the few flags of mount(2) are here. */
#ifndef MS_BIND
#define MS_BIND 4096
#endif
#ifndef MS_REC
#define MS_REC 16384
#endif
#ifndef MS_SLAVE
#define MS_SLAVE (1 << 19)
#endif
#ifndef MS_NOSUID
#define MS_RDONLY  1
#define MS_NOSUID  2
#define MS_NODEV   4
#define MS_NOEXEC  8
#define MS_REMOUNT 32
#endif

#define ABX_AT_RECURSIVE            0x8000
#define ABX_MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#define ABX_OPEN_TREE_CLONE         1
#define ABX_AT_EMPTY_PATH           0x1000

int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
#define ABX_MNT_DETACH 2

/* Bind `from` with all below it on `at`, read-only, nosuid, nodev. 0 or -1 with errno. mounts.c */
int abx_bind_read_only(const char *from, const char *at);
/* Attach a detached mount, sent by the creator, at `at`. 0 or -1 with errno. mounts.c */
int abx_attach(int fd, const char *at);
/* An overlay with `up` and `wk` of the working directory as its upper layer; in_memory: those of the file system in
 * memory. 0 or -1 with errno. mounts.c */
int abx_mount_overlay(const char *lower, const char *at, bool in_memory);
/* Cover the folder `at` by an empty one that nobody can write. 0 or -1 with errno. mount_kernel.c */
int abx_mount_empty(const char *at);

#endif
