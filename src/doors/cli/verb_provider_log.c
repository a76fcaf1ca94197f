/* provider log: what a provider's program wrote to standard error. */
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/follow_file.h"
#include "doors/cli/verbs.h"
#include "host/plugin_log.h"

int abx_verb_provider_log(abx_cli *cli, abx_error **err)
{
    const char *id = cli->args->words[0];
    if (!abx_is_name(id)) {
        ABX_AUTO_FREE char *shown = abx_printable(id);
        return abx_fail(err, ABX_ERR_USAGE, "'%.80s' is no id of a provider", shown);
    }
    if (abx_cli_open(cli, err) < 0)
        return -1;
    ABX_AUTO_FREE char *path = abx_plugin_log_path(cli->_home, id, 0);
    if (access(path, F_OK) < 0 && !abx_host_has_provider(cli->_host, id))
        return abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND,
                        "there is no provider '%s', and no log of one", id);
    ABX_AUTO_FREE char *older = abx_plugin_log_path(cli->_home, id, 1);
    return abx_follow_file(cli, older, path, abx_has_flag(cli->args, ABX_FLAG_FOLLOW), err);
}
