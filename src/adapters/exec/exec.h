/* Inside of the exec adapter: shared between its files. */
#ifndef ABX_ADAPTERS_EXEC_EXEC_H
#define ABX_ADAPTERS_EXEC_EXEC_H

#include "epp/host_session.h"
#include "host/adapter.h"

extern const abx_adapter abx_adapter_exec;

/* How a plugin's program is started: argument list, environment, working directory. */
typedef struct exec_command {
    char *path; /* as options.path of a session */
    char **argv, **envp;
    bool is_script; /* program_fd begins with "#!" */
} exec_command;

/* 0, or -1 and *err. */
int exec_command_init(exec_command *c, const abx_plugin *plugin, abx_error **err);
void exec_command_clear(exec_command *c);

/* What initialize is given: id, options, core, secretKeys. Owned. */
yyjson_doc *exec_greeting(const abx_connection *connection);
/* What a user can call: what the manifest declares and the program has. hello: the result of initialize. A map name → state, owned.
 * *unknown is called for each name that is no feature and no operation. */
yyjson_doc *exec_features(const abx_manifest *manifest, yyjson_val *hello,
                          void (*unknown)(const char *name, void *data), void *data);

#endif
