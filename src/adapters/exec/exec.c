#include "adapters/exec/exec.h"

#include "adapters/program.h"
#include "base/mem.h"

typedef struct exec_state {
    const abx_plugin *plugin;
    exec_command command;
    char *folder;
} exec_state;

static void free_state(void *state)
{
    exec_state *s = state;
    exec_command_clear(&s->command);
    free(s->folder);
    free(s);
}

static void *prepare(const abx_connection *connection, abx_error **err)
{
    exec_state *s = ABX_NEW(exec_state);
    s->plugin = connection->plugin;
    /* the very folder whose digest was checked; a descriptor below 4 would be replaced in the child */
    int folder_fd = s->plugin->folder_fd;
    s->folder =
        folder_fd > 3 ? abx_format("/proc/self/fd/%d", folder_fd) : abx_strdup(s->plugin->folder);
    if (exec_command_init(&s->command, s->plugin, err) == 0)
        return s;
    free_state(s);
    return NULL;
}

static void fill(void *state, abx_epp_session_options *options)
{
    const exec_state *s = state;
    options->path = s->command.path;
    options->argv = s->command.argv;
    options->envp = s->command.envp;
    options->cwd = s->folder;
    options->program_fd = s->plugin->program_fd;
    options->is_script = s->command.is_script;
}

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err);

const abx_adapter abx_adapter_exec = {
    .kind = "exec",
    .id_giver = ABX_GIVER_EITHER,
    .open = open_provider,
    .prepare = abx_program_prepare,
    .start = abx_program_start,
    .close = abx_program_close,
};

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    static const abx_program_kind kind = {
        .adapter = &abx_adapter_exec, .prepare = prepare, .fill = fill, .free = free_state};
    return abx_program_open(&kind, connection, out, err);
}
