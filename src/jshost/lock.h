/* The lock of a module's process: what it can no longer do once the module's first line runs, whatever code runs in it. It may talk to
 * the network by IP and look names up; it may not open other files, write, start programs, trace or signal others. Needs no rights.
 * With a sanitizer compiled in nothing is locked: those need what is refused here. */
#ifndef ABX_JSHOST_LOCK_H
#define ABX_JSHOST_LOCK_H

#include <stdbool.h>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define ABX_JS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ABX_JS_SANITIZED 1
#endif
#endif
#ifndef ABX_JS_SANITIZED
#define ABX_JS_SANITIZED 0
#endif

/* Whether a locked process here can open files, those that looking up names and trusting servers needs: the kernel has Landlock. Where
 * it has not, the parent names the bundle of authorities in this variable, and the descriptor in SSL_CERT_FILE ("/dev/fd/N": see
 * net/ca.h); the child opens it before its lock. Any thread. */
bool abx_js_lock_opens_files(void);
#define ABX_JS_AUTHORITIES    "ABX_JS_AUTHORITIES"
#define ABX_JS_AUTHORITIES_FD 200

/* Limits of the process, and what must be read before: nothing later. 0, or -1 and *err. */
int abx_js_lock(abx_error **err);

/* What abx_js_lock consists of. */
int abx__js_lock_files(abx_error **err); /* Landlock, where the kernel has it */
int abx__js_lock_calls(abx_error **err); /* seccomp */

#endif
