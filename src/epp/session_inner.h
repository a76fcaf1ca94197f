/* Inside of a session: shared between its files. */
#ifndef ABX_EPP_SESSION_INNER_H
#define ABX_EPP_SESSION_INNER_H

#include "epp/epp.h"
#include "epp/host_session.h"
#include "epp/names.h"
#include "epp/reader.h"
#include "epp/words.h"
#include "wire/bytes_json.h"

enum { SLOTS = 64, READ_SIZE = 256 * 1024, ERROR_READ_SIZE = 16 * 1024 };

typedef enum pending_kind {
    PENDING_HELLO,
    PENDING_CALL,
    PENDING_WRITE, /* stream.write or stream.end */
    PENDING_BYE    /* shutdown */
} pending_kind;

/* A request that has not been answered. A call's lives until it was answered and the call let go of it. */
typedef struct pending {
    struct pending *next; /* in its slot */
    abx_epp_session *s;
    pending_kind kind;
    uint64_t id;
    uint64_t due_ms; /* monotonic; ABX_FOREVER */

    /* PENDING_CALL */
    abx_call *call; /* NULL once it was ended by us */
    const abx_op_row *row;
    bool answered; /* out of the table */
    bool released; /* the call has let go of it */
    bool cancelled;
    bool heard;             /* an event came */
    uint64_t limit_ms;      /* when it must have ended by its own time limit; ABX_FOREVER */
    bool paused;            /* it keeps the session from reading */
    yyjson_mut_doc *seen;   /* members of started and exit, for the result; or NULL */
    uint64_t window, taken; /* flow: bytes it may still send; bytes delivered and not yet granted */
    abx_channel raw_to;     /* where the raw chunk that is being read goes */
    size_t unanswered;      /* bytes of stream.write that were not answered */
    abx_buf input;          /* bytes that wait for answers; the first input_at are sent */
    size_t input_at;
    bool input_held, input_over, end_sent;
    abx_utf8_tail tail; /* an unfinished character of the input */

    /* PENDING_WRITE */
    uint64_t stream; /* of the call */
    size_t bytes;
} pending;

typedef enum session_state {
    STATE_START, /* initialize is not answered */
    STATE_READY,
    STATE_RETIRED, /* no new calls; ends when the last has ended */
    STATE_ENDING,  /* shutdown was sent; or, without that, nothing is sent any more */
    STATE_GONE     /* the child has ended or is being made to; no call is left */
} session_state;

struct abx_epp_session {
    uv_loop_t *loop;
    char *name;
    session_state state;
    bool strict, raw, flow;
    uint64_t call_ms;
    abx_secrets secrets;
    void (*on_ready)(abx_epp_session *s, yyjson_val *result, const abx_error *err, void *data);
    void (*on_fault)(abx_epp_session *s, const abx_error *why, void *data);
    void (*on_log)(abx_log_level level, const char *line, void *data);
    void *data;

    abx_child *child; /* NULL: not started, or reaped */
    bool has_child;   /* there was one */
    bool alone;       /* it cannot start others */
    bool wide;        /* its output has a larger pipe */
    pid_t pid;
    uint64_t mark;
    int status; /* how it ended */
    bool exited;

    uv_pipe_t to, from, said; /* its standard input, output, error */
    bool to_open, from_open, said_open;
    bool reading;
    size_t paused; /* calls that keep us from reading */
    uint8_t *read_buffer, *error_buffer;
    abx_epp_reader reader;
    abx_epp_words words;
    uint64_t said_since_ms, said_bytes; /* of this quarter of a second */
    unsigned strays;

    uint64_t next_id;
    pending *slots[SLOTS];
    size_t calls;    /* that are not answered */
    uint64_t raw_id; /* the call whose raw chunk is being read */

    abx_buf out;          /* a message being built */
    size_t queued_before; /* bytes that waited to be read by the child at the last look */
    uint64_t stuck_ms;    /* since when that did not change; ABX_FOREVER: nothing waits */

    uv_timer_t timer;
    uint64_t timer_at;
    uint64_t settle_ms; /* when to say how it ended although not all is read; ABX_FOREVER */
    uint64_t force_ms;  /* the next step of ending the child; ABX_FOREVER */
    unsigned force;     /* 0 nothing yet, 1 TERM sent, 2 KILL sent */
    bool by_force;      /* what it started goes with it wherever it is */
    unsigned walks;

    abx_error *start_error;              /* told by the timer */
    bool greeted, faulted;               /* on_ready, on_fault were told */
    unsigned unknown;                    /* notifications that nobody knows */
    int handles;                         /* not yet closed */
    bool closing, ended, handles_closed; /* ended: neither child nor kin is left */
    void (*close_cb)(void *data);
    void *close_data;
};

/* host_session.c */
void epp_arm(abx_epp_session *s, uint64_t at_ms); /* the timer runs at this time at the latest */
/* Write what is in s->out and empty it. What the child does not read waits. */
void epp_flush(abx_epp_session *s);
void epp_update_reading(abx_epp_session *s);
void epp_logf(abx_epp_session *s, abx_log_level level, const char *fmt, ...) ABX_PRINTF(3, 4);
void epp_close_stream(abx_epp_session *s, uv_pipe_t *pipe, bool *open);
/* Read at once what is left in the pipes of a child that has ended. */
void epp_drain(abx_epp_session *s);
/* Large chunks come: a pipe that holds some of them. */
void epp_widen(abx_epp_session *s);

/* session_calls.c */
pending *epp_pending_new(abx_epp_session *s, pending_kind kind);
pending *epp_find(abx_epp_session *s, uint64_t id);
void epp_pending_done(pending *p); /* out of the table; freed as soon as nobody needs it */
int epp_on_message(yyjson_val *message, void *data, abx_error **err);
void epp_unpause(pending *p);
/* End the call with an error (taken over) and wait for its answer no longer than ABX_EPP_CANCEL_MS. */
void epp_give_up(pending *p, abx_error *why);
void epp_send_cancel(pending *p);
/* The time of a pending request has passed. */
void epp_overdue(pending *p);

/* session_events.c: notifications */
int epp_on_raw(const uint8_t *bytes, size_t n, size_t left, void *data, abx_error **err);
void epp_grant(pending *p); /* flow: what was delivered may be sent again */
int epp_on_notification(abx_epp_session *s, const char *method, yyjson_val *params,
                        abx_error **err);
/* session_result.c: an answer's result as the call's, or NULL and *err. Owned. */
yyjson_mut_doc *epp_result(const pending *p, yyjson_val *result, abx_error **err);

/* session_input.c */
int epp_on_input(abx_call *c, const uint8_t *bytes, size_t n, void *state);
void epp_on_input_end(abx_call *c, void *state);
void epp_write_answered(abx_epp_session *s, const pending *write, yyjson_val *error);

/* session_end.c */
/* An error about the child with its last words, without secrets. */
abx_error *epp_error(abx_epp_session *s, abx_err_id id, const char *fmt, ...) ABX_PRINTF(3, 4);
/* An error that the child answered with, without secrets. */
abx_error *epp_read_error(abx_epp_session *s, yyjson_val *error, const char *method);
/* The child is at fault: all calls fail with this (taken over), it is made to end. */
void epp_fault(abx_epp_session *s, abx_error *why);
/* No new calls: it does not answer. */
void epp_retire(abx_epp_session *s, const abx_error *why);
/* It has ended or closed a stream: say so when all that it said was read. */
void epp_settle(abx_epp_session *s);
/* The settling time has passed. */
void epp_settled(abx_epp_session *s);
/* A retired session without calls ends. */
void epp_check_retired(abx_epp_session *s);
/* Begin (or hasten) its end. */
void epp_end_child(abx_epp_session *s, bool by_force);
/* What the timer has to do for the end. Returns when to look again, ABX_FOREVER: nothing. */
uint64_t epp_end_step(abx_epp_session *s, uint64_t now);
void epp_on_exit(abx_child *c, int status, void *data);
void epp_maybe_done(abx_epp_session *s);

#endif
