/* One run of the command line: what was typed, the loop, the configuration and the host, opened when a verb needs
 * them. Verbs are straight code: each starts calls and turns the loop until they end; callbacks run only inside
 * these turns. Threads: the main one. */
#ifndef ABX_CLI_CLI_H
#define ABX_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <uv.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "doors/cli/args.h"
#include "host/host.h"

typedef enum abx_output_format {
    ABX_OUT_TABLE,
    ABX_OUT_WIDE,
    ABX_OUT_JSON,
    ABX_OUT_JSONL,
    ABX_OUT_NAME
} abx_output_format;

typedef struct abx_cli abx_cli;

/* Who takes the signals now (INT, TERM, HUP, WINCH). */
typedef void (*abx_cli_signal_cb)(abx_cli *cli, int sig, void *data);

#define ABX_CLI_SIGNALS 4

/* The stack that the program takes where it may, and the least that a verb can do with. Bytes. */
#define ABX_CLI_STACK     ((rlim_t)8 << 20)
#define ABX_CLI_STACK_MIN ((rlim_t)256 << 10)

struct abx_cli {
    const abx_args *args;
    const abx_adapter *const *adapters;
    const struct abx_server_door *e2b, *engine; /* the doors that are servers */
    const char *self;                           /* path of this program */
    abx_output_format format;
    const char *color; /* the setting, borrowed from the configuration; NULL: not read yet */
    bool quiet, no_input, yes;
    int verbose;
    bool stdin_closed;  /* descriptor 0 was closed when we were started */
    bool stdin_off;     /* the setting stdin is "closed" */
    bool output_closed; /* nobody reads our output any more: end quietly with 141 */
    bool dry_run;       /* nothing is changed: see dry_run.h */
    yyjson_val
        *command;      /* run without a command: what the sandbox's image is made to run; or NULL */
    bool serves;       /* it is a server: set before the host is opened */
    bool detached;     /* the process that was followed lives on without us */
    bool remote;       /* a call was started: from now on no failure is one of the command line */
    uint64_t deadline; /* monotonic ms; ABX_FOREVER */
    abx_log log;

    /* private from here */
    bool _open;
    uv_loop_t _loop;
    uv_signal_t _signals[ABX_CLI_SIGNALS];
    char *_home;
    abx_config *_config;
    abx_host *_host;
    bool
        strict; /* a provider is being tested: its small faults are faults, too. Set before the host is opened */
    char *_folder; /* --provider names a plugin folder; or NULL */
    abx_cli_signal_cb _on_signal;
    void *_on_signal_data;
    int _interrupted;               /* signal that ended the run, or 0 */
    bool _cleaning;                 /* calls go on although interrupted */
    struct abx_transfer *_transfer; /* its line may be on the terminal; see progress.h */
    uv_timer_t _deadline_timer;
    bool _expired;         /* the deadline passed while no call was there to tell it */
    yyjson_mut_doc *_plan; /* what --dry-run noted, or NULL */
    pid_t _pager;          /* behind standard output, or 0 */
};

/* Read the global flags and the environment. Opens nothing. */
void abx_cli_init(abx_cli *cli, const abx_args *args, const abx_adapter *const *adapters);
/* Open loop, signals, home, configuration and host. 0, or -1 and *err. Again: nothing more. */
int abx_cli_open(abx_cli *cli, abx_error **err);
/* The loop and its signals only. */
int abx_cli_open_loop(abx_cli *cli, abx_error **err);
/* Home and configuration only. */
int abx_cli_open_config(abx_cli *cli, abx_error **err);
/* Close all that is open and turn the loop until it is empty. */
void abx_cli_close(abx_cli *cli);

/* The provider that a word names: an id, or the folder of a plugin that is not installed, which is used from now on. Opens the host. 0 and *id
 * (borrowed), or -1 and *err. verb_provider_call.c */
int abx_cli_provider_word(abx_cli *cli, const char *word, const char **id, abx_error **err);

/* Start a call and turn the loop until it ends. params is taken over. 0 and *result (owned, may be NULL to drop it),
 * or -1 and *err. Signals cancel it. */
int abx_cli_call(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params, yyjson_doc **result,
                 abx_error **err);
/* The same at a provider of this id; NULL: as the host chooses. */
int abx_cli_call_at(abx_cli *cli, const char *provider, abx_op_id op, yyjson_mut_doc *params,
                    yyjson_doc **result, abx_error **err);
/* A call that the caller drives itself: made, with the deadline of the command line, and started. NULL and *err. */
abx_call *abx_cli_start(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params,
                        const abx_call_handlers *handlers, void *data, abx_error **err);
/* {"sandboxId": id}, to be filled further; *root is the object. */
yyjson_mut_doc *abx_cli_params(const char *sandbox, yyjson_mut_val **root);

/* Milliseconds until a call that starts now has to end: what --wait-timeout leaves, else a minute for the small
 * questions to a sandbox (a silent server must not hold them), else ABX_FOREVER. At least 1. Pure but for the clock. */
uint64_t abx_cli_time_for(const abx_cli *cli, abx_op_id op);

/* -v: tell how a call ended; -vv: its answer too (NULL: none). since_ms: monotonic. */
void abx_cli_log_end(const abx_cli *cli, abx_op_id op, uint64_t since_ms, yyjson_doc *answer,
                     const abx_error *failed);

/* One turn of the loop, waiting for something to happen. */
void abx_cli_turn(abx_cli *cli);
/* Give the signals to cb; NULL: back to the default (cancel what runs). Returns the former one and its data. */
abx_cli_signal_cb abx_cli_take_signals(abx_cli *cli, abx_cli_signal_cb cb, void *data,
                                       void **former_data);
/* The signal that interrupts this run, or 0. */
int abx_cli_interrupted(const abx_cli *cli);
void abx_cli_interrupt(abx_cli *cli, int sig);
/* From now on calls are made although a signal came: what is left to do is cleaning up. */
void abx_cli_begin_cleanup(abx_cli *cli);

/* The exit code for a failure: of the four verbs that pass on a process's code, or of the others. */
int abx_cli_exit_code(const abx_cli *cli, const abx_error *e);
/* Print an error (see errors.h) and return its exit code. */
int abx_cli_report(const abx_cli *cli, const abx_error *e);
/* A note on stderr, as one line, unless quiet. Control characters are escaped. */
void abx_cli_note(const abx_cli *cli, const char *fmt, ...) ABX_PRINTF(2, 3);
/* The same for what may not be missed: also when quiet. */
void abx_cli_warn(const abx_cli *cli, const char *fmt, ...) ABX_PRINTF(2, 3);
/* A note that its time limit ended what ran, with the flag that set it, if one of this call did. what: "the command". */
void abx_cli_note_timeout(const abx_cli *cli, const char *what);
static inline bool abx_cli_json(const abx_cli *cli)
{
    return cli->format == ABX_OUT_JSON || cli->format == ABX_OUT_JSONL;
}

/* The whole program behind main's special cases. Returns the exit code. */
int abx_cli_main(int argc, char **argv, const abx_adapter *const *adapters,
                 const struct abx_server_door *e2b, const struct abx_server_door *engine);

#endif
