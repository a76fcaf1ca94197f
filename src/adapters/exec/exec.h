/* Providers of kind exec: a program that speaks EPP/1. */
#ifndef ABX_ADAPTERS_EXEC_EXEC_H
#define ABX_ADAPTERS_EXEC_EXEC_H

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

#endif
