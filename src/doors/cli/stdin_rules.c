#include "doors/cli/stdin_rules.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static int check_flags(const abx_stdin_facts *f, abx_error **err)
{
    if (f->detach && (f->tty || f->interactive)) {
        abx_fail(err, ABX_ERR_USAGE, "'-d' does not go together with '%s'", f->tty ? "-t" : "-i");
        return abx_hint(err, "a command in the background has no terminal and no input");
    }
    if (f->tty && !(f->in == ABX_FD_TTY && f->out_is_tty)) {
        abx_fail(err, ABX_ERR_USAGE, "'-t' needs a terminal, but %s is none",
                 f->in == ABX_FD_TTY ? "standard output" : "standard input");
        return abx_hint(err, "leave out -t, or run it from a terminal");
    }
    return 0;
}

/* Is standard input passed on when no flag says so? */
static bool forwards_by_itself(const abx_stdin_facts *f)
{
    switch (f->in) {
    case ABX_FD_FILE:
    case ABX_FD_PIPE:
    case ABX_FD_SOCKET: return true;
    case ABX_FD_TTY:
        return f->shell; /* a script pasted into a terminal must not be eaten by run or exec */
    case ABX_FD_CLOSED:
    case ABX_FD_NULL:
    case ABX_FD_OTHER: return false; /* programs that wait for the end must see it */
    }
    return false;
}

int abx_stdin_decide(const abx_stdin_facts *f, abx_stdin_plan *plan, abx_error **err)
{
    *plan = (abx_stdin_plan){false, false, false};
    if (check_flags(f, err) < 0)
        return -1;
    if (f->detach)
        return 0;
    bool on_terminal = f->in == ABX_FD_TTY && f->out_is_tty;
    plan->pty = f->tty || (f->shell && on_terminal && !f->no_tty);
    if (f->in == ABX_FD_CLOSED || f->no_stdin)
        plan->forward = false;
    else if (f->interactive)
        plan->forward = true;
    else
        plan->forward = !f->off && forwards_by_itself(f);
    /* A shell on a terminal is nothing without its keyboard, whatever the default for callers in a pipe. */
    if (f->shell && plan->pty && !f->no_stdin)
        plan->forward = true;
    plan->raw = plan->pty && plan->forward && f->in == ABX_FD_TTY;
    return 0;
}

bool abx_wants_input(char *const *command)
{
    static const char *const names[] = {"sh",  "bash",   "dash",    "ash",     "zsh",  "fish",
                                        "ksh", "python", "python3", "ipython", "node", "deno",
                                        "irb", "ruby",   "perl",    "lua",     "php",  "psql"};
    if (!command || !command[0] || command[1])
        return false;
    const char *base = abx_path_base(command[0]);
    for (size_t i = 0; i < ABX_COUNT(names); i++)
        if (strcmp(names[i], base) == 0)
            return true;
    return false;
}
