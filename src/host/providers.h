/* What is known of providers without opening any: the list of all, and one of them as its manifest and its receipt describe it, as JSON for
 * every door. Files are read; nothing is run. Threads: the owner's. */
#ifndef ABX_HOST_PROVIDERS_H
#define ABX_HOST_PROVIDERS_H

#include "base/error.h"
#include "base/json.h"
#include "host/adapter.h"
#include "host/config.h"

typedef struct abx_providers {
    const char *home; /* of all state; NULL: only builtin ones */
    const abx_adapter *const *adapters;
    const char *version; /* of this program: that of builtin providers */
    abx_config *config;  /* for the chosen one and for the values of options; NULL: none */
} abx_providers;

/* The adapter that is this provider by itself, without a manifest; NULL: none. adapters: NULL at the end, or NULL. */
const abx_adapter *abx_builtin_adapter(const abx_adapter *const *adapters, const char *id);

/* {"providers": [{"id", "name", "version", "kind", "trust", "chosen", "problem"}…]}, builtin ones first, then by id. Cheap: receipts only. NULL and
 * *err. */
yyjson_mut_doc *abx_providers_list(const abx_providers *p, abx_error **err);
/* True for a builtin id, or one that is installed (be it broken). */
bool abx_providers_has(const abx_providers *p, const char *id);
bool abx_providers_is_builtin(const abx_providers *p, const char *id);
/* PROVIDER_NOT_FOUND with the nearest known id, or all of them. -1. */
int abx_providers_unknown(const abx_providers *p, const char *id, abx_error **err);

/* The manifest of a folder. NULL and *err: PROVIDER_NOT_FOUND, or what is wrong with it. */
abx_manifest *abx_providers_folder_manifest(const char *folder, abx_error **err);

/* Everything of one provider: what abx_providers_list has, then "protocol", "description", "source", "installedAt", "treeSha256", "folder",
 * "inherit", "consent", "command" or "entry", "env", "options" (with "set": where its value comes from, and "value", secrets blanked),
 * "callTimeoutMs", "features", "missing" (required options without a value). manifest: of a folder that is not installed (id: NULL), else NULL; features: of a builtin
 * one, or NULL. NULL and *err: PROVIDER_NOT_FOUND, the problem of its receipt or its manifest. */
yyjson_mut_doc *abx_providers_info(const abx_providers *p, const char *id,
                                   const abx_manifest *manifest, yyjson_val *features,
                                   abx_error **err);

/* The address that the provider would speak to, as far as the configuration and its manifest tell: a URL, "this machine", a domain.
 * Owned; NULL: not known. Nothing is opened, no secret is read. */
char *abx_providers_endpoint(const abx_providers *p, const char *id);

#endif
