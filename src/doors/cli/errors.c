#include "doors/cli/errors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

/* The number of the table of the other verbs. */
static int table_code(const abx_error *e)
{
    return abx_err_row_of(e->id)->exit_code;
}

int abx_exit_code_of(const abx_error *e, bool passes_code, bool remote, int interrupted)
{
    if (interrupted && e->id == ABX_ERR_CANCELLED)
        return 128 + interrupted;
    if (!passes_code || (e->id == ABX_ERR_USAGE && !remote))
        return table_code(e);
    if (e->id == ABX_ERR_START_FAILED)
        return e->sys_errno == ENOENT || e->sys_errno == ENOTDIR ? 127 : 126;
    if (e->id == ABX_ERR_CANCELLED)
        return 130;
    return 125;
}

void abx_error_name_verb(abx_error **err, const abx_verb *verb)
{
    if ((*err)->id == ABX_ERR_TIMEOUT && !(*err)->hint)
        abx_hint(err,
                 "'--wait-timeout DURATION' gives a command more time, none as much as it needs");
    if (verb && (*err)->id == ABX_ERR_USAGE && !(*err)->hint)
        abx_hint(err, "'abx help %s' shows what is accepted", verb->name);
}

static void print_json(FILE *out, const abx_error *e)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *inner = abx_error_json(d, e);
    abx_mut_int(d, inner, "exitCode", table_code(e));
    abx_mut_put(d, root, "error", inner);
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    if (abx_json_write_mut(root, &text) == 0)
        fprintf(out, "%s\n", abx_buf_cstr(&text));
}

static void print_line(FILE *out, bool color, const char *name, const char *paint,
                       const char *value)
{
    ABX_AUTO_FREE char *safe = abx_printable(value);
    if (color)
        fprintf(out, "\033[%sm%s:\033[0m %s\n", paint, name, safe);
    else
        fprintf(out, "%s: %s\n", name, safe);
}

void abx_error_print(FILE *out, const abx_error *e, const abx_error_style *style)
{
    if (style->json) {
        print_json(out, e);
        return;
    }
    print_line(out, style->color, "error", "1;31", abx_error_text(e));
    if (abx_error_hint(e))
        print_line(out, style->color, "hint", "1", abx_error_hint(e));
    ABX_AUTO_FREE char *code = abx_format("%s (%s)", abx_error_code(e), abx_error_type(e));
    print_line(out, style->color, "code", "2", code);
    if (e->request_id)
        print_line(out, style->color, "request", "2", e->request_id);
    if (style->tell_code)
        fprintf(out, "exitCode: %d\n", table_code(e));
}

bool abx_color_on(const abx_args *args, const char *setting, int fd)
{
    const char *flag = abx_flag_value(args, ABX_FLAG_COLOR, "auto");
    if (strcmp(flag, "auto") != 0)
        return strcmp(flag, "always") == 0;
    const char *none = getenv("NO_COLOR");
    if (none && none[0])
        return false;
    if (setting && strcmp(setting, "auto") != 0)
        return strcmp(setting, "always") == 0;
    const char *force = getenv("FORCE_COLOR");
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    const char *term = getenv("TERM");
    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}
