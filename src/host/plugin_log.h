/* The log of a plugin: what it writes to standard error, in HOME/logs/ID.log. It is bounded: a full file becomes ID.log.1, the one
 * before that is forgotten. Lines of several processes do not mix. Blocking, small writes. */
#ifndef ABX_HOST_PLUGIN_LOG_H
#define ABX_HOST_PLUGIN_LOG_H

#include "base/error.h"
#include "base/log.h"

#define ABX_PLUGIN_LOG_MAX ((size_t)1024 * 1024) /* bytes of one file */

typedef struct abx_plugin_log abx_plugin_log;

/* Nothing is made before the first line. */
abx_plugin_log *abx_plugin_log_new(const char *home, const char *id);
void abx_plugin_log_free(abx_plugin_log *log); /* NULL allowed */
/* "TIME PID LEVEL LINE". The line holds no secret and no control character: who logs sees to that. What cannot be
 * written is dropped. */
void abx_plugin_log_write(abx_plugin_log *log, abx_log_level level, const char *line);
/* HOME/logs/ID.log, and the older one with older. Owned. */
char *abx_plugin_log_path(const char *home, const char *id, int older);

#endif
