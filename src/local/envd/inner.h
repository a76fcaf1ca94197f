/* What the files of envd share; nobody else includes it.
 *
 *   envd.c     open and close          main.c      pid 1: signals, reaping, the sandbox's end
 *   filling.c  which method is whose   users.c     user and group files     path.c  paths as E2B resolves them
 *   spawn.c    vfork and exec          start.c     a Start request
 *   process.c  a process until its end is forgotten
 *   process_rpc.c  process.Process     output.c    pipes and terminals in, subscribers out
 *   store.c    output that is kept     input.c     standard input           hunt.c  KILL of all that was started
 *   entry.c, fs.c, list_dir.c          filesystem.Filesystem
 *   watch.c, watch_rpc.c               inotify
 *   transfer.c, compose.c              /files
 *   metrics.c  /metrics, /envs, /abx/info
 *   life.c     time limits             pause.c     pause and resume, and their routes
 *   tunnel.c   connections to ports    ports.c     who listens
 *   seen.c     the processes of /proc
 *   code_rpc.c, context*.c, kernel*.c  code with kept state: code_inner.h
 *
 * Nothing here blocks: pipes and terminals are non-blocking; files are opened with O_NONBLOCK and checked. */
#ifndef ABX_LOCAL_ENVD_INNER_H
#define ABX_LOCAL_ENVD_INNER_H

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/server.h"
#include "local/envd/envd.h"
#include "local/envd/usage.h"

/* --- users ------------------------------------------------------------------------------------------- */
#define ABX__MAX_GROUPS 32
typedef struct abx__user {
    char name[64];
    char home[256];
    char shell[128];
    uid_t uid;
    gid_t gid;
    gid_t groups[ABX__MAX_GROUPS];
    size_t group_count;
} abx__user;

typedef struct abx__name_cache {
    struct {
        uint32_t id;
        bool is_group;
        char name[64];
    } items[16];
    size_t count;
} abx__name_cache;

/* --- limits that are watched: guard.c ------------------------------------------------------------------ */
typedef struct abx__guard {
    /* sizes as they are told; the same where they are watched, else 0: bytes */
    uint64_t memory_size, memory_limit, disk_size, disk_limit;
    uint64_t reserve_bytes; /* of the host's disk, left free */
    uint32_t cpu_millis;
    bool disk_is_memory;
    int layer_fd; /* the private layer, read-only, a mount of its own; -1 */
    uv_timer_t timer;
    bool active;   /* the timer runs */
    bool over;     /* the disk is over its limit */
    bool grows;    /* and gets fuller */
    bool baseline; /* the last walk was while it was over, and nobody was killed since */
    bool passed;   /* it was over its limit, and no walk has found it below since */
    abx__walk *walk;
    bool known; /* a walk has ended: */
    uint64_t known_bytes,
        known_free; /* what it found; free bytes of the file system when it began */
    uint64_t walk_free, walked_ms;
    uint64_t wrote,
        walk_wrote; /* by processes, since the walk that ended began, and since the new one did */
    uint64_t put;   /* by uploads, since the last walk began */
    abx__usage writers; /* at the last look */
    bool has_writers;
} abx__guard;

/* --- the whole ---------------------------------------------------------------------------------------- */
typedef struct abx__proc abx__proc;
typedef struct abx__store abx__store;
typedef struct abx__times abx__times;
typedef struct abx__code abx__code;

struct abx_envd {
    uv_loop_t *loop;
    abx_e2b_server *server;
    char *id, *default_user, *passwd, *group, *workdir;
    char **env; /* "K=V", NULL at the end */
    bool is_init;
    bool has_range;
    bool closing;
    bool ended; /* on_end was told */
    int lock_fd, log_fd, oom_fd, root_ns;
    int commands_fd, events_fd; /* -1: none */
    int freeze_fd, frozen_fd;   /* -1: none */
    int (*root_userns)(void *data);
    void *root_userns_data;
    int (*lock_child)(void *data);
    void *lock_child_data;
    void (*on_end)(void *data);
    void *on_end_data;
    uv_poll_t limit_poll; /* of limit_fd, a timerfd on CLOCK_BOOTTIME */
    int limit_fd;
    uint64_t limit_boot_ms; /* ABX_FOREVER: none */
    uint64_t limit_ms;      /* its length as it was set last */
    uint64_t left_ms;       /* of it, while paused */
    uint64_t idle_ms;       /* ABX_FOREVER: none */
    bool pause_on_limit;
    enum { ABX__RUNNING, ABX__PAUSING, ABX__PAUSED } pause_state;
    int64_t paused_wall_ms;
    int pause_way;            /* abx_pause_way */
    struct abx__pause *pause; /* while it is not running */
    struct abx__hold *hold;   /* the pause ends by itself unless it is renewed; or NULL */
    abx_link procs;
    abx_link left; /* forgotten, but somebody they left behind still holds their output */
    abx_link tunnel_list;
    size_t tunnels;
    abx_link hunts, watchers, polled;
    abx__code *code; /* contexts of code; NULL until the first */
    size_t proc_count;
    size_t polled_count;
    uint64_t next_id;
    uint64_t first_mark; /* see hunt.c: that of process n is so much + n */
    bool kept;           /* a process was detached: the sandbox no longer ends with its creator */
    uint64_t ring_bytes, file_bytes; /* of all stores */
    uint8_t *chunk; /* ABX__CHUNK bytes to read into, only while a channel or a tunnel is open */
    size_t open_chans;
    size_t handles;
    size_t server_open;
    rlim_t nofile_soft;
    abx__name_cache names;
    uint64_t cpu_us, cpu_at_us; /* used so far, when metrics were asked last (of uv_hrtime) */
    uint64_t opened_us;
    abx__guard guard;
    void (*closed)(void *data);
    void *closed_data;
};
enum { ABX__CHUNK = 64 * 1024 };

/* One libuv handle less; the last one ends a close. */
void abx__envd_released(abx_envd *e);

/* --- life.c ------------------------------------------------------------------------------------------- */
void abx__envd_tell_end(abx_envd *e);
/* (Re)start the sandbox's own time limit; ABX_FOREVER: none. 0, -1 with errno. */
int abx__envd_set_limit(abx_envd *e, uint64_t in_ms);
/* Milliseconds that are left of it, ABX_FOREVER: no limit. */
uint64_t abx__life_left(const abx_envd *e);
/* A pause begins: remember what is left. It is there: neither limit runs. It is over: what was left runs on. */
void abx__life_hold(abx_envd *e);
void abx__life_rest(abx_envd *e);
int abx__life_go_on(abx_envd *e);
/* Write down for those outside how things stand. Returns the end of life on the clock of the wall, INT64_MAX: none. */
int64_t abx__life_note(abx_envd *e);

/* --- pause.c ------------------------------------------------------------------------------------------ */
/* Begin to stop everything that runs; does nothing when that is under way or done. Only pid 1 can. */
void abx__pause_begin(abx_envd *e);
/* A process has gone: that can wake others, which must not run now. */
void abx__pause_check(abx_envd *e);
/* May this call go on? If not it was failed. */
bool abx__pause_allows(abx_envd *e, abx_e2b_call *c, yyjson_val *request);
void abx__pause_close(abx_envd *e);
/* A pause goes on by itself: its processes run again, with what was left of the time limit. */
void abx__pause_let_go(abx_envd *e);

/* --- hold.c --------------------------------------------------------------------------------------------- */
/* The pause that there is, or that begins, ends after so long unless this is called again. */
void abx__hold_begin(abx_envd *e, uint64_t ms);
void abx__hold_end(abx_envd *e); /* it stays as it is; nothing to do without one */
#define ABX__IS_PAUSED "sandbox '%s' is paused"
void abx__rpc_abx_pause(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_abx_resume(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_abx_timeout(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- seen.c --------------------------------------------------------------------------------------------- */
typedef struct abx__seen {
    pid_t pid, parent, session;
    char state; /* as in /proc/PID/stat */
    bool ours;  /* for who looks */
} abx__seen;
/* Processes that live now, without pid 1 and the dead. Owned; NULL: /proc cannot be read whole now. */
abx__seen *abx__look(size_t *count);

extern const abx_e2b_filling abx__envd_filling;

/* --- users.c ------------------------------------------------------------------------------------------ */
/* 1: found; 0: nobody has this name. */
int abx__user_find(const abx_envd *e, const char *name, abx__user *out);
/* The user of a call: Basic's or the default. 0; -1: the call was failed. */
int abx__user_of(abx_envd *e, abx_e2b_call *c, abx__user *out);
/* Name of an id, or its digits; valid until the next call. */
const char *abx__owner_name(abx_envd *e, uint32_t id, bool is_group);
/* File work for a user that is not pid 1's own (root, where a range of ids exists) uses the capabilities that pid 1
 * holds back otherwise: on before, off after. */
void abx__power(const abx_envd *e, const abx__user *u, bool on);
/* chown fd or path to the user where that means anything. 0, or -1 with errno. */
int abx__own_fd(const abx_envd *e, int fd, const abx__user *u);
int abx__own_path(const abx_envd *e, const char *path, const abx__user *u);

/* --- path.c --------------------------------------------------------------------------------------------- */
/* Owned absolute path; NULL: "~name" was asked. */
char *abx__path_resolve(const abx_envd *e, const char *path, const abx__user *u);
#define ABX__NO_TILDE "failed to expand path '' for user '%s': cannot expand user-specific home dir"
/* "no such file or directory": the kernel's text, small at its start. */
const char *abx__errno_text(int err, char out[96]);
/* The member as path text without NUL; "" if absent. 0, or -1: the call was failed with the text
 * "WHAT PATH: invalid argument". */
int abx__path_member(abx_e2b_call *c, yyjson_val *request, const char *key, const char *what,
                     const char **out);
/* Is this descriptor in /proc? Writing there would reach into pid 1 itself. */
bool abx__is_proc(int fd);
/* open for who asks from outside: not blocking, and through no door that /proc has into pid 1 itself (its descriptors,
 * program, memory map), which a link inside may lead to: EACCES. A descriptor, or -1 with errno. */
int abx__open_user(const char *path, int flags, mode_t mode);
/* Is this the name of a file that an upload writes until all is there (transfer.c)? Who watches does not see such files, only
 * that they take their place. *existed: there was a file before. */
bool abx__is_aside(const char *name, bool *existed);
/* mkdir -p of the parents of path (or of path itself: whole), new ones 0755 and u's. 0; -1 with errno and
 * *what ("chown", "mkdir") and the path it failed at in at. */
int abx__make_parents(const abx_envd *e, const char *path, bool whole, const abx__user *u,
                      const char **what, char at[4096]);

/* --- spawn.c -------------------------------------------------------------------------------------------- */
typedef enum abx__stage {
    ABX__STAGE_FORK,
    ABX__STAGE_SESSION,
    ABX__STAGE_IDS,
    ABX__STAGE_CWD,
    ABX__STAGE_FILTER,
    ABX__STAGE_EXEC
} abx__stage;

typedef struct abx__spawn {
    char **argv; /* NULL at the end */
    char **envp;
    char **paths; /* what to try to exec, in this order; NULL at the end */
    char **
        sh_argv; /* a file that is no program: run it by the shell, argv from [2] on; NULL: do not */
    const char *cwd;
    int fds[3];
    int control;       /* becomes descriptor 3; 0: none */
    bool tty;          /* fds are a terminal: make it the controlling one */
    bool pipe_only;    /* SIGPIPE is the only signal that this process ignores or handles */
    bool told_by_exit; /* a failed exec is text on stderr and 126 or 127, not an error */
    int userns_fd;     /* -1: none */
    int commands_fd;   /* cgroup.procs to enter; -1: none */
    bool set_ids, keep_caps;
    const abx__user *user;
    uint64_t mark;
    rlim_t nofile_soft;
    int (*lock)(void *data);
    void *lock_data;
    int stage, error; /* result */
} abx__spawn;
/* The pid, or -1 with stage and error. */
pid_t abx__spawn_run(abx__spawn *s);
/* What to exec for cmd with this PATH. Owned list of owned strings. */
char **abx__spawn_paths(const char *cmd, char *const *envp);
void abx__strings_free(char **list);

/* --- process.c -------------------------------------------------------------------------------------------- */
typedef struct abx__chan {
    abx__proc *proc;
    abx_e2b_channel channel;
    uv_poll_t poll;
    int fd;   /* -1: not there, or closed */
    int mask; /* what is polled */
    bool has_handle;
    bool reading; /* its bytes are wanted */
    bool writing;
    uint64_t total; /* bytes that were read */
    abx__store *store;
} abx__chan;

typedef struct abx__input {
    abx_link node;
    uint8_t *bytes;
    size_t len, at;
    abx_e2b_call *call; /* answered (unary) or resumed (stream) when written; NULL: nobody waits */
    void *owner;        /* of a stream's call: freed when the call is failed */
    bool is_stream;
    bool paused;     /* the stream was paused for it */
    bool then_close; /* end of file behind these bytes */
} abx__input;

typedef struct abx__sub {
    abx_link node;
    abx__proc *proc;
    abx_e2b_call *call;
    bool held;
    bool pull; /* reads from the stores */
    bool no_follow;
    bool tied;
    bool limited;   /* the call's time limit is the process's */
    uint64_t at[3]; /* pull: next offset */
    bool times;     /* it is told when output was written */
    int64_t told_ms[3];
} abx__sub;

struct abx__proc {
    abx_link node;
    abx_envd *envd;
    char id[24];
    pid_t pid;
    char *tag;
    yyjson_doc *config;
    bool abx, background, tty;
    bool reaped; /* status is there */
    bool ended;  /* the end was told */
    bool timed_out;
    bool no_wait; /* E2B: a signal or the deadline was sent, the end does not wait for the pipes */
    bool gone;    /* left the table; memory goes with the last handle */
    bool input_closed;
    int status; /* of waitpid */
    uint64_t mark;
    int64_t started_ms, ended_boot_ms;
    int64_t kills;      /* for memory in the sandbox, before it started */
    const char *limit;  /* "memory" or "disk": the limit of the sandbox that ended it; or NULL */
    abx__chan chans[4]; /* by abx_e2b_channel */
    abx_link subs, inputs;
    uv_timer_t timer;
    uint64_t
        heard[4]; /* bytes that were sent while somebody listened, as far as the last one knows */
    uint64_t held_ms; /* what is left of its time limit, while the sandbox is paused */
    enum { ABX__TIMER_NONE, ABX__TIMER_DEADLINE, ABX__TIMER_GRACE, ABX__TIMER_EXPIRY } timer_is;
    uv_poll_t pidfd_poll;
    int pidfd;
    size_t handles;
};

typedef struct abx__start {
    abx__user user;
    yyjson_val *request;
    abx_e2b_call *call;
    bool abx, background, tied, tty, has_stdin;
    unsigned cols, rows;
    uint64_t timeout_ms;
    char *cwd;         /* absolute */
    const char *input; /* base64, or NULL */
} abx__start;

/* Its environment; owned list of owned strings. */
char **abx__start_env(const abx_envd *e, const abx__start *st);
/* The process of st with these descriptors: s has argv (and control), the rest is filled in. The pid, or -1 with
 * stage and error. envp and paths of s are the caller's to free. */
pid_t abx__start_spawn(abx_envd *e, const abx__start *st, const int fds[3], abx__spawn *s,
                       uint64_t mark);
/* The kernel should take commands before pid 1 when memory ends. */
void abx__start_oom_score(const abx_envd *e, const abx__user *u, pid_t pid);
/* Start what st says. 0: the call was given its first event; -1: the call was failed. */
int abx__proc_start(abx_envd *e, abx__start *st);
abx__proc *abx__proc_new(abx_envd *e, abx__start *st); /* in the table, not running yet */
void abx__proc_drop(abx__proc *p);                     /* it never ran */
void abx__proc_began(abx__proc *p, uint64_t timeout_ms);
void abx__proc_reaped(abx__proc *p, int status);
/* Has it come to its end? Tells it when so. Call after anything that may bring it nearer. */
void abx__proc_check_end(abx__proc *p);
void abx__proc_released(abx__proc *p);
abx__proc *abx__proc_by_pid(abx_envd *e, pid_t pid); /* not reaped ones only */
/* By ProcessSelector. NULL: the call was failed. ended: those that are kept count too. */
abx__proc *abx__proc_select(abx_envd *e, abx_e2b_call *c, yyjson_val *selector, bool ended);
/* Forget an ended process. */
void abx__proc_forget(abx__proc *p);
void abx__proc_kill_all(abx__proc *p);
const char *abx__signal_name(int sig, char out[16]); /* "SIGKILL" */
void abx__proc_put_end(const abx__proc *p, yyjson_mut_doc *d, yyjson_mut_val *end);
/* Stop the clocks of all time limits of processes; let them go on. */
void abx__procs_hold(abx_envd *e, bool on);
void abx__procs_close(abx_envd *e);

/* --- process_rpc.c ----------------------------------------------------------------------------------------- */
void abx__rpc_list(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_start(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_connect(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_update(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_send_input(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_stream_input(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_close_stdin(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_send_signal(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- tunnel.c, ports.c --------------------------------------------------------------------------------------- */
void abx__tunnel_open(void *data, abx_e2b_tunnel *request, int port);
void abx__tunnels_close(abx_envd *e);
void abx__rpc_abx_ports(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- output.c ----------------------------------------------------------------------------------------------- */
/* Who reads needs e->chunk from one to the other. */
void abx__chunk_hold(abx_envd *e);
void abx__chunk_drop(abx_envd *e);
void abx__chan_open(abx__proc *p, abx_e2b_channel channel, int fd);
void abx__chan_close(abx__chan *c);
void abx__chan_update(abx__chan *c); /* poll for what is wanted */
/* Read what is there now, after the process has ended. */
void abx__output_drain(abx__proc *p);
bool abx__output_all_eof(const abx__proc *p);
abx__sub *abx__sub_add(abx__proc *p, abx_e2b_call *call);
/* Give a pulling subscriber what it can take; ends it when it has all. */
void abx__sub_pump(abx__sub *s);
/* After the start event: what lies behind its offsets, or how much of it is gone. s may be gone afterwards. */
void abx__sub_catch_up(abx__sub *s);
void abx__subs_end(abx__proc *p); /* the process's end is known */
void abx__subs_forget(abx__proc *p, abx_e2b_code code, const char *text); /* fail them all */
/* Begin at what nobody has heard, at most its last 64 KiB; before anything is sent. */
void abx__sub_missed(abx__sub *s);
/* The process no longer ends with a connection, and its output is kept from now on. */
void abx__proc_detach(abx__proc *p);
void abx__send_start(abx__proc *p, abx__sub *s);

/* --- store.c -------------------------------------------------------------------------------------------------- */
abx__store *abx__store_new(abx__proc *p,
                           uint64_t at); /* at: offset of the first byte that will come */
void abx__store_free(abx__store *s);
void abx__store_add(abx__store *s, const uint8_t *bytes, size_t n);
uint64_t abx__store_first(const abx__store *s); /* offset of the oldest byte that is kept */
uint64_t abx__store_end(const abx__store *s);
/* Up to n bytes at offset (first <= at < end). Count, or -1: they cannot be read any more. */
ssize_t abx__store_read(abx__store *s, uint64_t at, uint8_t *out, size_t n);
/* Unix time (ms) at which the byte at this offset was added; *until: where output of another time begins. */
int64_t abx__store_time(const abx__store *s, uint64_t at, uint64_t *until);

/* times.c: an index from offsets to times (ms); they never go back. */
abx__times *abx__times_new(void);
void abx__times_free(abx__times *t);
void abx__times_note(abx__times *t, uint64_t at, int64_t ms);
int64_t abx__times_of(const abx__times *t, uint64_t at, uint64_t *until);

/* --- input.c ---------------------------------------------------------------------------------------------------- */
/* Queue bytes for the process (taken). call may be NULL. */
void abx__input_add(abx__proc *p, uint8_t *bytes, size_t n, abx_e2b_call *call, bool then_close);
/* The same for one message of a stream; the call is paused while it waits. owner is freed if the call is failed. */
void abx__input_add_stream(abx__proc *p, uint8_t *bytes, size_t n, abx_e2b_call *call, void *owner);
void abx__input_pump(abx__proc *p);
/* No more input: at once when nothing waits, else behind what waits. */
void abx__input_close(abx__proc *p);
void abx__input_fail(abx__proc *p, int err);
/* Why the process cannot take input of this kind, or NULL. */
const char *abx__input_refusal(const abx__proc *p, abx_e2b_channel channel);

/* --- hunt.c ------------------------------------------------------------------------------------------------------- */
/* KILL the process and everything that it started, again and again until a walk over /proc finds none. */
void abx__hunt_start(abx_envd *e, uint64_t mark, pid_t pid);
void abx__hunts_close(abx_envd *e);

/* --- entry.c, fs.c, list_dir.c ---------------------------------------------------------------------------------- */
/* EntryInfo of path (st by lstat, or NULL) into obj. name: NULL: the last part. 0, -1 with errno. */
int abx__entry_put(abx_envd *e, yyjson_mut_doc *d, yyjson_mut_val *obj, const char *path,
                   const char *name);
int abx__entry_put_at(abx_envd *e, yyjson_mut_doc *d, yyjson_mut_val *obj, int dirfd,
                      const char *at, const char *path, const char *name);
void abx__rpc_stat(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_make_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_move(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_remove(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_list_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- watch.c, watch_rpc.c --------------------------------------------------------------------------------------- */
typedef struct abx__watch abx__watch;
typedef struct abx__watch_handlers {
    /* type: "EVENT_TYPE_CREATE" … name relative to the watched folder, path absolute. */
    void (*on_event)(void *data, const char *type, const char *name, const char *path);
    void (*on_lost)(void *data); /* the kernel's queue ran over */
} abx__watch_handlers;
/* user: with whose rights it looks. 0; -1 with errno. */
int abx__watch_open(abx_envd *e, const abx__user *user, const char *path, bool recursive,
                    const abx__watch_handlers *handlers, void *data, abx__watch **out);
void abx__watch_close(abx__watch *w); /* no event after this */
void abx__watches_close(abx_envd *e);
/* Take in what the kernel has already queued. */
void abx__watch_flush(abx__watch *w);
void abx__watch_pause(abx__watch *w, bool paused);
void abx__rpc_watch_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_create_watcher(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_get_watcher_events(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_remove_watcher(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__polled_close(abx_envd *e);

/* --- transfer.c, compose.c ---------------------------------------------------------------------------------------- */
void abx__get_open(void *data, abx_e2b_get *g, const char *path, const char *user, bool live);
void abx__get_send(void *file, int64_t offset, int64_t length);
void abx__get_more(void *file);
void abx__get_close(void *file);
void *abx__put_open(void *data, const char *path, const abx_e2b_put_options *o, abx_e2b_fault *f);
int abx__put_write(void *file, const uint8_t *bytes, size_t n);
void abx__put_close(void *file, bool whole, abx_e2b_put_done done, void *arg);
void abx__rpc_compose(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- code_rpc.c, context.c, kernel.c ------------------------------------------------------------------------------- */
void abx__rpc_execute(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_context_new(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_context_list(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_context_restart(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_context_remove(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_abx_interrupt(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
/* A child was reaped that is no process of a Start: it may be a kernel. */
void abx__code_reaped(abx_envd *e, pid_t pid, int status);
/* A pause begins, or is over: time limits of code do not run meanwhile. */
void abx__code_hold(abx_envd *e, bool on);
void abx__code_close(abx_envd *e);

/* --- metrics.c ------------------------------------------------------------------------------------------------------ */
void abx__rpc_abx_metrics(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_metrics(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_envs(abx_envd *e, abx_e2b_call *c, yyjson_val *q);
void abx__rpc_abx_info(abx_envd *e, abx_e2b_call *c, yyjson_val *q);

/* --- idle.c --- */
/* Give back the memory that an idle pid 1 does not need: free heap, and mapped code. */
void abx__give_memory_back(void);

#endif
