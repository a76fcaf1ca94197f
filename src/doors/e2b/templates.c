#include "doors/e2b/templates.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Names under which programs ask for what E2B starts with. */
static const char *const defaults[] = {"base", "code-interpreter-v1"};

void e2b_wish_clear(e2b_wish *w)
{
    free(w->given);
    free(w->name);
    memset(w, 0, sizeof *w);
}

/* Trimmed, in small letters, without the tag that means none. */
static char *plain_name(const char *given)
{
    size_t from = strspn(given, " \t"), n = strlen(given);
    while (n > from && (given[n - 1] == ' ' || given[n - 1] == '\t'))
        n--;
    char *name = abx_strndup(given + from, n - from);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (abx_has_suffix(name, ":default"))
        name[strlen(name) - strlen(":default")] = 0;
    return name;
}

void e2b_wish_read(e2b_door *door, const char *given, e2b_wish *out)
{
    (void)door;
    *out = (e2b_wish){.given = abx_strdup(given), .name = plain_name(given)};
    for (size_t i = 0; i < ABX_COUNT(defaults); i++)
        if (strcmp(out->name, defaults[i]) == 0) {
            free(ABX_TAKE(out->name));
            return;
        }
}
