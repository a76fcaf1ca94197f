/* Shared between the files of sync; see verb_sync.c for the whole way. */
#ifndef ABX_CLI_SYNC_INNER_H
#define ABX_CLI_SYNC_INNER_H

#include "doors/cli/copy.h"
#include "doors/cli/ignore.h"
#include "doors/cli/stream.h"
#include "doors/cli/sync_plan.h"

typedef struct abx_sync_watch abx_sync_watch;

/* What a run did, or would do. */
typedef struct abx_sync_done {
    int64_t files, bytes, deleted;
} abx_sync_done;

typedef struct abx_sync {
    abx_cli *cli;
    abx_copy copy;
    char *local;   /* absolute, links in it resolved where it exists */
    char *sandbox; /* full id */
    char *remote;  /* absolute where it exists; without a slash at the end */
    bool to_local, two_way, delete_extra, checksum, dry_run;
    bool local_missing, remote_missing;
    abx_ignore ignore;
    abx_sync_list lists[2]; /* of this machine, of the sandbox */
    abx_sync_list state;    /* two ways: what was the same after the last run */
    int lock;               /* two ways: held on the state's file; -1 */
    char *state_path;
    abx_sync_watch *watch; /* folders that are scanned are watched; or NULL */
    abx_sync_done done;
} abx_sync;

/* sync_scan.c: fill lists[0] and lists[1]. A folder that is not there is an empty list, and *_missing is set. */
int abx__sync_scan_local(abx_sync *s, abx_error **err);
int abx__sync_scan_remote(abx_sync *s, abx_error **err);
/* The patterns: .abxignore of the local folder, then --exclude and --include in their order. */
int abx__sync_read_ignore(abx_sync *s, abx_error **err);

/* sync_names.c */
/* One more path behind the others, as xargs -0 and tar --null read them. */
void abx__sync_names_add(abx_buf *names, const char *path);
/* Start `xargs -0 WORDS...` (up to a NULL) in the sandbox's folder, with the names as its input. As abx_stream_open. */
int abx__sync_names_run(abx_sync *s, const abx_buf *names, const char *const *words,
                        abx_stream *stream, abx_error **err);

/* sync_digest.c: SHA-256 of the files that both sides have with the same size. */
int abx__sync_digests(abx_sync *s, abx_error **err);

/* sync_state.c */
/* Find the file of this pair, lock it and read it. CONFLICT when another run holds it. */
int abx__sync_state_open(abx_sync *s, abx_error **err);
/* Before the first byte leaves: what is on its way to the sandbox. */
int abx__sync_state_begin(abx_sync *s, const abx_sync_plan *plan, abx_error **err);
/* After a run: former are the lists that the plan was made of, lists what is there now. */
int abx__sync_state_end(abx_sync *s, const abx_sync_list former[2], abx_error **err);
void abx__sync_state_close(abx_sync *s);

/* sync_apply.c: do what the plan says. Sides of the plan: side_of[0] is lists' index of its side 0. */
int abx__sync_apply(abx_sync *s, const abx_sync_plan *plan, abx_error **err);
/* The list's index (0 this machine, 1 the sandbox) of the plan's side. */
static inline int abx__sync_place(const abx_sync *s, int side)
{
    return s->two_way || !s->to_local ? side : !side;
}

/* sync_watch.c */
/* Watch what the next scans walk through. local, remote: which sides. */
int abx__sync_watch_open(abx_sync *s, bool local, bool remote, abx_error **err);
/* Called by the scan for each folder before it is read. */
void abx__sync_watch_folder(abx_sync_watch *w, int fd);
/* Wait until something changes and then is quiet for a moment. 0; -1 and *err (CANCELLED when interrupted). */
int abx__sync_watch_wait(abx_sync *s, abx_error **err);
void abx__sync_watch_close(abx_sync *s);

/* sync_report.c */
int abx__sync_print(abx_sync *s, const abx_sync_plan *plan, abx_error **err);
/* The size of the plan: files and bytes that are copied, what goes. */
abx_sync_done abx__sync_measure(const abx_sync_plan *plan);

#endif
