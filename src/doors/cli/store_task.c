#include "doors/cli/store_task.h"

#include "base/clock.h"
#include "base/file.h"

static int on_tick(void *data, uint64_t entries, uint64_t bytes, abx_error **err)
{
    abx_cli_task *t = data;
    abx_cli *cli = t->_cli;
    uv_run(&cli->_loop, UV_RUN_NOWAIT);
    if (abx_cli_interrupted(cli))
        return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
    if (cli->deadline != ABX_FOREVER && abx_now_mono_ms() >= cli->deadline)
        return abx_fail(err, ABX_ERR_TIMEOUT, "it was not done within the time limit");
    if (entries < t->_entries || bytes < t->_bytes) /* the next part of the work */
        t->_entries = t->_bytes = 0;
    abx_transfer_add(&t->_line, (int64_t)(bytes - t->_bytes), (int64_t)(entries - t->_entries));
    t->_entries = entries;
    t->_bytes = bytes;
    return 0;
}

int abx_cli_task_begin(abx_cli_task *t, abx_cli *cli, const char *label, char **home,
                       abx_error **err)
{
    bool tightened = false;
    *t = (abx_cli_task){.task = {on_tick, t}, ._cli = cli};
    *home = abx_home_open(&tightened, err);
    if (!*home || abx_cli_open_loop(cli, err) < 0)
        return -1;
    if (tightened)
        abx_cli_note(cli, "warning: '%s' could be read by others; its mode is 0700 now", *home);
    abx_transfer_begin(&t->_line, cli, label);
    t->_line.state.total_bytes = t->_line.state.total_files = -1;
    return 0;
}

void abx_cli_task_end(abx_cli_task *t)
{
    abx_transfer_end(&t->_line);
}
