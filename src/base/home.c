#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* The user's home folder by HOME, else by /etc/passwd read directly (a name service may block). */
static char *user_home(void)
{
    const char *home = getenv("HOME");
    if (home && home[0] == '/')
        return abx_strdup(home);
    abx_buf text = ABX_BUF(0);
    if (abx_read_file("/etc/passwd", (size_t)4 * 1024 * 1024, &text, NULL) != 0)
        return NULL;
    char *found = NULL, *save = NULL;
    for (char *line = strtok_r((char *)text.data, "\n", &save); line && !found;
         line = strtok_r(NULL, "\n", &save)) {
        char *field[7] = {0}, *rest = line;
        for (int i = 0; i < 7 && rest; i++)
            field[i] = strsep(&rest, ":");
        if (field[2] && field[5] && field[5][0] == '/' &&
            strtoul(field[2], NULL, 10) == (unsigned long)getuid())
            found = abx_strdup(field[5]);
    }
    abx_buf_clear(&text);
    return found;
}

char *abx_home_path(abx_error **err)
{
    const char *set = getenv("ABX_HOME");
    if (set && *set) {
        if (set[0] == '/')
            return abx_strdup(set);
        ABX_AUTO_FREE char *cwd = getcwd(NULL, 0);
        if (!cwd) {
            abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot find the working directory");
            return NULL;
        }
        return abx_path_join(cwd, set);
    }
    ABX_AUTO_FREE char *home = user_home();
    if (!home) {
        abx_fail(err, ABX_ERR_HOME, "no home folder: HOME is not set and the user has none");
        return NULL;
    }
    return abx_path_join(home, ".abx");
}

/* Is it named as abx names it, does it hold what abx keeps, or nothing at all? Any other folder belongs to somebody who may need its
 * mode: /etc, a project. */
static bool is_for_us(const char *path)
{
    const char *name = strrchr(path, '/');
    if (name && strcmp(name, "/.abx") == 0)
        return true;
    DIR *dir = opendir(path);
    bool empty = dir != NULL, known = false;
    for (const struct dirent *e; dir && !known && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        empty = false;
        known = strcmp(e->d_name, "ledger") == 0 || strcmp(e->d_name, "config.toml") == 0;
    }
    if (dir)
        closedir(dir);
    return empty || known;
}

static int check_home(const char *path, bool *tightened, abx_error **err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot use '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return abx_fail(err, ABX_ERR_HOME, "'%s' is no folder", path);
    if (st.st_uid != geteuid()) {
        abx_fail(err, ABX_ERR_HOME, "'%s' belongs to another user (uid %u)", path, st.st_uid);
        return abx_hint(err, "set ABX_HOME to a folder of your own");
    }
    if (st.st_mode & 022) {
        abx_fail(err, ABX_ERR_HOME, "'%s' can be written by others (mode %04o)", path,
                 st.st_mode & 07777);
        return is_for_us(path) ? abx_hint(err, "chmod 700 '%s'", path)
                               : abx_hint(err, "set ABX_HOME to a new folder");
    }
    if (st.st_mode & 055) {
        if (!is_for_us(path)) {
            abx_fail(err, ABX_ERR_HOME,
                     "'%s' holds other things than abx's and can be read by others (mode %04o)",
                     path, st.st_mode & 07777);
            return abx_hint(err, "set ABX_HOME to a new folder");
        }
        if (chmod(path, 0700) < 0)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot tighten '%s'", path);
        if (tightened)
            *tightened = true;
    }
    return 0;
}

char *abx_home_open_at(const char *where, bool *tightened, abx_error **err)
{
    if (tightened)
        *tightened = false;
    ABX_AUTO_FREE char *path = abx_strdup(where);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    abx_error *why = NULL;
    if (access(path, F_OK) < 0 && abx_make_dirs(path, 0700, &why) < 0) {
        if (why->id != ABX_ERR_NO_SPACE)
            why->id = ABX_ERR_HOME;
        abx_error_take(err, why);
        return NULL;
    }
    if (check_home(path, tightened, err) < 0)
        return NULL;
    return ABX_TAKE(path);
}

char *abx_home_open(bool *tightened, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_home_path(err);
    return path ? abx_home_open_at(path, tightened, err) : NULL;
}
