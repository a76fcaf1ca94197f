/* Which program starts sandboxes for a program that must not fork itself. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/starter.h"

static char **one_word(char *path)
{
    char **words = (char **)abx_alloc_array(2, sizeof(*words));
    words[0] = path;
    return words;
}

/* abx itself (the engine and the like), or the abx beside the library that this code is in. */
static char *beside(void)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = 0;
        if (abx_str_eq(abx_path_base(self), "abx"))
            return abx_strdup(self);
    }
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)abx_starter_words, &info) || !info.dli_fname ||
        !strchr(info.dli_fname, '/'))
        return NULL;
    ABX_AUTO_FREE char *dir = abx_path_dir(info.dli_fname);
    const char *const places[] = {"abx", "../bin/abx", "../../bin/abx"}; /* lib/TRIPLE/libabx.so */
    for (size_t i = 0; i < ABX_COUNT(places); i++) {
        ABX_AUTO_FREE char *path = abx_path_join(dir, places[i]);
        if (access(path, X_OK) == 0)
            return ABX_TAKE(path);
    }
    return NULL;
}

static char *on_path(void)
{
    const char *list = getenv("PATH");
    ABX_AUTO_FREE char *copy = abx_strdup(list ? list : "/usr/local/bin:/usr/bin:/bin");
    char *rest = copy;
    for (char *dir; (dir = strsep(&rest, ":"));) {
        if (dir[0] != '/')
            continue;
        ABX_AUTO_FREE char *path = abx_path_join(dir, "abx");
        if (access(path, X_OK) == 0)
            return ABX_TAKE(path);
    }
    return NULL;
}

char **abx_starter_words(const char *line, abx_error **err)
{
    if (line)
        return abx_words_split(line, err);
    char *path = beside();
    if (path)
        return one_word(path);
    const char *env = getenv("ABX_BIN");
    if (env && *env)
        return abx_words_split(env, err);
    path = on_path();
    if (path)
        return one_word(path);
    abx_fail(err, ABX_ERR_CONFIG, "the program 'abx', which starts local sandboxes, is not found");
    abx_hint(err, "install abx on PATH, or set ABX_BIN to its path");
    return NULL;
}
