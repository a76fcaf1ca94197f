#include "doors/cli/code_notebook.h"

#include <signal.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/code_block.h"
#include "doors/cli/errors.h"
#include "doors/cli/stream.h"

#define BLOCK_MAX ((size_t)16 * 1024 * 1024)

typedef struct notebook {
    abx_cli *cli;
    const abx_code_options *options;
    abx_feed feed;
    abx_buf typed; /* of the terminal, not looked at yet */
    abx_buf block; /* lines of the piece that is being typed */
    bool shell;    /* the language is bash */
    bool ended;
} notebook;

static void prompt(const notebook *n)
{
    const char *text = n->block.len > 0 ? "... " : ">>> ";
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    notebook *n = data;
    if (sig == SIGINT) { /* the terminal has dropped its unfinished line too */
        abx_buf_reset(&n->block);
        (void)!write(STDERR_FILENO, "\n", 1);
        prompt(n);
    } else if (sig != SIGWINCH) {
        abx_cli_interrupt(cli, sig);
    }
}

/* Errors that end one run only: the sandbox still answers. */
static bool goes_on(const abx_error *e)
{
    return e->id == ABX_ERR_TOO_LARGE || e->id == ABX_ERR_START_FAILED || e->id == ABX_ERR_QUOTA;
}

static int run_block(notebook *n, abx_error **err)
{
    int code = 0;
    abx_error *why = NULL;
    int rc = 0;
    if (!abx_utf8_valid(n->block.data, n->block.len))
        rc = abx_fail(&why, ABX_ERR_TOO_LARGE, "the code is not UTF-8");
    else
        rc = abx_code_run(n->cli, n->options, abx_buf_cstr(&n->block), n->block.len, &code, &why);
    abx_buf_reset(&n->block);
    if (n->cli->output_closed)
        n->ended = true;
    if (rc == 0)
        return 0;
    if (!goes_on(why))
        return abx_error_take(err, why);
    (void)abx_cli_report(n->cli, why);
    abx_error_free(why);
    return 0;
}

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", text[i]))
            return false;
    return true;
}

/* Take the lines that are whole. 0, or -1 and *err. */
static int take_lines(notebook *n, abx_error **err)
{
    const char *end = NULL;
    while (n->typed.len > 0 && (end = memchr(n->typed.data, '\n', n->typed.len)) && !n->ended) {
        size_t len = (size_t)(end - (const char *)n->typed.data) + 1;
        bool skip = n->block.len == 0 && is_blank((const char *)n->typed.data, len);
        if (!skip && abx_buf_add(&n->block, n->typed.data, len) < 0)
            return abx_fail(err, ABX_ERR_TOO_LARGE, "the code is larger than %zu bytes", BLOCK_MAX);
        abx_buf_drop(&n->typed, len);
        if (!skip && !abx_code_wants_more(abx_buf_cstr(&n->block), n->block.len, n->shell) &&
            run_block(n, err) < 0)
            return -1;
        if (n->typed.len == 0 && !n->ended)
            prompt(n);
    }
    return 0;
}

static int loop(notebook *n, abx_error **err)
{
    const uint8_t *bytes = NULL;
    size_t count = 0;
    prompt(n);
    while (!n->ended) {
        int rc = abx_feed_read(&n->feed, &bytes, &count, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        if (abx_buf_add(&n->typed, bytes, count) < 0)
            return abx_fail(err, ABX_ERR_TOO_LARGE, "the line is too long");
        if (take_lines(n, err) < 0)
            return -1;
    }
    if (n->block.len > 0 && !n->ended)
        return run_block(n, err);
    (void)!write(STDERR_FILENO, "\n", 1);
    return 0;
}

int abx_code_notebook(abx_cli *cli, const abx_code_options *options, abx_error **err)
{
    const char *language = options->language ? options->language : "";
    bool shell = strcasecmp(language, "bash") == 0 || strcasecmp(language, "sh") == 0;
    notebook n = {.cli = cli, .options = options, .shell = shell};
    abx_buf_init(&n.typed, BLOCK_MAX);
    abx_buf_init(&n.block, BLOCK_MAX);
    abx_feed_open(&n.feed, cli, STDIN_FILENO);
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(cli, on_signal, &n, &former_data);
    int rc = loop(&n, err);
    abx_cli_take_signals(cli, former, former_data, NULL);
    abx_feed_close(&n.feed);
    abx_buf_clear(&n.typed);
    abx_buf_clear(&n.block);
    return rc;
}
