/* What all providers share that are served by a program of their own over EPP/1: one process for an open provider, started with its
 * first call and again after it died. A kind says how it is started. */
#ifndef ABX_ADAPTERS_PROGRAM_H
#define ABX_ADAPTERS_PROGRAM_H

#include "epp/host_session.h"
#include "host/adapter.h"

typedef struct abx_program_kind {
    const abx_adapter *adapter;
    /* What starting it needs, made once; NULL and *err when it cannot be. connection lives longer. */
    void *(*prepare)(const abx_connection *connection, abx_error **err);
    /* Fill path, argv, envp, cwd, program_fd, is_script, extra_fd of a session: borrowed from state. */
    void (*fill)(void *state, abx_epp_session_options *options);
    void (*free)(void *state);
} abx_program_kind;

/* abx_adapter.open of a kind; the other three are the same for all. */
int abx_program_open(const abx_program_kind *kind, const abx_connection *connection,
                     abx_provider **out, abx_error **err);
void abx_program_prepare(abx_provider *provider, void (*cb)(void *data, const abx_error *err),
                         void *data);
int abx_program_start(abx_provider *provider, abx_call *call, abx_error **err);
void abx_program_close(abx_provider *provider, void (*cb)(void *data), void *data);

/* What initialize is given: id, options, core, secretKeys. Owned. */
yyjson_doc *abx_program_greeting(const abx_connection *connection);
/* What a user can call: what the manifest declares and the program has. hello: the result of initialize. A map name → state, owned.
 * *unknown is called for each name that is no feature and no operation. */
yyjson_doc *abx_program_features(const abx_manifest *manifest, yyjson_val *hello,
                                 void (*unknown)(const char *name, void *data), void *data);

#endif
