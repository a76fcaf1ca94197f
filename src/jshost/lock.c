#include "jshost/lock.h"

#include <errno.h>
#include <linux/capability.h>
#include <netdb.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/libm.h"
#include "base/mem.h"

#define PROCESS_DATA ((rlim_t)384 << 20)
#define OPEN_FILES   256

static int limit(int what, rlim_t most, abx_error **err)
{
    struct rlimit r;
    if (getrlimit((__rlimit_resource_t)what, &r) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot limit the module");
    if (r.rlim_max < most)
        most = r.rlim_max;
    r.rlim_cur = r.rlim_max = most;
    if (setrlimit((__rlimit_resource_t)what, &r) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot limit the module");
    return 0;
}

/* What is read late by libraries, read now: the time zone, how names are looked up, mathematics. */
static void warm_up(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    tzset();
    if (abx_libm_ready)
        abx_libm_ready();
    if (getaddrinfo("localhost", NULL, &hints, &found) == 0)
        freeaddrinfo(found);
}

/* Root's rights, where it is started by root. */
static int drop_rights(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}, {0}};
    return (int)syscall(SYS_capset, &head, none);
}

int abx_js_lock(abx_error **err)
{
    if (ABX_JS_SANITIZED)
        return 0;
    warm_up();
    if (limit(RLIMIT_CORE, 0, err) < 0 || limit(RLIMIT_FSIZE, 0, err) < 0 ||
        limit(RLIMIT_NOFILE, OPEN_FILES, err) < 0 || limit(RLIMIT_DATA, PROCESS_DATA, err) < 0)
        return -1;
    if (drop_rights() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot lock the module");
    return abx__js_lock_files(err) < 0 ? -1 : abx__js_lock_calls(err);
}
