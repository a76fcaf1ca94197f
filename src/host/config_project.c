/* Where the project's file is: abx.toml in the working directory or the nearest parent, up to the root of the
 * repository (the folder with .git) or the user's home. Outside both only the working directory counts: a file that
 * somebody else put into /tmp must not reach those who work below it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"

static bool holds(const char *folder, const char *name)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, name);
    return access(path, F_OK) == 0;
}

/* Cut the last part off; false at the root. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || strcmp(path, "/") == 0)
        return false;
    slash[slash == path ? 1 : 0] = 0;
    return true;
}

/* The folder where the search ends; owned. */
static char *last_folder(const char *cwd, const char *home)
{
    ABX_AUTO_FREE char *folder = abx_strdup(cwd);
    do {
        if (holds(folder, ".git") || abx_str_eq(folder, home))
            return ABX_TAKE(folder);
    } while (go_up(folder));
    return abx_strdup(cwd);
}

char *abx__config_find_project(const char *cwd, const char *home)
{
    ABX_AUTO_FREE char *real_cwd = realpath(cwd, NULL);
    ABX_AUTO_FREE char *real_home = home ? realpath(home, NULL) : NULL;
    if (!real_cwd)
        return NULL; /* the folder is gone, or may not be looked at */
    ABX_AUTO_FREE char *last = last_folder(real_cwd, real_home);
    for (char *folder = real_cwd;; go_up(folder)) {
        if (holds(folder, "abx.toml"))
            return abx_path_join(folder, "abx.toml");
        if (strcmp(folder, last) == 0)
            return NULL;
    }
}
