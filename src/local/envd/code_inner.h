/* Code with kept state: contexts, and the kernel processes that run their code. For code_rpc.c, context*.c and
 * kernel*.c only.
 *
 *   kernel_language.c  which languages there are, how a kernel of each is started
 *   kernel_start.c     a program becomes a kernel
 *   kernel.c           one kernel: its three descriptors in order, its end
 *   context.c          one context: the queue of runs, interrupts, time limits, what a kernel's end means
 *   context_lines.c    the lines of an answer
 *   code_rpc.c         /execute, /contexts
 *
 * A kernel writes output to its descriptors 1 and 2, and frames "WORD LENGTH\n" + bytes to descriptor 3, a
 * socket. Before a frame is taken, all output that is there is taken: with its acks a kernel can keep any order.
 * Nothing of a frame is believed: a kernel is code of the user's. Lines pass through as they come, control
 * characters blanked. */
#ifndef ABX_LOCAL_ENVD_CODE_INNER_H
#define ABX_LOCAL_ENVD_CODE_INNER_H

#include "local/envd/inner.h"
#include "wire/bytes_json.h"

enum {
    ABX__MAX_CONTEXTS = 64,
    ABX__MAX_RUNS = 64,       /* of one context, waiting */
    ABX__MAX_CODE = 16 << 20, /* bytes of one run */
    ABX__MAX_LATE = 64 << 10, /* output between two runs, a stream */
    ABX__STOP_MS = 2000,      /* from the interrupt of a time limit to the kernel's end */
    ABX__ABANDONED_MS = 5000  /* the same when nobody waits for the run any more */
};

/* --- kernel_language.c ------------------------------------------------------------------------------------ */
typedef struct abx__language {
    const char *name;
    const char *aliases;         /* ",py,python3," */
    const char *programs[3];     /* the first that is there */
    const char *arguments[6];    /* behind the program */
    const unsigned char *source; /* sent first, as frame __abx_driver; NULL: none */
    size_t source_len;
    /* NULL: the driver comes over the control socket. Else the program reads commands from a pipe: first the driver, then
     * this text for each run. */
    const char *commands;
} abx__language;

/* NULL: there is no such language. */
const abx__language *abx__language_find(const char *name);
/* The path of its program as seen by this environment, owned; NULL: it is not there. */
char *abx__language_program(const abx__language *l, char *const *envp);
/* "python, bash": those whose program is there. Owned. */
char *abx__languages_there(char *const *envp);
/* "python, javascript, bash": all that are known. Owned. */
char *abx__languages_known(void);

/* --- kernel.c, kernel_start.c ------------------------------------------------------------------------------------------------ */
typedef struct abx__context abx__context;
typedef struct abx__kernel abx__kernel;

typedef struct abx__end {
    abx__kernel *kernel;
    uv_poll_t poll;
    int fd; /* -1: closed */
    int mask;
    bool has_handle;
} abx__end;

enum { ABX__END_OUT, ABX__END_ERR, ABX__END_CONTROL, ABX__END_COUNT };

struct abx__kernel {
    abx_link node;
    abx_envd *envd;
    abx__context *context; /* NULL: let go, its end interests nobody */
    pid_t pid;
    uint64_t mark;
    abx__end ends[ABX__END_COUNT];
    int commands_fd; /* write end of its standard input; -1: none */
    int pidfd;       /* only where we are not init */
    uv_poll_t pidfd_poll;
    abx_buf in;       /* of the control socket, not taken yet */
    size_t line_left; /* bytes of a line that are still to come */
    abx_buf to;       /* for the control socket */
    bool ready;       /* it takes runs */
    bool held;        /* whoever listens takes no more now */
    bool broken;      /* the control socket is of no use any more */
    bool reaped, killed, gone;
    bool pumping;
    int status;
    size_t handles;
};

struct abx__code {
    abx_link contexts, kernels;
    size_t context_count;
    uint64_t next_id;
    uint8_t *chunk; /* ABX__CHUNK bytes to read into, only while there are kernels */
    bool closing;
};

/* Start one for the context. 0; -1: status and text say why not. */
int abx__kernel_start(abx__context *c, int *status, char text[1024]);
/* The record of a program that was started; the descriptors are taken, fds by ABX__END_…. */
abx__kernel *abx__kernel_new(abx__context *c, pid_t pid, uint64_t mark, int fds[ABX__END_COUNT],
                             int commands_fd);
/* Queue a frame. */
void abx__kernel_send(abx__kernel *k, const char *word, const void *bytes, size_t n);
/* Commands for its standard input, where it takes them from there. Few bytes: they fit into the pipe. */
void abx__kernel_command(abx__kernel *k, const void *text, size_t n);
/* SIGINT to it and what it waits for. */
void abx__kernel_interrupt(abx__kernel *k);
/* KILL it and all that it started; its end is told later. */
void abx__kernel_kill(abx__kernel *k);
/* The same, but the context hears nothing more. */
void abx__kernel_drop(abx__kernel *k);
/* End all of them, without a word to anybody. */
void abx__kernels_close(abx_envd *e);
/* Go on after a hold. */
void abx__kernel_resume(abx__kernel *k);

/* --- context.c ---------------------------------------------------------------------------------------------- */
typedef struct abx__run {
    abx_link node;
    abx__context *context;
    abx_e2b_call *call; /* NULL: the client went away; then only a run that was sent lives on */
    const char *code;   /* the call's */
    size_t code_len;
    yyjson_val *env; /* the call's */
    uint64_t timeout_ms;
    bool abx;
    bool sent;
    bool interrupted, timed_out;
    bool begun;   /* the kernel has said that it runs it: only then an interrupt meets the code */
    bool in_line; /* part of a line was passed on */
    bool state_lost; /* the kernel ended */
    abx_utf8_tail tails[2];
} abx__run;

struct abx__context {
    abx_link node;
    abx_envd *envd;
    char id[32];
    const abx__language *language;
    abx__user user;
    char *cwd;
    yyjson_doc *env; /* an object, or NULL */
    abx__kernel *kernel;
    abx_link runs;
    size_t run_count;
    bool busy; /* the first run has begun */
    bool gone;
    uv_timer_t timer;
    uint64_t held_ms; /* what is left of it, while the sandbox is paused */
    enum {
        ABX__CONTEXT_IDLE,
        ABX__CONTEXT_DEADLINE,
        ABX__CONTEXT_AGAIN, /* a second interrupt: the first may have met only what the code called */
        ABX__CONTEXT_KILL
    } timer_is;
    uint64_t stop_ms;  /* from AGAIN to KILL */
    abx_buf late[2];   /* output while nothing ran */
    const char *ended; /* why we ended the kernel; NULL: we did not */
    char *fresh;       /* why the next run meets a fresh kernel */
};

abx__code *abx__code_of(abx_envd *e); /* made when it is asked for first */
abx__context *abx__context_new(abx_envd *e, const abx__language *l, const abx__user *u,
                               const char *id, const char *cwd, yyjson_val *env);
abx__context *abx__context_find(abx_envd *e, const char *id);
void abx__context_remove(abx__context *c, const char *name, const char *text);
void abx__context_restart(abx__context *c);
/* 0: nothing runs; 1: it was interrupted; 2: it was before, and the kernel is ended now. */
int abx__context_interrupt(abx__context *c);
/* Queue a run; the fields about the request are set. Taken over. */
void abx__context_run(abx__context *c, abx__run *r);

/* What a kernel tells. The first two answer 0 when it should hold. */
int abx__context_output(abx__context *c, size_t stream, const uint8_t *bytes, size_t n);
int abx__context_line(abx__context *c, uint8_t *bytes, size_t n, bool last);
/* Is a run under way whose first line has not come yet? Output is left where it is until then. */
bool abx__context_is_beginning(const abx__context *c);
void abx__context_ready(abx__context *c);
void abx__context_done(abx__context *c, int status);
void abx__context_died(abx__context *c, int status);

/* --- context_lines.c -------------------------------------------------------------------------------------------- */
/* Each returns as abx_e2b_send; without a client nothing happens. */
int abx__line_output(abx__run *r, size_t stream, const uint8_t *bytes, size_t n);
/* What was held back of characters that never came whole. */
void abx__line_tails(abx__run *r);
void abx__line_error(abx__run *r, const char *name, const char *value, int exit_code);
void abx__line_end(abx__run *r, const char *fresh);
/* {"id","language","cwd"} into an object. */
void abx__context_put(const abx__context *c, yyjson_mut_doc *d, yyjson_mut_val *o);

#endif
