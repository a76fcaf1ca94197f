#include "host/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "host/store_tree.h"

const char *abx_trust_name(abx_trust trust)
{
    static const char *const names[] = {"catalog", "local", "link", "folder"};
    return names[trust];
}

const char **abx_plugin_secret_keys(const abx_plugin *p)
{
    const abx_manifest *m = p->manifest;
    const char **names = abx_alloc_array(m->option_count + ABX_CORE_COUNT + 1, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < m->option_count; i++)
        if (m->options[i].secret)
            names[n++] = m->options[i].name;
    for (int i = 0; i < ABX_CORE_COUNT; i++)
        if (p->consent[i] && abx_core_key_is_secret((abx_core_key)i))
            names[n++] = abx_core_key_name((abx_core_key)i);
    return names;
}

void abx_plugin_free(abx_plugin *p)
{
    if (!p)
        return;
    abx_manifest_free(p->manifest);
    free(p->folder);
    abx_close_fd(&p->folder_fd);
    abx_close_fd(&p->program_fd);
    free(p->entry_text);
    abx_tree_kept_free(p->modules, p->module_count);
    free(p);
}

bool abx_plugin_is_module(const char *path)
{
    return abx_has_suffix(path, ".mjs") || abx_has_suffix(path, ".js");
}

/* Open what lies below the folder, by whatever links inside of it: a descriptor, or -1 with errno. */
static int open_below(int folder_fd, const char *path)
{
    return abx_open_within(folder_fd, path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
}

/* --- the manifest's file ---------------------------------------------------------------------------------- */

static abx_manifest *fail_file(const char *path, const char *text, const char *hint,
                               abx_problems *problems)
{
    abx_problem p = {.id = ABX_ERR_PROVIDER_MANIFEST, .file = path, .text = text, .hint = hint};
    abx_problems_add(problems, &p);
    return NULL;
}

static abx_manifest *read_manifest(int fd, const char *path, abx_problems *problems)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail_file(path, "it is no ordinary file", NULL, problems);
    if (st.st_size > (off_t)ABX_MANIFEST_MAX)
        return fail_file(path, "it is over 64 KiB", NULL, problems);
    ABX_AUTO_FREE char *text = abx_alloc(ABX_MANIFEST_MAX + 1);
    ssize_t n = abx_read_full(fd, text, ABX_MANIFEST_MAX + 1);
    if (n < 0)
        return fail_file(path, strerror(errno), NULL, problems);
    return abx_manifest_parse(path, text, (size_t)n, problems);
}

abx_manifest *abx_manifest_read(int folder_fd, const char *folder, abx_problems *problems)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, ABX_MANIFEST_NAME);
    ABX_AUTO_FD fd = open_below(folder_fd, ABX_MANIFEST_NAME);
    if (fd >= 0)
        return read_manifest(fd, path, problems);
    if (errno == ENOENT)
        return fail_file(path, "there is no such file",
                         "a plugin is a folder with a file " ABX_MANIFEST_NAME, problems);
    if (errno == EXDEV)
        return fail_file(path, "it is a link that leaves the folder", NULL, problems);
    return fail_file(path, strerror(errno), NULL, problems);
}

/* --- program and entry ------------------------------------------------------------------------------------- */

/* What is looked up: where, for whom. */
typedef struct lookup {
    const abx_manifest *m;
    int folder_fd;
    const char *folder, *key;
    abx_problems *problems;
} lookup;

static void add_file(const lookup *l, const char *path, bool warning, const char *what)
{
    const char *folder = l->folder, *key = l->key;
    ABX_AUTO_FREE char *file = abx_path_join(folder, ABX_MANIFEST_NAME);
    ABX_AUTO_FREE char *found = abx_format("\"%s\"", path);
    ABX_AUTO_FREE char *text = abx_format("'%s' is \"%s\": %s", key, path, what);
    abx_problem p = {.warning = warning,
                     .id = ABX_ERR_PROVIDER_MANIFEST,
                     .file = file,
                     .line = l->m->program_line,
                     .column = l->m->program_column,
                     .key = key,
                     .found = found,
                     .text = text};
    abx_problems_add(l->problems, &p);
}

static bool is_on_path(const char *name)
{
    const char *path = getenv("PATH");
    ABX_AUTO_FREE char *folders = abx_strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    char *rest = NULL;
    for (char *f = strtok_r(folders, ":", &rest); f; f = strtok_r(NULL, ":", &rest)) {
        ABX_AUTO_FREE char *whole = abx_path_join(f, name);
        if (access(whole, X_OK) == 0)
            return true;
    }
    return false;
}

/* A descriptor of the file, or -1 after what is wrong with it was added; a program needs the bit that lets it run. */
static int open_file(const lookup *l, const char *path, bool program)
{
    ABX_AUTO_FD fd = open_below(l->folder_fd, path);
    struct stat st;
    if (fd < 0) {
        add_file(l, path, false,
                 errno == ENOENT  ? "there is no such file in the folder (is it built yet?)"
                 : errno == EXDEV ? "it leaves the folder"
                                  : strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        add_file(l, path, false, "it is no ordinary file");
        return -1;
    }
    if (program && !(st.st_mode & 0111)) {
        ABX_AUTO_FREE char *what =
            abx_format("it cannot be executed (mode %04o): chmod +x it", st.st_mode & 07777);
        add_file(l, path, false, what);
        return -1;
    }
    return abx_take_fd(&fd);
}

static int find_command(const lookup *l)
{
    const char *name = l->m->command[0];
    if (name[0] == '/') {
        if (access(name, X_OK) < 0)
            add_file(l, name, true, strerror(errno));
        return -1;
    }
    if (!strchr(name, '/')) {
        ABX_AUTO_FD fd = open_below(l->folder_fd, name);
        if (fd < 0) {
            if (!is_on_path(name))
                add_file(l, name, true, "it is neither in the folder nor on PATH here");
            return -1;
        }
    }
    return open_file(l, name, true);
}

void abx_plugin_find_program(const abx_manifest *m, int folder_fd, const char *folder,
                             int *program_fd, abx_problems *problems)
{
    lookup l = {m, folder_fd, folder, "runtime.command[0]", problems};
    ABX_AUTO_FD fd = -1;
    if (m->kind == ABX_KIND_EXEC)
        fd = find_command(&l);
    l.key = "runtime.entry";
    if (m->kind == ABX_KIND_NODE)
        fd = open_file(&l, m->entry, false);
    if (program_fd && m->kind == ABX_KIND_EXEC)
        *program_fd = abx_take_fd(&fd);
}

/* The texts of a NODE plugin, read once. */
static int read_modules(abx_plugin *p, abx_error **err)
{
    char hex[65];
    ABX_AUTO_FD fd = open_below(p->folder_fd, p->manifest->entry);
    abx_tree_walk walk = {.keep = abx_plugin_is_module};
    abx_tree_held held = {.fd = fd};
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > (off_t)ABX_KEPT_MAX)
        return abx_fail(err, ABX_ERR_PROVIDER_START, "cannot read '%s'", p->manifest->entry);
    p->entry_text = abx_alloc((size_t)st.st_size + 2);
    ssize_t n = abx_read_full(fd, p->entry_text, (size_t)st.st_size + 1);
    if (n < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot read '%s'",
                              p->manifest->entry);
    p->entry_len = (size_t)n;
    p->entry_text[n] = 0;
    held.text = p->entry_text;
    held.len = p->entry_len;
    walk.held = &held;
    walk.held_count = 1;
    int rc = abx_tree_digest(p->folder_fd, &walk, hex, err);
    p->modules = walk.kept;
    p->module_count = walk.kept_count;
    return rc;
}

int abx_plugin_open_folder(const char *folder, abx_plugin **out, abx_error **err)
{
    ABX_AUTO(abx_plugin, abx_plugin_free) p = ABX_NEW(abx_plugin);
    p->program_fd = -1;
    p->trust = ABX_TRUST_FOLDER;
    p->folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->folder = realpath(folder, NULL);
    if (p->folder_fd < 0 || !p->folder)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_NOT_FOUND, errno,
                              "cannot open the plugin folder '%s'", folder);
    ABX_AUTO_PROBLEMS problems = ABX_PROBLEMS;
    p->manifest = abx_manifest_read(p->folder_fd, folder, &problems);
    if (p->manifest)
        abx_plugin_find_program(p->manifest, p->folder_fd, folder, &p->program_fd, &problems);
    if (abx_problems_to_error(&problems, err) < 0)
        return -1;
    if (p->manifest && p->manifest->kind == ABX_KIND_NODE && read_modules(p, err) < 0)
        return -1;
    *out = ABX_TAKE(p);
    return 0;
}
