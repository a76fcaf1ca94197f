#include "doors/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "doors/cli/progress_inner.h"

bool abx__progress_wanted(const abx_cli *cli)
{
    const char *ci = getenv("CI");
    return !cli->quiet && !cli->verbose && !abx_cli_json(cli) && !(ci && ci[0]) &&
           !abx_str_eq(getenv("TERM"), "dumb") && isatty(STDERR_FILENO);
}

static const char *text_of(abx_op_id op)
{
    switch (op) {
    case ABX_OP_SANDBOX_CREATE: return "creating a sandbox ...";
    case ABX_OP_SANDBOX_CONNECT: return "reaching the sandbox ...";
    case ABX_OP_SANDBOX_KILL: return "ending the sandbox ...";
    case ABX_OP_PROVIDER_DOCTOR: return "trying each layer ...";
    default: return NULL;
    }
}

static void on_timer(uv_timer_t *timer)
{
    abx_progress *p = timer->data;
    p->_shown = true;
    fprintf(stderr, "\r%s\033[K", p->_text);
}

static void on_close(uv_handle_t *handle)
{
    ((abx_progress *)handle->data)->_closed = true;
}

void abx_progress_begin(abx_progress *p, abx_cli *cli, abx_op_id op)
{
    memset(p, 0, sizeof *p);
    p->_text = text_of(op);
    if (!p->_text || cli->_transfer || !abx__progress_wanted(cli))
        return;
    p->_open = true;
    uv_timer_init(&cli->_loop, &p->_timer);
    p->_timer.data = p;
    uv_timer_start(&p->_timer, on_timer, ABX__SHOW_AFTER_MS, 0);
    uv_unref((uv_handle_t *)&p->_timer);
}

void abx_progress_end(abx_progress *p)
{
    if (!p->_open)
        return;
    if (p->_shown)
        fputs("\r\033[K", stderr);
    uv_loop_t *loop = p->_timer.loop;
    uv_close((uv_handle_t *)&p->_timer, on_close);
    while (!p->_closed)
        uv_run(loop, UV_RUN_NOWAIT);
}
