/* From a connection object to a configuration: what the object holds counts as a flag of the command line does. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/capi/inner.h"
#include "host/plugin.h"

extern char **environ;

/* --- objects from outside ------------------------------------------------------------------------------ */

static int check_members(yyjson_val *object, const char *what, const char *const *known,
                         abx_error **err)
{
    size_t i, n, count = 0;
    yyjson_val *key, *value;
    while (known[count])
        count++;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        bool found = false;
        for (size_t k = 0; k < count && !found; k++)
            found = strcmp(known[k], name) == 0;
        if (found)
            continue;
        ABX_AUTO_FREE char *shown = abx_printable(name);
        const char *near = abx_nearest(name, known, count);
        abx_fail(err, ABX_ERR_USAGE, "%s: unknown member '%s'", what, shown);
        return near ? abx_hint(err, "the nearest known one is '%s'", near) : -1;
    }
    return 0;
}

yyjson_doc *capi_object(const char *text, const char *what, const char *const *known,
                        abx_error **err)
{
    const char *json = text ? text : "{}";
    yyjson_doc *doc = abx_json_parse(json, strlen(json), ABX_ERR_USAGE, what, err);
    if (doc && yyjson_is_obj(yyjson_doc_get_root(doc)) &&
        (!known || check_members(yyjson_doc_get_root(doc), what, known, err) == 0))
        return doc;
    if (doc)
        abx_fail(err, ABX_ERR_USAGE, "%s must be an object", what);
    yyjson_doc_free(doc);
    return NULL;
}

/* A member that is a text, in *out (borrowed, NULL when absent). 0, or -1 and USAGE. */
static int text_member(yyjson_val *object, const char *key, const char **out, abx_error **err)
{
    yyjson_val *v = abx_json_get(object, key);
    *out = yyjson_get_str(v);
    if (v && (!*out || strlen(*out) != yyjson_get_len(v)))
        return abx_fail(err, ABX_ERR_USAGE, "'%s' must be a text", key);
    return 0;
}

/* --- the configuration ---------------------------------------------------------------------------------- */

static char **copy_environment(void)
{
    size_t n = 0;
    while (environ && environ[n])
        n++;
    char **copy = abx_alloc_array(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = abx_strdup(environ[i]);
    return copy;
}

void capi_env_free(char **env)
{
    for (char **e = env; e && *e; e++) {
        explicit_bzero(*e, strlen(*e)); /* may hold keys */
        free(*e);
    }
    free(env);
}

int capi_config_open(capi_context *ctx, bool reads, const char *profile, char ***env,
                     abx_config **out, abx_error **err)
{
    *env = reads ? copy_environment() : NULL;
    ABX_AUTO_FREE char *cwd = reads ? getcwd(NULL, 0) : NULL; /* gone: no project file */
    const abx_config_options options = {
        .home = ctx->home,
        .cwd = cwd,
        .file = ctx->config_file,
        .profile = profile ? profile : ctx->profile,
        .env = (const char *const *)*env,
        .no_files = !reads,
    };
    return abx_config_open(&options, out, err);
}

/* --- the connection ------------------------------------------------------------------------------------- */

/* Which provider: the connection's, an id or a folder, else the configuration's choice. */
static int choose(capi_provider *p, const char *word, char **folder, abx_error **err)
{
    if (word && strchr(word, '/')) {
        ABX_AUTO(abx_plugin, abx_plugin_free) plugin = NULL;
        if (abx_plugin_open_folder(word, &plugin, err) < 0)
            return -1;
        *folder = abx_strdup(plugin->folder);
        p->id = abx_strdup(plugin->manifest->id);
    } else if (word) {
        p->id = abx_strdup(word);
    }
    p->forced = p->id != NULL;
    if (p->forced)
        return abx_config_set_flag(p->config, "provider", p->id, err);
    p->id = abx_strdup(abx_config_get(p->config, "provider", NULL, NULL));
    return 0;
}

int capi_connection_read(capi_provider *p, const char *connection, char **folder, abx_error **err)
{
    static const char *const known[] = {"provider", "profile", "options",     "apiKey",
                                        "apiUrl",   "domain",  "accessKeyId", "accessKeySecret",
                                        "config",   NULL};
    ABX_AUTO_JSON doc = capi_object(connection, "the connection", known, err);
    const char *provider, *profile;
    if (!doc)
        return -1;
    yyjson_val *root = yyjson_doc_get_root(doc), *config = abx_json_get(root, "config");
    if (text_member(root, "provider", &provider, err) < 0 ||
        text_member(root, "profile", &profile, err) < 0)
        return -1;
    if (config && !yyjson_is_bool(config))
        return abx_fail(err, ABX_ERR_USAGE, "'config' must be a boolean");
    bool reads = config ? yyjson_get_bool(config) : p->ctx->reads_config;
    if (capi_config_open(p->ctx, reads, profile, &p->env, &p->config, err) < 0 ||
        choose(p, provider, folder, err) < 0)
        return -1;
    return abx_config_give(p->config, p->id, root, err);
}
