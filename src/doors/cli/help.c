#include "doors/cli/help.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define FLAG_COLUMN 32

static void add(abx_buf *out, const char *fmt, ...) ABX_PRINTF(2, 3);
static void add(abx_buf *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    ABX_CHECK(abx_buf_add_str(out, text) == 0);
}

/* Continue a text at column `at` of a line, with `indent` for the lines that follow. */
static void wrap_from(abx_buf *out, const char *text, size_t at, size_t indent)
{
    for (bool first = true; *text; first = false) {
        size_t n = strcspn(text, " ");
        if (!first && at + 1 + n > ABX_HELP_WIDTH) {
            add(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            add(out, " ");
            at++;
        }
        add(out, "%.*s", (int)n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    add(out, "\n");
}

void abx_help_wrap(abx_buf *out, const char *text, size_t indent)
{
    add(out, "%*s", (int)indent, "");
    wrap_from(out, text, indent, indent);
}

void abx_help_short(abx_buf *out)
{
    static const struct {
        const char *title, *verbs;
    } lines[] = {
        {"run something", "run create fork exec code shell"},
        {"see what lives", "ls info stats port network jobs logs"},
        {"move files", "cp sync files"},
        {"end and wait", "signal wait extend pause resume kill gc"},
        {"about this machine", "template snapshot doctor config context provider e2b"},
        {"about abx", "help completion schema version"},
    };
    add(out, "abx: throw-away sandboxes to run code in\n\n");
    add(out, "usage: abx [flags] VERB [flags] [SANDBOX] [args] [-- COMMAND [ARG...]]\n\n");
    for (size_t i = 0; i < ABX_COUNT(lines); i++)
        add(out, "  %-20s%s\n", lines[i].title, lines[i].verbs);
    add(out, "\nexamples:\n");
    add(out, "  abx -P local run -- python3 -c 'print(40+2)'\n");
    add(out, "  abx -P local create --name box\n");
    add(out, "  abx exec box -- make test\n");
    add(out, "  abx shell box\n");
    add(out, "  abx kill box\n\n");
    add(out, "'abx help VERB' tells all about a verb, 'abx doctor' tries this machine.\n");
}

char *abx_help_flag_head(const abx_flag *flag)
{
    const char *arg = flag->arg; /* of a choice: what there is to choose */
    if (flag->id == ABX_FLAG_OUTPUT)
        arg = "FORMAT";
    else if (flag->id == ABX_FLAG_COLOR)
        arg = "WHEN";
    char letter[5] = "    ";
    if (flag->letter)
        memcpy(letter, (char[]){'-', flag->letter, ',', ' ', 0}, 5);
    if (flag->type == ABX_FLAG_TYPE_OPTIONAL)
        return abx_format("%s--%s[=%s]", letter, flag->name, arg);
    return abx_format("%s--%s%s%s", letter, flag->name, arg[0] ? " " : "", arg);
}

static void add_flag(abx_buf *out, const abx_flag *flag)
{
    ABX_AUTO_FREE char *head = abx_help_flag_head(flag);
    ABX_AUTO_FREE char *text =
        flag->type == ABX_FLAG_TYPE_CHOICE
            ? abx_format("%s: %s (default %s)", flag->text, flag->arg, flag->otherwise)
        : flag->otherwise[0] ? abx_format("%s (default %s)", flag->text, flag->otherwise)
                             : abx_strdup(flag->text);
    add(out, "  %s", head);
    size_t at = strlen(head) + 2;
    if (at + 2 > FLAG_COLUMN) {
        add(out, "\n");
        at = 0;
    }
    add(out, "%*s", (int)(FLAG_COLUMN - at), "");
    wrap_from(out, text, FLAG_COLUMN, FLAG_COLUMN);
}

static void add_flags(abx_buf *out, const abx_verb *verb, bool global)
{
    bool any = false;
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (abx_flag_is_global(f) != global || !abx_verb_has_flag(verb, f))
            continue;
        if (!any)
            add(out, global ? "\nglobal flags:\n" : "\nflags:\n");
        any = true;
        add_flag(out, f);
    }
}

static void add_texts(abx_buf *out, const abx_verb *verb)
{
    size_t n;
    const abx_verb_line *texts = abx_verb_texts(&n);
    for (size_t i = 0; i < n; i++) {
        if (texts[i].verb != verb->id)
            continue;
        add(out, "\n");
        abx_help_wrap(out, texts[i].text, 0);
    }
}

static void add_examples(abx_buf *out, const abx_verb *verb)
{
    size_t n;
    const abx_verb_line *examples = abx_verb_examples(&n);
    add(out, "\nexamples:\n");
    for (size_t i = 0; i < n; i++) {
        if (examples[i].verb != verb->id)
            continue;
        add(out, "  %s\n", examples[i].command);
        if (examples[i].text[0])
            abx_help_wrap(out, examples[i].text, 6);
    }
}

static void add_exits(abx_buf *out, const abx_verb *verb)
{
    size_t n;
    const abx_exit_row *rows = abx_exit_rows(&n);
    add(out, "\nexit codes:\n");
    for (size_t i = 0; i < n; i++) {
        if (rows[i].exits != verb->exits)
            continue;
        add(out, "  %-8s", rows[i].code);
        wrap_from(out, rows[i].text, 10, 10);
    }
}

void abx_help_verb(const abx_verb *verb, abx_buf *out)
{
    add(out, "%s\n\nusage: abx %s\n", verb->summary, verb->usage);
    if (verb->aliases[0])
        add(out, "also: %s\n", verb->aliases);
    add_texts(out, verb);
    add_examples(out, verb);
    add_flags(out, verb, false);
    add_flags(out, verb, true);
    add_exits(out, verb);
}

void abx_help_group(const char *group, abx_buf *out)
{
    add(out, "usage: abx %s VERB ...\n\n", group);
    size_t n = strlen(group);
    int width = 18;
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        if (abx_has_prefix(v->name, group) && v->name[n] == ' ' && (int)strlen(v->name) + 2 > width)
            width = (int)strlen(v->name) + 2;
    }
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        if (abx_has_prefix(v->name, group) && v->name[n] == ' ')
            add(out, "  %-*s%s\n", width, v->name, v->summary);
    }
    add(out, "\n'abx help %s VERB' tells more.\n", group);
}
