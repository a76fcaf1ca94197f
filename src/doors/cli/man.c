#include "doors/cli/man.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/help.h"

/* Text with roff's own characters made plain: a dash stays a dash that can be pasted, a line never begins with
 * a request. */
static void add_text(abx_buf *out, const char *text)
{
    int rc = 0;
    if (*text == '.' || *text == '\'')
        rc |= abx_buf_add_str(out, "\\&");
    for (; *text; text++) {
        switch (*text) {
        case '\\': rc |= abx_buf_add_str(out, "\\e"); break;
        case '-': rc |= abx_buf_add_str(out, "\\-"); break;
        case '\'': rc |= abx_buf_add_str(out, "\\(aq"); break;
        case '`': rc |= abx_buf_add_str(out, "\\(ga"); break;
        case '^': rc |= abx_buf_add_str(out, "\\(ha"); break;
        case '~': rc |= abx_buf_add_str(out, "\\(ti"); break;
        default: rc |= abx_buf_add_byte(out, (uint8_t)*text); break;
        }
    }
    ABX_CHECK(rc == 0);
}

static void add_raw(abx_buf *out, const char *text)
{
    ABX_CHECK(abx_buf_add_str(out, text) == 0);
}

static void add_line(abx_buf *out, const char *request, const char *text)
{
    add_raw(out, request);
    add_text(out, text);
    add_raw(out, "\n");
}

static void add_head(abx_buf *out, const char *page, const char *summary)
{
    ABX_CHECK(abx_buf_addf(out,
                           ".TH \"%s\" 1 \"\" \"abx\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n",
                           page) == 0);
    add_text(out, page);
    add_raw(out, " \\- ");
    add_text(out, summary);
    add_raw(out, "\n");
}

static void add_flags(abx_buf *out, const abx_verb *verb, bool global)
{
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (abx_flag_is_global(f) != global || !abx_verb_has_flag(verb, f))
            continue;
        ABX_AUTO_FREE char *head = abx_help_flag_head(f);
        add_raw(out, ".TP\n");
        add_line(out, ".B ", head + strspn(head, " "));
        add_text(out, f->text);
        if (f->type == ABX_FLAG_TYPE_CHOICE) {
            add_raw(out, ": ");
            add_text(out, f->arg);
        }
        if (f->otherwise[0]) {
            add_raw(out, " (default ");
            add_text(out, f->otherwise);
            add_raw(out, ")");
        }
        add_raw(out, "\n");
    }
}

static void add_exits(abx_buf *out, abx_exits exits)
{
    size_t n;
    const abx_exit_row *rows = abx_exit_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].exits != exits)
            continue;
        add_raw(out, ".TP\n");
        add_line(out, ".B ", rows[i].code);
        add_line(out, "", rows[i].text);
    }
}

char *abx_man_file(const abx_verb *verb)
{
    char *name = abx_format("abx-%s.1", verb->name);
    for (char *p = name; *p; p++)
        if (*p == ' ')
            *p = '-';
    return name;
}

void abx_man_verb(const abx_verb *verb, abx_buf *out)
{
    ABX_AUTO_FREE char *page = abx_man_file(verb);
    page[strlen(page) - 2] = 0;
    add_head(out, page, verb->summary);
    add_raw(out, ".SH SYNOPSIS\n.B abx\n");
    add_line(out, "", verb->usage);
    add_raw(out, ".SH DESCRIPTION\n");
    add_text(out, verb->summary);
    add_raw(out, ".\n");
    size_t n;
    const abx_verb_line *texts = abx_verb_texts(&n);
    for (size_t i = 0; i < n; i++)
        if (texts[i].verb == verb->id)
            add_line(out, ".PP\n", texts[i].text);
    if (verb->aliases[0])
        add_line(out, ".PP\nAlso: ", verb->aliases);
    add_raw(out, ".SH OPTIONS\n");
    add_flags(out, verb, false);
    add_raw(out, ".SS Global\n");
    add_flags(out, verb, true);
    add_raw(out, ".SH EXIT STATUS\n");
    add_exits(out, verb->exits);
    add_raw(out, ".SH EXAMPLES\n");
    const abx_verb_line *examples = abx_verb_examples(&n);
    for (size_t i = 0; i < n; i++) {
        if (examples[i].verb != verb->id)
            continue;
        add_raw(out, ".TP\n");
        add_line(out, ".B ", examples[i].command);
        add_line(out, "", examples[i].text);
    }
    add_raw(out, ".SH SEE ALSO\n.BR abx (1)\n");
}

void abx_man_main(abx_buf *out)
{
    add_head(out, "abx", "throw-away sandboxes to run code in");
    add_raw(out, ".SH SYNOPSIS\n.B abx\n");
    add_line(out, "", "[flags] VERB [flags] [SANDBOX] [args] [-- COMMAND [ARG...]]");
    add_raw(out, ".SH DESCRIPTION\n");
    add_line(
        out, "",
        "A sandbox is named by its id, by its name, or by an unambiguous prefix of its id of four "
        "or more "
        "characters. The first word behind the sandbox, or --, begins the command; it goes to the "
        "process as an argument list, no shell stands between.");
    add_raw(out, ".SH VERBS\n");
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        add_raw(out, ".TP\n");
        add_line(out, ".B ", v->name);
        add_line(out, "", v->summary);
    }
    add_raw(out, ".SH OPTIONS\n");
    add_flags(out, NULL, true);
    add_raw(out, ".SH EXIT STATUS\nOf run, exec and shell:\n");
    add_exits(out, ABX_EXITS_PROCESS);
    add_raw(out, ".PP\nOf all others:\n");
    add_exits(out, ABX_EXITS_COMMON);
    add_raw(out, ".SH SEE ALSO\n");
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        ABX_AUTO_FREE char *page = abx_man_file(abx_verb_row((abx_verb_id)i));
        page[strlen(page) - 2] = 0;
        ABX_CHECK(abx_buf_addf(out, ".BR %s (1)%s\n", page, i + 1 < ABX_VERB_COUNT ? "," : "") ==
                  0);
    }
}
