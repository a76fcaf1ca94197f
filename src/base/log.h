/* The program's own log: one sink a context, given by the door, NULL for none. A log line never holds a
 * secret: who logs, redacts. */
#ifndef ABX_BASE_LOG_H
#define ABX_BASE_LOG_H

#include "base/error.h"

typedef enum abx_log_level {
    ABX_LOG_OFF,
    ABX_LOG_ERROR,
    ABX_LOG_WARN,
    ABX_LOG_INFO,
    ABX_LOG_DEBUG,
    ABX_LOG_TRACE
} abx_log_level;

typedef struct abx_log {
    abx_log_level level;
    /* text: one line without newline, valid during the call */
    void (*write)(abx_log_level level, const char *text, void *data);
    void *data;
} abx_log;

/* "error", "warn", "info", "debug", "trace", "off" → level. 0 or -1. */
int abx_log_parse(const char *s, abx_log_level *out);
const char *abx_log_name(abx_log_level level);
void abx_logf(const abx_log *log, abx_log_level level, const char *fmt, ...) ABX_PRINTF(3, 4);

#endif
