#include "doors/cli/remote_path.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void abx_remote_path_init(abx_remote_path *p, const char *word)
{
    const char *colon = strchr(word, ':');
    const char *slash = strchr(word, '/');
    bool remote = colon && colon != word && (!slash || slash > colon);
    const char *path = remote ? colon + 1 : word;
    p->sandbox = remote ? abx_strndup(word, (size_t)(colon - word)) : NULL;
    p->path = abx_strdup(path[0] || !remote ? path : ".");
}

void abx_remote_path_clear(abx_remote_path *p)
{
    free(p->sandbox);
    free(p->path);
    *p = (abx_remote_path){NULL, NULL};
}

int abx_remote_path_parse(abx_remote_path *p, const char *word, bool bare_id, abx_error **err)
{
    abx_remote_path_init(p, word);
    if (p->sandbox)
        return 0;
    if (bare_id && word[0] && !strchr(word, '/')) {
        p->sandbox = p->path;
        p->path = abx_strdup(".");
        return 0;
    }
    abx_fail(err, ABX_ERR_USAGE, "'%s' names no sandbox", word);
    return abx_hint(err, "write ID:PATH, as box:/work");
}
