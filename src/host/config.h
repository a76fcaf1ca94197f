/* Settings: each found by flag, environment, profile, project file, user file, system file, default, in that order;
 * with its source. TOML, read through one shim (host/toml.h); an unknown key, a wrong type or a duplicate is an error
 * with file, line, what was found and the nearest known key.
 *
 * Known settings (settings.def): provider, profile, output, timeout, command_timeout?, …; [providers.ID] common keys
 * (api_key, api_url, domain, access_key_id, access_key_secret) and options; [profiles.NAME] of the same shape. */
#ifndef ABX_HOST_CONFIG_H
#define ABX_HOST_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

typedef struct abx_config abx_config;

typedef enum abx_source {
    ABX_SOURCE_DEFAULT,
    ABX_SOURCE_SYSTEM,
    ABX_SOURCE_USER,
    ABX_SOURCE_PROJECT,
    ABX_SOURCE_PROFILE,
    ABX_SOURCE_ENV,
    ABX_SOURCE_FLAG
} abx_source;

typedef struct abx_config_options {
    const char *home;        /* of all state: HOME/config.toml, HOME/trust/ */
    const char *cwd;         /* where the search for abx.toml begins; NULL: none */
    const char *system_file; /* NULL: /etc/abx/config.toml */
    const char
        *file; /* --config FILE or ABX_CONFIG instead of HOME/config.toml; must exist; or NULL */
    const char *profile; /* --profile, or NULL: ABX_PROFILE, then the setting */
    const char *const
        *env; /* the environment, "K=V", NULL at the end; borrowed until free; NULL: none */
    /* Find the project's file, but take nothing from it: for `config trust`, which must work while that
     * file sets what needs trust. */
    bool ignore_project;
    /* A chosen profile that is in no file is no error: for the verbs that repair a configuration. */
    bool ignore_profile;
    /* Read no file at all: flags, environment and defaults only. For servers that take nothing from their user's files. */
    bool no_files;
} abx_config_options;

int abx_config_open(const abx_config_options *options, abx_config **out, abx_error **err);
void abx_config_free(abx_config *config);
/* A configuration that holds what one client sent and nothing else: no file and no variable is read. connection: {"provider", "options":
 * {NAME: text, integer or boolean}, "apiKey", "apiUrl", "domain", "accessKeyId", "accessKeySecret"}, all but the first optional. Each value stands
 * for itself ("env:NAME" and "file:PATH" are no references). home: copied. 0; -1 and *err: USAGE for a wrong shape, PROVIDER_CONFIG for a
 * value or an option that the provider does not take. The secrets are overwritten by abx_config_free. */
int abx_config_open_given(const char *home, yyjson_val *connection, abx_config **out,
                          abx_error **err);
/* The same values for a configuration that was opened in another way: they come before all others of this provider. "provider",
 * "profile" and "config" are not looked at. */
int abx_config_give(abx_config *config, const char *provider, yyjson_val *connection,
                    abx_error **err);
bool abx_config_is_given(const abx_config *config); /* made by that */
/* A flag of the command line sets a value (checked). */
int abx_config_set_flag(abx_config *config, const char *key, const char *value, abx_error **err);
/* Forget what it set for keys of providers ("providers.ID.KEY"): values that are tried before they are stored. */
void abx_config_end_trial(abx_config *config);

/* The value as text (borrowed until the config changes), NULL if there is none and no default. *source and *where
 * ("flag --provider", "ABX_PROVIDER", "FILE:LINE") are set when not NULL. key: "provider", "output", … or
 * "providers.ID.KEY". References ("env:NAME", "file:PATH") of secret keys are resolved by abx_config_secret only. */
const char *abx_config_get(abx_config *config, const char *key, abx_source *source,
                           const char **where);
/* A common key of a provider with references resolved; owned by the caller; NULL without one (no error) or with *err. */
char *abx_config_secret(abx_config *config, const char *provider, const char *key, abx_error **err);
/* The options of a builtin provider as an object: [providers.ID] beside the common keys, -O flags over them, defaults
 * below. NULL and *err when an -O flag does not fit. */
yyjson_doc *abx_config_provider_options(abx_config *config, const char *provider, abx_error **err);
/* Where the value of a provider's key is looked for, in that order, as text for people: "ABX_API_KEY, [profiles.work.providers.ID] and
 * [providers.ID] of '/home/me/.abx/config.toml', '/etc/abx/config.toml'". Owned by the caller. */
char *abx_config_places(abx_config *config, const char *provider, const char *key);
/* The secrets that the user's file holds for a provider, below the profile in use if it holds some there, else outside of profiles:
 * whole keys as abx_config_apply takes them, NULL at the end. The array and the texts are the caller's (abx_config_free_keys). */
char **abx_config_stored_secrets(abx_config *config, const char *provider);
void abx_config_free_keys(char **keys);
/* The options that a manifest declares as an object of the types that it gives: -O flags, then the variables that it names,
 * then the chosen profile and the files, then its defaults. Each value is checked; references of secret ones are
 * resolved. NULL and *err: USAGE for a flag; PROVIDER_CONFIG for a variable, a file, a key that it does not have, and for
 * required ones that are missing (all of them are named, and each way to set them). */
struct abx_manifest;
yyjson_doc *abx_config_plugin_options(abx_config *config, const struct abx_manifest *manifest,
                                      abx_error **err);
int abx_config_set_option(abx_config *config, const char *key_value,
                          abx_error **err); /* -O key=value */

/* {"settings":[{"key","value","source","where"}…]}; secrets show at most their last four characters. */
yyjson_doc *abx_config_list(abx_config *config);
/* 0 when a key is known ("output", "providers.ID.KEY", "profiles.NAME.KEY", …), else -1 and USAGE; the hint names the
 * nearest known one. */
int abx_config_check_key(abx_config *config, const char *key, abx_error **err);
/* Whether a key that abx_config_write takes is that of a secret. */
bool abx_config_is_secret(abx_config *config, const char *key);
/* True if a file held the text of a secret (not a reference): then this process has it in its memory, and must not
 * fork a sandbox's first process itself. */
bool abx_config_holds_secret(abx_config *config);
/* cb(data) whenever the text of a secret was loaded for a provider, from wherever: the program may want to keep its memory out
 * of core files. NULL: nobody. */
void abx_config_on_secret(abx_config *config, void (*cb)(void *data), void *data);
/* The row of a whole key with what the manifests of installed plugins add to abx_setting_find: their options with type,
 * variables and secrecy, and unknown ones refused. Borrowed until the config is freed. NULL and *err as there. */
const struct abx_setting_row *abx_config_row(abx_config *config, const char *key, abx_err_id id,
                                             abx_error **err);

/* Write or remove a key ("output", "providers.ID.KEY", "profiles.NAME.KEY", …) in the user's file: atomic, comments
 * kept, checked before. Mode 0600. */
int abx_config_write(abx_config *config, const char *key, const char *value, abx_error **err);
int abx_config_unset(abx_config *config, const char *key, abx_error **err);
/* Several of these in one step: the file holds all changes or none, whenever it is interrupted. value NULL takes the key out; one that is
 * not there stays so. */
typedef struct abx_config_change {
    const char *key, *value;
} abx_config_change;
int abx_config_apply(abx_config *config, const abx_config_change *changes, size_t count,
                     abx_error **err);
/* Names of the profiles that the files have, in their order; borrowed until the configuration changes. */
const char *const *abx_config_profiles(const abx_config *config, size_t *count);
const char *abx_config_user_path(abx_config *config);
/* The project's file, or NULL; whether the user trusts its present content. */
const char *abx_config_project_path(abx_config *config, bool *trusted);
int abx_config_trust(abx_config *config,
                     abx_error **err); /* remember the digest of the project's file */

#endif
