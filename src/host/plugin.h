/* A plugin folder that was checked and may be run: what an adapter is given. The store makes one of what is installed
 * (host/store.h); abx_plugin_open_folder of a folder that is not. */
#ifndef ABX_HOST_PLUGIN_H
#define ABX_HOST_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "host/manifest.h"

typedef enum abx_trust {
    ABX_TRUST_CATALOG, /* came with this program */
    ABX_TRUST_LOCAL,   /* installed from a folder or an archive */
    ABX_TRUST_LINK,    /* a link to a folder for development: nothing is compared */
    ABX_TRUST_FOLDER   /* a folder given for this run, never installed */
} abx_trust;

typedef struct abx_plugin {
    abx_manifest *manifest;
    char *folder;  /* absolute path */
    int folder_fd; /* O_PATH of exactly what was read */
    int program_fd; /* EXEC: the program in the folder, opened for reading; -1 when command[0] is to be looked up on
                     * PATH (or is an absolute path) */
    char *entry_text; /* NODE: the entry as it was read; or NULL */
    size_t entry_len;
    struct abx_tree_kept *
        modules; /* NODE: its files that a module may import, besides the entry, as they were read */
    size_t module_count;
    bool consent[ABX_CORE_COUNT]; /* which common keys it may see */
    abx_trust trust;
} abx_plugin;

void abx_plugin_free(abx_plugin *plugin); /* NULL allowed */
ABX_DEFINE_AUTO(abx_plugin, abx_plugin_free)

/* Open a folder that is not installed: trust FOLDER, no consent. Its manifest is read and its program or entry looked
 * up (abx_plugin_find_program). 0 and *out, or -1 and *err (PROVIDER_NOT_FOUND: no such folder; else what the manifest's
 * first problem is). Reads files; nothing is run. */
int abx_plugin_open_folder(const char *folder, abx_plugin **out, abx_error **err);

/* Look up the program (EXEC) or the entry (NODE) that a manifest names in its folder and add what is wrong with it to
 * the problems: missing, no ordinary file, not executable. EXEC: *program_fd becomes the program in the folder or -1; a command without '/' that is
 * neither in the folder nor on PATH is a warning. folder names it in problems. program_fd may be NULL. */
void abx_plugin_find_program(const abx_manifest *manifest, int folder_fd, const char *folder,
                             int *program_fd, abx_problems *problems);

/* Names of what is secret among its options and the common keys that it may see ("token", "apiKey"), NULL at the end.
 * The array is the caller's (free), the names are borrowed from the manifest. */
const char **abx_plugin_secret_keys(const abx_plugin *plugin);
/* Whether a file of a plugin is one that a module may import, by its name. */
bool abx_plugin_is_module(const char *path);
const char *abx_trust_name(abx_trust trust); /* "catalog", "local", "link", "folder" */

#endif
