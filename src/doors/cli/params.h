/* Parameters of calls, made from flags. */
#ifndef ABX_CLI_PARAMS_H
#define ABX_CLI_PARAMS_H

#include "doors/cli/cli.h"

/* --env-file and --env as an object, the later wins; NULL when there is none (no error), or with *err. */
int abx_params_env(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, abx_error **err);
/* Parameters of sandbox.create: name, labels, life, network, weaker layers. NULL and *err. with_env: the environment too. */
yyjson_mut_doc *abx_params_create(abx_cli *cli, bool tied, bool with_env, abx_error **err);
/* One line on stderr when limits of this new sandbox can only be watched. They were asked for. */
void abx_note_watched(abx_cli *cli, yyjson_val *sandbox);
/* `network` by words such as none, internet, allow:HOST: the last one, or all that name a host. 0 or -1. */
int abx_params_network(yyjson_mut_doc *d, yyjson_mut_val *params, const char *const *words,
                       size_t count, abx_error **err);
/* Parameters of sandbox.fork: name, labels, life. NULL and *err. */
yyjson_mut_doc *abx_params_fork(abx_cli *cli, const char *sandbox, yyjson_mut_val **root,
                                abx_error **err);
/* A path of ours as an absolute one; owned. */
char *abx_params_path(const char *path);
/* cmd, cwd, user of a process; and env when with_env. 0 or -1. */
int abx_params_process(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, bool with_env,
                       abx_error **err);
/* What a terminal needs: cols, rows, term, and COLORTERM as a variable. */
void abx_params_terminal(yyjson_mut_doc *d, yyjson_mut_val *params);
/* Labels as an object {"KEY":"VALUE"} under `metadata`, if there are any. */
void abx_params_labels(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params);

#endif
