/* The files of /etc that are written new. */
#ifndef ABX_LOCAL_ETC_TEXT_H
#define ABX_LOCAL_ETC_TEXT_H

#include "base/buf.h"
#include "base/error.h"
#include "local/backend.h"

/* Write them into the open folder `etc`. host: prefix of the host's files ("" for the real host). */
int abx_etc_write(int etc, const char *host, abx_ids ids, abx_error **err);

/* Only what every sandbox has for itself (hosts, hostname, machine-id, mtab, resolv.conf), into the folder etc of the open folder
 * `root`. */
int abx_etc_own(int root, abx_error **err);

/* The texts that need the host's: system accounts below 1000 of a passwd or group text, without a login, appended to
 * out. Our own names are left out. */
int abx_system_accounts(const char *text, bool is_group, abx_buf *out);

#endif
