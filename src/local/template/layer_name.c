#include "local/template/layer_name.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/template/beneath.h"

#define WH     ".wh."
#define WH_LEN 4

static int refuse(const char *raw, const char *why, abx_error **err)
{
    ABX_AUTO_FREE char *shown = abx_strndup(raw, 200);
    ABX_AUTO_FREE char *safe = abx_printable(shown);
    return abx_fail(err, ABX_ERR_FILE, "entry '%s' of the layer is refused: %s", safe, why);
}

/* Append the parts of raw to out without "." and empty ones. Returns the reason of a refusal, or NULL. */
static const char *clean_parts(const char *raw, char *out)
{
    size_t len = 0, depth = 0;
    for (const char *p = raw; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return "it leads out of the layer";
        if (n > 255)
            return "a name in it is longer than 255 bytes";
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (++depth > ABX_TREE_DEPTH)
                return "it is too deep";
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    out[len] = 0;
    return NULL;
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
    size_t len = strlen(raw);
    *kind = ABX_NAME_PLAIN;
    if (len == 0)
        return refuse(raw, "it has no name", err);
    if (len > ABX_LAYER_PATH_MAX)
        return refuse(raw, "its name is too long", err);
    ABX_AUTO_FREE char *name = (char *)abx_alloc(len + 1);
    const char *why = clean_parts(raw, name);
    if (!why && has_mark_on_the_way(name))
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
