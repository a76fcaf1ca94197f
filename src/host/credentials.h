/* What a provider is given by the user beside its options' plain values: its secrets, the addresses that they are sent to, and where each
 * comes from. For those who store them (abx provider login), and for errors about them. Files are read; nothing is run. Threads: the
 * owner's. */
#ifndef ABX_HOST_CREDENTIALS_H
#define ABX_HOST_CREDENTIALS_H

#include "base/error.h"
#include "host/providers.h"

typedef struct abx_credential {
    char *name; /* the last part of its setting: "api_key", "token" */
    bool required;
} abx_credential;

typedef struct abx_credentials {
    char *provider; /* id */
    bool builtin;
    abx_credential *secrets;
    size_t secret_count;
    char **
        settings; /* all that it takes, secrets too: "api_key", "api_url", "region"; NULL at the end */
    char *address; /* of its API by its manifest; or NULL */
    /* The manifest asks for the account's key, and the user did not let the plugin see it. */
    bool key_withheld;
} abx_credentials;

/* Those of a builtin or an installed provider. 0 and *out (for abx_credentials_clear), or -1 and *err: PROVIDER_NOT_FOUND, or what is
 * wrong with its receipt or its manifest. */
int abx_credentials_open(const abx_providers *known, const char *id, abx_credentials *out,
                         abx_error **err);
void abx_credentials_clear(abx_credentials *c);
static inline void abx_credentials_auto_(abx_credentials *c)
{
    abx_credentials_clear(c);
}
#define ABX_AUTO_CREDENTIALS __attribute__((cleanup(abx_credentials_auto_))) abx_credentials

/* Whether it takes a setting of this name. */
bool abx_credentials_takes(const abx_credentials *c, const char *name);
/* The secret of this name, or NULL. */
const abx_credential *abx_credentials_secret(const abx_credentials *c, const char *name);

/* Complete an error of a provider (its id in *err or not): where a key that was refused comes from, where one that is missing was looked
 * for, which setting an address comes from that cannot be reached or is no such service, and what to type. Errors of other sorts and
 * of providers without keys stay as they are. asked: the operation was one of the account (sandbox.*), not one inside a sandbox. */
void abx_explain_error(const abx_providers *known, const char *id, bool asked, abx_error *err);

#endif
