/* What of the host's /etc comes into the skeleton. What no rule names is not there. Files are read as nobody would
 * read them: only what others may read. */
#ifndef ABX_LOCAL_ETC_COPY_H
#define ABX_LOCAL_ETC_COPY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "local/backend.h"

/* Copy from `host_etc` into `etc` (both open folders). ids: which rules hold. */
int abx_etc_copy(int host_etc, int etc, abx_ids ids, abx_error **err);

/* The judgements that the rules use; text needs no 0 at its end. */
/* A line that looks like a credential: password, token, secret, _authToken with a value, or //user:pass@. */
bool abx_looks_secret(const char *text, size_t n);
/* A certificate and no private key. */
bool abx_is_certificate(const char *text, size_t n);
/* A file name that is never copied, whatever rule would take it: keys, private folders, apt's auth.conf, … */
bool abx_name_is_secret(const char *name);
/* Remove lines that hold //user:pass@; returns the new length. */
size_t abx_drop_secret_lines(char *text, size_t n);

#endif
