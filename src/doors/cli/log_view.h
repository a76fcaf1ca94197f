/* The kept output of a process as it is shown by `logs`: from a time on, the last lines only, with times or the job in front
 * of each line, as text or as JSON Lines. Pure: bytes in, bytes out. */
#ifndef ABX_CLI_LOG_VIEW_H
#define ABX_CLI_LOG_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "doors/cli/event_lines.h"
#include "ops/call.h"

typedef struct abx_log_stream {
    char time[ABX_RFC3339_SIZE]; /* when what comes was written; "" unknown */
    int64_t ms;
    bool inside; /* of a line */
    bool hidden; /* that line is not shown */
    abx_utf8_tail tail;
    abx_buf partial; /* with a label: the line so far */
} abx_log_stream;

typedef struct abx_log_view {
    int64_t since_ms;  /* Unix time; only lines that began then or later; INT64_MIN: all */
    uint64_t skip;     /* lines still to be left out */
    bool stamps;       /* the time in front of each line */
    const char *label; /* in front of each line, or NULL; lines then come whole */
    bool json;
    bool count_only;
    uint64_t lines; /* count_only: that would be shown */
    abx_log_stream streams[ABX_CH_COUNT];
} abx_log_view;

/* The rest is set by the caller, before the first byte. */
void abx_log_view_init(abx_log_view *v);
void abx_log_view_clear(abx_log_view *v);
/* What comes of this stream was written at this RFC 3339 time. */
void abx_log_view_time(abx_log_view *v, abx_channel channel, const char *time);
/* Bytes of a stream; what is shown of them is appended to out. */
void abx_log_view_bytes(abx_log_view *v, abx_channel channel, const uint8_t *bytes, size_t n,
                        abx_buf *out);
/* The stream has ended: what waited for its end. */
void abx_log_view_end(abx_log_view *v, abx_channel channel, abx_buf *out);

/* "10m" (so long before now), or an RFC 3339 time → Unix time in ms, INT64_MIN for no limit. 0, or -1 and USAGE. */
int abx_log_since(const char *text, int64_t now_ms, int64_t *out, abx_error **err);

#endif
