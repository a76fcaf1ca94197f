/* abx: the program. Which adapters there are is said by the registry; everything else is the command line's. */
#include <string.h>

#include "adapters/registry.h"
#include "doors/cli/cli.h"
#include "local/local.h"

int main(int argc, char **argv)
{
    /* Not a verb: how a parent that holds secrets or threads has the first process of a sandbox made. */
    if (argc == 2 && strcmp(argv[1], "__local-start") == 0)
        return abx_local_starter_main();
    return abx_cli_main(argc, argv, abx_adapters);
}
