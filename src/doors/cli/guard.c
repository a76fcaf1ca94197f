#include "doors/cli/guard.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "host/config_keys.h"

void abx_guard_memory(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static bool env_holds_secret(void)
{
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].secret && rows[i].env && getenv(rows[i].env))
            return true;
    return false;
}

static void on_secret(void *data)
{
    (void)data;
    abx_guard_memory();
}

void abx_guard_secrets(abx_config *config)
{
    struct rlimit core;
    abx_config_on_secret(config, on_secret, NULL);
    if (abx_config_holds_secret(config)) {
        abx_guard_memory();
    } else if (env_holds_secret() && getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = 0;
        (void)setrlimit(RLIMIT_CORE, &core);
    }
}
