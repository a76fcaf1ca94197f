/* abx: the program. Which adapters there are is said by the registry, which doors run as servers here; everything else is the command line's. */
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "adapters/registry.h"
#include "doors/cli/cli.h"
#include "doors/e2b/serve.h"
#include "doors/engine/serve.h"
#include "jshost/jshost.h"
#include "local/local.h"

/* A umask that takes the owner's own rights away would make files that we cannot open again. */
static void keep_owner_rights(void)
{
    mode_t mask = umask(0);
    umask(mask & 077);
}

/* What a caller left us of the stack (ulimit -s) may be too little for us and our threads. The kernel asks for the limit
 * whenever a stack grows, so it can still be raised; a hard limit that is too low is told by the command line. */
static void raise_stack(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) < 0 || r.rlim_cur >= ABX_CLI_STACK)
        return;
    r.rlim_cur = r.rlim_max < ABX_CLI_STACK ? r.rlim_max : ABX_CLI_STACK;
    (void)setrlimit(RLIMIT_STACK, &r);
}

int main(int argc, char **argv)
{
    keep_owner_rights();
    raise_stack();
    /* Not a verb: how a parent that holds secrets or threads has the first process of a sandbox made. */
    if (argc == 2 && strcmp(argv[1], "__local-start") == 0)
        return abx_local_starter_main();
    /* Nor this one: the process of a JavaScript module. */
    if (argc == 2 && strcmp(argv[1], ABX_JS_HOST_WORD) == 0)
        return abx_js_host_main();
    return abx_cli_main(argc, argv, abx_adapters, &e2b_server_door, &engine_server_door);
}
