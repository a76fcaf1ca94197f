#include "local/template/layer_name.h"

#include <string.h>

#include "base/beneath.h"
#include "base/mem.h"
#include "base/text.h"

#define WH     ".wh."
#define WH_LEN 4

static int refuse(const char *raw, const char *why, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_strndup(raw, 200);
    ABX_AUTO_FREE char *safe = abx_printable(shown);
    return abx_fail(err, ABX_ERR_FILE, "entry '%s' of the layer is refused: %s", safe, why);
}

/* A part before the last that looks like a mark. */
static bool has_mark_on_the_way(const char *name)
{
    for (const char *p = name; (p = strstr(p, WH)); p += WH_LEN)
        if ((p == name || p[-1] == '/') && strchr(p, '/'))
            return true;
    return false;
}

static const char *judge_mark(char *name, char *base, abx_name_kind *kind)
{
    static const char *const drivers[] = {".wh..wh.aufs", ".wh..wh.plnk", ".wh..wh.orph"};
    const char *removed = base + WH_LEN;
    if (strcmp(base, ".wh..wh..opq") == 0) {
        *kind = ABX_NAME_OPAQUE;
        if (base > name)
            base[-1] = 0;
        else
            name[0] = 0;
        return NULL;
    }
    for (size_t i = 0; i < ABX_COUNT(drivers); i++) {
        if (strcmp(base, drivers[i]) == 0) {
            *kind = ABX_NAME_SKIP;
            return NULL;
        }
    }
    if (!*removed || strcmp(removed, ".") == 0 || strcmp(removed, "..") == 0)
        return "a mark that removes nothing";
    if (abx_has_prefix(removed, WH))
        return "a mark that removes a mark";
    *kind = ABX_NAME_WHITEOUT;
    memmove(base, removed, strlen(removed) + 1);
    return NULL;
}

int abx_layer_name(const char *raw, abx_name_kind *kind, char **clean, abx_error **err)
{
    const char *why;
    *kind = ABX_NAME_PLAIN;
    ABX_AUTO_FREE char *name = abx_entry_path(raw, &why);
    if (!name)
        return refuse(raw, why, err);
    if (has_mark_on_the_way(name))
        why = "a mark of a removed file is no folder";
    char *slash = strrchr(name, '/');
    char *base = slash ? slash + 1 : name;
    if (!why && abx_has_prefix(base, WH))
        why = judge_mark(name, base, kind);
    if (why)
        return refuse(raw, why, err);
    *clean = ABX_TAKE(name);
    return 0;
}
