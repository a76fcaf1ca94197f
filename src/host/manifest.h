/* The manifest of a provider that is not built in: abx-provider.toml, read into one struct. docs/providers/manifest.md
 * describes it for people; the keys are in manifest.c (top level, [runtime], [connection], [limits]),
 * manifest_option.c ([[options]]) and manifest_rest.c ([rest]).
 *
 * Reading never stops at the first problem; nothing is opened or run but the file itself. Any thread. */
#ifndef ABX_HOST_MANIFEST_H
#define ABX_HOST_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "host/problems.h"
#include "ops/ops.h"

#define ABX_MANIFEST_NAME   "abx-provider.toml"
#define ABX_MANIFEST_SCHEMA 1
#define ABX_MANIFEST_MAX    ((size_t)64 * 1024) /* bytes of the file */

typedef enum abx_provider_kind { ABX_KIND_REST, ABX_KIND_EXEC, ABX_KIND_NODE } abx_provider_kind;
#define ABX_KIND_COUNT 3

/* The common keys: the settings that every provider may have, and that a plugin sees with consent only. */
typedef enum abx_core_key {
    ABX_CORE_API_KEY,
    ABX_CORE_API_URL,
    ABX_CORE_DOMAIN,
    ABX_CORE_ACCESS_KEY_ID,
    ABX_CORE_ACCESS_KEY_SECRET
} abx_core_key;
#define ABX_CORE_COUNT 5

typedef enum abx_option_type {
    ABX_OPTION_STRING,
    ABX_OPTION_INT,
    ABX_OPTION_BOOL,
    ABX_OPTION_URL,
    ABX_OPTION_ENUM
} abx_option_type;

/* One [[options]]. */
typedef struct abx_option {
    char *name;
    abx_option_type type;
    bool required, secret;
    char *otherwise; /* the default as text ("true", "5", …), or NULL */
    char **env; /* variables that set it, the first that is set wins; NULL at the end, or NULL */
    char **choices; /* ENUM: NULL at the end */
    bool has_min, has_max;
    int64_t min, max;  /* INT */
    char *description; /* or NULL */
} abx_option;

typedef struct abx_manifest {
    char *id, *name, *version;
    char *description; /* or NULL */
    abx_provider_kind kind;
    char *protocol; /* as the kind's: abx_kind_protocol */
    char *entry;    /* NODE: path in the folder; else NULL */
    char **command; /* EXEC: argument list, NULL at the end; else NULL */
    size_t command_count;
    char **
        env; /* EXEC: names of variables that the child may see beside the usual ones; NULL at the end, or NULL */
    size_t env_count;
    bool no_labels;                   /* EXEC, NODE: its sandboxes bear none */
    bool features[ABX_FEATURE_COUNT]; /* SANDBOX always */
    bool ops[ABX_OP_COUNT];           /* operations that were named by their own name */
    bool inherit[ABX_CORE_COUNT];     /* common keys that it would like */
    abx_option *options;
    size_t option_count;
    yyjson_doc *rest;         /* REST: the table [rest] as an object; else NULL */
    uint64_t call_timeout_ms; /* of [limits]; 0: none given */
    unsigned program_line,
        program_column; /* where command[0] or entry stands, for problems with it */
} abx_manifest;

/* Read text of n bytes. file: how to name it in problems. The manifest (for abx_manifest_free), or NULL when there is an
 * error among the problems (cleared by the caller; warnings are added too). */
abx_manifest *abx_manifest_parse(const char *file, const char *text, size_t n,
                                 abx_problems *problems);
/* The same for ABX_MANIFEST_NAME in an open folder: an ordinary file below it. folder: how to name it in problems. */
abx_manifest *abx_manifest_read(int folder_fd, const char *folder, abx_problems *problems);
void abx_manifest_free(abx_manifest *manifest); /* NULL allowed */
ABX_DEFINE_AUTO(abx_manifest, abx_manifest_free)

/* "exec" and "epp/1". */
const char *abx_kind_name(abx_provider_kind kind);
const char *abx_kind_protocol(abx_provider_kind kind);
const char *abx_option_type_name(abx_option_type type); /* "string" */
/* Names of a common key: in a manifest and in JSON ("apiKey"), in a configuration ("api_key"). */
const char *abx_core_key_name(abx_core_key key);
const char *abx_core_key_setting(abx_core_key key);
bool abx_core_key_is_secret(abx_core_key key);
/* The key with this manifest name: 1 and *key, or 0. */
int abx_core_key_find(const char *name, abx_core_key *key);

/* True for ids that are compiled in and cannot be installed. */
bool abx_is_reserved_id(const char *id);
/* MAJOR.MINOR.PATCH with -PRE and +BUILD as semantic versioning has them. */
bool abx_is_version(const char *text);
/* Order of two such versions (+BUILD does not count): below 0, 0, above 0. */
int abx_version_compare(const char *a, const char *b);

/* The declared features as the map that the gate reads: every feature → "native" or "unsupported", operations that were named → "native".
 * Owned by the caller. */
yyjson_doc *abx_manifest_features(const abx_manifest *manifest);
/* Whether the manifest declares this operation, by its feature or by its own name. */
bool abx_manifest_has_op(const abx_manifest *manifest, abx_op_id op);
/* The option with this name, or NULL. */
const abx_option *abx_manifest_option(const abx_manifest *manifest, const char *name);

/* True if text is a value of this option ("true" or "false" for BOOL; digits for INT within its range; …); else `expected` says what is. */
bool abx_option_accepts(const abx_option *option, const char *text, char expected[160]);

#endif
