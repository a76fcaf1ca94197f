/* fs.stat by a command: the kernel's own words through stat, which GNU, busybox and toybox have. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"

#define ANSWER_MAX  ((size_t)64 * 1024)
#define SECONDS_MAX ((long long)253402300799) /* the end of the year 9999 */
#define IS_ABSENT   44 /* exit code of the script: there is nothing at this path */

static const char script[] =
    "case $1 in /*) p=$1;; *) p=${HOME:-.}/$1;; esac\n"
    "while [ \"${p%/}\" != \"$p\" ] && [ \"$p\" != / ]; do p=${p%/}; done\n"
    "[ -e \"$p\" ] || [ -L \"$p\" ] || exit 44\n"
    "LC_ALL=C stat -c '%f %s %Y %U %G' -- \"$p\" || exit\n"
    "printf '%s\\0' \"$p\"\n"
    "if [ -L \"$p\" ]; then readlink -n -- \"$p\"; fi\n";

static const char *type_of(unsigned mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "dir";
    case S_IFLNK: return "symlink";
    default: return "other";
    }
}

/* Without "." and empty parts; ".." stays, which only the sandbox's links can resolve. */
static char *plain_path(const char *path)
{
    abx_buf out = ABX_BUF(ANSWER_MAX);
    while (*path) {
        size_t n = strcspn(path, "/");
        bool skip = n == 0 || (n == 1 && *path == '.');
        if (!skip && (abx_buf_add_byte(&out, '/') < 0 || abx_buf_add(&out, path, n) < 0))
            break;
        path += n + (path[n] == '/');
    }
    ABX_CHECK(out.len > 0 || abx_buf_add_byte(&out, '/') == 0);
    return abx_buf_take(&out);
}

/* "MODE SIZE SECONDS OWNER GROUP\nPATH\0TARGET" as a file object; NULL when it is not that. */
static yyjson_mut_doc *read_answer(const abx_buf *output)
{
    const char *text = abx_buf_cstr(output);
    unsigned mode;
    long long size, seconds;
    char owner[256], group[256];
    int used = 0;
    size_t line = output->len ? strcspn(text, "\n") : 0;
    if (line == 0 || line == output->len ||
        sscanf(text, "%x %lld %lld %255s %255s%n", &mode, &size, &seconds, owner, group, &used) !=
            5 ||
        (size_t)used != line || seconds < -SECONDS_MAX || seconds > SECONDS_MAX)
        return NULL;
    const char *answer = text + line + 1;
    const char *target = memchr(answer, 0, output->len - line - 1);
    if (!target || *answer != '/')
        return NULL;
    ABX_AUTO_FREE char *path = plain_path(answer);
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    char when[ABX_RFC3339_SIZE];
    abx_format_rfc3339(seconds * 1000, when);
    abx_mut_str(d, root, "path", path);
    abx_mut_str(d, root, "name", path[1] ? strrchr(path, '/') + 1 : "/");
    abx_mut_str(d, root, "type", type_of(mode));
    abx_mut_int(d, root, "size", size);
    abx_mut_int(d, root, "mode", mode & 07777);
    abx_mut_str(d, root, "owner", owner);
    abx_mut_str(d, root, "group", group);
    abx_mut_str(d, root, "modifiedAt", when);
    if (S_ISLNK(mode))
        abx_mut_strn(d, root, "target", target + 1, output->len - (size_t)(target + 1 - text));
    return d;
}

static void on_answer(abx__emulation *e, yyjson_val *result, const abx_buf *output)
{
    ABX_AUTO_FREE char *path = abx_printable(abx_json_str(abx_call_params(e->outer), "path", ""));
    int64_t code = abx_json_int(result, "exitCode", -1);
    yyjson_mut_doc *file = code == 0 ? read_answer(output) : NULL;
    if (file) {
        abx__emulation_end(e, file);
        return;
    }
    if (code == IS_ABSENT)
        abx__emulation_fail(e, abx_error_new(ABX_ERR_FILE_NOT_FOUND, "there is no '%s'", path));
    else
        abx__emulation_fail(
            e, abx_error_new(ABX_ERR_BACKEND,
                             "cannot tell what '%s' is: the sandbox's stat failed (exit code %lld)",
                             path, (long long)code));
}

static void release(abx__emulation *e)
{
    abx__emulation_clear(e);
    free(e);
}

void abx__emulate_stat(abx_host *host, const char *provider, abx_call *call)
{
    static const char *const kept[] = {"sandboxId", "user", NULL};
    abx__emulation *e = ABX_NEW(abx__emulation);
    abx__emulation_init(e, host, provider, call);
    e->release = release;
    abx__emulation_accept(e);
    const char *path = abx_json_str(abx_call_params(call), "path", "");
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx__emulation_params(e, &root, kept);
    const char *const words[] = {"sh", "-c", script, "sh", path};
    yyjson_mut_val *cmd = abx_mut_arr(d, root, "cmd");
    for (size_t i = 0; i < ABX_COUNT(words); i++)
        yyjson_mut_arr_add_strcpy(d, cmd, words[i]);
    abx__emulation_ask(e, ABX_OP_PROCESS_START, d, NULL, 0, ANSWER_MAX, on_answer);
}
