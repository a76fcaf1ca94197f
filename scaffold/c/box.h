/* A sandbox: ROOT/ID holds box.json (what is known of it), home (what is in it) and jobs (its processes). */
#ifndef BOX_H
#define BOX_H

#include "epp.h"

typedef struct box {
    char folder[512], home[544];
    const char *id;
    epp_json *about; /* box.json: name, created, expires (ms since 1970, 0: never), metadata, env; NULL: there is none */
} box;

/* The living sandbox that a call names; box_clear afterwards. 0, or -1: failed with E3001. */
int box_of(epp_call *call, box *b);
void box_root(const char *folder); /* sandboxes lie beside this one, whatever TMPDIR says */
bool box_lives(const char *id); /* one whose life is over is removed by whoever looks at it */
void box_clear(box *b);

/* The text of a file, freed by the caller; NULL: it cannot be read. n may be NULL. */
char *read_file(const char *path, size_t *n);
/* All of it is there or nothing, whoever looks. 0 or -1. */
int write_file(const char *path, const char *text, size_t n);
void format_time(long long ms, char out[32]); /* RFC 3339 */
long long now_ms(void);
/* KILL to this group (0: none), then to all that have this mark in their environment, until there is none. */
void kill_marked(const char *mark, pid_t group);

int sandbox_create(epp_call *call);
int sandbox_info(epp_call *call);
int sandbox_kill(epp_call *call);
int sandbox_connect(epp_call *call);
int sandbox_list(epp_call *call);
int sandbox_set_timeout(epp_call *call);

/* process.c */
int process_start(epp_call *call);
int process_attach(epp_call *call);
int process_signal(epp_call *call);
int process_list(epp_call *call);
int process_stdin(epp_call *call);
int process_close_stdin(epp_call *call);
int pty_open(epp_call *call);
int pty_resize(epp_call *call);
int pty_close(epp_call *call);
void end_processes(void);

/* files.c */
int fs_read(epp_call *call);
int fs_write(epp_call *call);
int fs_stat(epp_call *call);
int fs_list(epp_call *call);
int fs_make_dir(epp_call *call);
int fs_rename(epp_call *call);
int fs_remove(epp_call *call);
int remove_tree(const char *path); /* 0, also when nothing is there; -1 and errno */

#endif
