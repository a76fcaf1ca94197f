#include "base/log.h"

#include <stdarg.h>
#include <string.h>

#include "base/mem.h"

static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};

int abx_log_parse(const char *s, abx_log_level *out)
{
    for (size_t i = 0; i < ABX_COUNT(names); i++) {
        if (strcmp(s, names[i]) == 0) {
            *out = (abx_log_level)i;
            return 0;
        }
    }
    return -1;
}

const char *abx_log_name(abx_log_level level)
{
    return names[level];
}

void abx_logf(const abx_log *log, abx_log_level level, const char *fmt, ...)
{
    if (!log || level > log->level)
        return;
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    log->write(level, text, log->data);
}
