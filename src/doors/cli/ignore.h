/* Patterns of names that are left alone, in the syntax of .gitignore: one a line; '#' begins a comment, '!' takes back;
 * a slash at the end means folders only; a slash elsewhere ties the pattern to the top folder, else it holds at any
 * depth; '*' and '?' and '[a-z]' stay between slashes, a part of two stars stands for any number of folders; a backslash
 * takes the meaning from the next character. The last pattern that fits decides. Pure; names are bytes. */
#ifndef ABX_CLI_IGNORE_H
#define ABX_CLI_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct abx_ignore_rule {
    char *pattern; /* without '!' and slashes at its ends */
    bool keep;     /* '!' */
    bool dirs_only, anchored;
} abx_ignore_rule;

typedef struct abx_ignore {
    abx_ignore_rule *rules;
    size_t count, _cap;
} abx_ignore;

/* Zeroed is empty. */
void abx_ignore_clear(abx_ignore *g);
/* One pattern, copied; blank lines and comments add nothing. include: as if it had a '!' more. */
void abx_ignore_add(abx_ignore *g, const char *line, bool include);
/* The lines of a file. */
void abx_ignore_add_text(abx_ignore *g, const char *text);
/* Is this path (relative, without slashes at its ends) ignored, if none of the folders above it is? */
bool abx_ignore_match(const abx_ignore *g, const char *path, bool is_dir);

#endif
