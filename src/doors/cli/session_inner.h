/* Shared between the files of the session; see session.h. */
#ifndef ABX_CLI_SESSION_INNER_H
#define ABX_CLI_SESSION_INNER_H

#include "doors/cli/event_lines.h"
#include "doors/cli/out_writer.h"
#include "doors/cli/session.h"
#include "doors/cli/stdin_reader.h"

typedef struct abx_session {
    abx_cli *cli;
    const abx_session_options *options;
    bool json;
    abx_call *call;  /* until its end */
    abx_call *input; /* process.stdin or pty.write, until its end */
    abx_out_writer out, err_out;
    abx_stdin_reader reader;
    bool reading;
    abx_buf lines;
    abx_utf8_tail tails[ABX_CH_COUNT];
    char *process; /* id, once started */
    bool had_output, paused;
    abx_detach_keys keys;
    abx_buf typed;            /* what the keys let through */
    bool detaching, detached; /* process.detach is on its way, has been answered */

    /* signals */
    uint64_t last_signal_ms; /* 0: none yet */
    int signal;              /* the last one that came */
    bool softened;           /* TERM went in the place of a signal that the sandbox does not take */
    bool killed;             /* KILL was sent */
    uv_timer_t timer;        /* leave, or kill, when it fires */
    bool timer_open;
    unsigned side_calls; /* signals and sizes on their way */
    bool resizing, resize_again;

    /* end */
    bool ended;
    yyjson_doc *result;
    abx_error *err;
    int output_error; /* errno of a writer that failed */
    int output_fd;
} abx_session;

/* session_input.c */
void abx__session_start_input(abx_session *s);
void abx__session_stop_input(abx_session *s); /* turns the loop until all is closed */
/* session_signals.c */
void abx__session_on_signal(abx_cli *cli, int sig, void *data);
void abx__session_resize(abx_session *s);
void abx__session_detach(abx_session *s);
void abx__session_stop_signals(abx_session *s); /* turns the loop until all has ended */

#endif
