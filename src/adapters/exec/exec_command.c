/* The world that a plugin's program is started in (docs/providers/epp.md, "The plugin's world"). */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapters/exec/exec.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

extern char **environ;

static const char *const usual[] = {"PATH", "HOME", "LANG", "TMPDIR"};

static bool may_see(const abx_manifest *m, const char *variable)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < ABX_COUNT(usual); i++)
        if (strlen(usual[i]) == n && strncmp(variable, usual[i], n) == 0)
            return true;
    if (strncmp(variable, "LC_", 3) == 0)
        return true;
    for (size_t i = 0; i < m->env_count; i++)
        if (strlen(m->env[i]) == n && strncmp(variable, m->env[i], n) == 0)
            return true;
    return false;
}

static char **make_environment(const abx_manifest *m)
{
    size_t n = 0, count = 0;
    while (environ && environ[n])
        n++;
    char **list = abx_alloc_array(n + 2, sizeof(char *));
    for (size_t i = 0; i < n; i++)
        if (may_see(m, environ[i]))
            list[count++] = abx_strdup(environ[i]);
    /* Python would write beside the modules that it imports: into what was hashed */
    list[count++] = abx_strdup("PYTHONDONTWRITEBYTECODE=1");
    return list;
}

/* The program in the folder for a plugin whose descriptor is not held: a link, a folder of a run. */
static char *program_in_folder(const abx_plugin *plugin, const char *word)
{
    struct stat st;
    ABX_AUTO_FREE char *path =
        word[0] == '/' ? abx_strdup(word) : abx_path_join(plugin->folder, word);
    bool is_path = strchr(word, '/') != NULL;
    if (is_path || (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0))
        return ABX_TAKE(path);
    return abx_strdup(word); /* on PATH */
}

int exec_command_init(exec_command *c, const abx_plugin *plugin, abx_error **err)
{
    const abx_manifest *m = plugin->manifest;
    char begin[2];
    memset(c, 0, sizeof *c);
    if (m->command_count == 0)
        return abx_fail(err, ABX_ERR_PROVIDER_START, "provider '%s' names no command", m->id);
    c->path = plugin->program_fd >= 0 ? abx_strdup(m->command[0])
                                      : program_in_folder(plugin, m->command[0]);
    c->is_script = plugin->program_fd >= 0 && pread(plugin->program_fd, begin, 2, 0) == 2 &&
                   memcmp(begin, "#!", 2) == 0;
    c->argv = abx_alloc_array(m->command_count + 1, sizeof(char *));
    for (size_t i = 0; i < m->command_count; i++)
        c->argv[i] = abx_strdup(m->command[i]);
    c->envp = make_environment(m);
    return 0;
}

static void free_list(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

void exec_command_clear(exec_command *c)
{
    free(c->path);
    free_list(c->argv);
    free_list(c->envp);
    memset(c, 0, sizeof *c);
}
