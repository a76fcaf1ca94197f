/* code: run code that keeps its state; its contexts. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/code_notebook.h"
#include "doors/cli/params.h"
#include "doors/cli/print.h"
#include "doors/cli/stream.h"
#include "doors/cli/verbs.h"

#define CODE_MAX ((size_t)16 * 1024 * 1024)

/* --- contexts ---------------------------------------------------------------------------------------------- */
static int list_contexts(abx_cli *cli, const char *sandbox, abx_error **err)
{
    static const char *const headers[] = {"CONTEXT", "LANGUAGE", "STATE", "PID", "CWD", NULL};
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON doc = NULL;
    if (abx_cli_call(cli, ABX_OP_CODE_CONTEXT_LIST, abx_cli_params(sandbox, &root), &doc, err) < 0)
        return -1;
    yyjson_val *array = yyjson_obj_get(yyjson_doc_get_root(doc), "contexts");
    int rc = abx_print_list(cli, "contexts", array, "id", err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *c;
    yyjson_arr_foreach(array, i, n, c)
    {
        int64_t pid = abx_json_int(c, "pid", 0);
        ABX_AUTO_FREE char *number = pid > 0 ? abx_format("%lld", (long long)pid) : NULL;
        const char *state = abx_json_bool(c, "busy", false) ? "busy" : "idle";
        const char *cells[] = {abx_json_str(c, "id", NULL), abx_json_str(c, "language", NULL),
                               abx_json_get(c, "busy") ? state : NULL, number,
                               abx_json_str(c, "cwd", NULL)};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

static int new_context(abx_cli *cli, const char *sandbox, abx_error **err)
{
    const abx_args *a = cli->args;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_cli_params(sandbox, &root);
    abx_mut_str(d, root, "language", abx_flag_value(a, ABX_FLAG_LANG, NULL));
    abx_mut_str(d, root, "cwd", abx_flag_value(a, ABX_FLAG_WORKDIR, NULL));
    ABX_AUTO_JSON doc = NULL;
    if (abx_params_env(cli, d, root, err) < 0 ||
        abx_cli_call(cli, ABX_OP_CODE_CONTEXT_CREATE, ABX_TAKE(d), &doc, err) < 0)
        return -1;
    yyjson_val *context = yyjson_doc_get_root(doc);
    if (abx_cli_json(cli))
        return abx_print_json(cli, context, err);
    return abx_print_name(cli, abx_json_str(context, "id", ""), err);
}

static int change_context(abx_cli *cli, const char *sandbox, abx_op_id op, abx_error **err)
{
    const char *id = abx_flag_value(cli->args, ABX_FLAG_CODE_CONTEXT, NULL);
    if (!id)
        id = abx_flag_value(cli->args, ABX_FLAG_LANG, "python");
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(sandbox, &root);
    abx_mut_str(d, root, "contextId", id);
    return abx_cli_call(cli, op, d, NULL, err);
}

/* --- the code ------------------------------------------------------------------------------------------------ */
static int read_stdin(abx_cli *cli, abx_buf *out, abx_error **err)
{
    if (abx_cli_open(cli, err) < 0)
        return -1;
    abx_feed feed;
    const uint8_t *bytes = NULL;
    size_t n = 0;
    int rc = 1;
    abx_feed_open(&feed, cli, STDIN_FILENO);
    while (rc > 0 && (rc = abx_feed_read(&feed, &bytes, &n, err)) > 0)
        if (abx_buf_add(out, bytes, n) < 0)
            rc = abx_fail(err, ABX_ERR_TOO_LARGE, "the code is larger than %zu bytes", CODE_MAX);
    abx_feed_close(&feed);
    return rc;
}

static int read_file(const char *path, abx_buf *out, abx_error **err)
{
    int rc = abx_read_file(path, CODE_MAX, out, err);
    if (rc <= 0)
        return rc;
    (void)abx_fail(err, ABX_ERR_USAGE, "no such file '%s'", path);
    return abx_hint(err, "FILE is on this machine; code itself is given with -c");
}

/* By the end of its name; NULL: it says nothing. */
static const char *language_of(const char *path)
{
    static const char *const rows[][2] = {{".py", "python"},      {".js", "javascript"},
                                          {".mjs", "javascript"}, {".cjs", "javascript"},
                                          {".sh", "bash"},        {".bash", "bash"}};
    for (size_t i = 0; path && i < ABX_COUNT(rows); i++)
        if (abx_has_suffix(path, rows[i][0]))
            return rows[i][1];
    return NULL;
}

/* A notebook is for somebody who types: -n and closed inputs have no code. */
static bool is_typed(const abx_cli *cli)
{
    return !cli->stdin_closed && !cli->stdin_off && isatty(STDIN_FILENO) == 1 && !abx_cli_json(cli);
}

static int get_code(abx_cli *cli, const char *file, abx_buf *out, abx_error **err)
{
    const char *text = abx_flag_value(cli->args, ABX_FLAG_CODE, NULL);
    if (text)
        return abx_buf_add_str(out, text) < 0 ? abx_fail(err, ABX_ERR_TOO_LARGE, "-c is too long")
                                              : 0;
    if (file && strcmp(file, "-") != 0)
        return read_file(file, out, err);
    if (cli->stdin_closed || cli->stdin_off) {
        (void)abx_fail(err, ABX_ERR_USAGE, "there is no code: standard input is closed");
        return abx_hint(err, "give it with -c TEXT, or as a FILE");
    }
    return read_stdin(cli, out, err);
}

static int check_line(const abx_args *a, abx_error **err)
{
    static const abx_flag_id actions[] = {ABX_FLAG_CONTEXTS, ABX_FLAG_NEW_CONTEXT, ABX_FLAG_RESTART,
                                          ABX_FLAG_REMOVE_CONTEXT};
    int count = 0;
    for (size_t i = 0; i < ABX_COUNT(actions); i++)
        count += abx_has_flag(a, actions[i]);
    bool code = abx_has_flag(a, ABX_FLAG_CODE) || a->word_count > 1;
    if (abx_has_flag(a, ABX_FLAG_CODE) && a->word_count > 1)
        return abx_fail(err, ABX_ERR_USAGE, "-c and FILE exclude each other");
    if (count > 1 || (count == 1 && code))
        return abx_fail(err, ABX_ERR_USAGE,
                        "a context is listed, made, restarted or removed by itself: "
                        "without code, one at a time");
    if (abx_has_flag(a, ABX_FLAG_CODE_CONTEXT) && abx_has_flag(a, ABX_FLAG_LANG))
        return abx_fail(err, ABX_ERR_USAGE, "--context and --lang exclude each other");
    if (abx_has_flag(a, ABX_FLAG_WORKDIR) && !abx_has_flag(a, ABX_FLAG_NEW_CONTEXT)) {
        (void)abx_fail(err, ABX_ERR_USAGE, "-w is for --new-context");
        return abx_hint(err, "a context keeps its folder; code changes it: os.chdir, cd");
    }
    return 0;
}

static int run_code(abx_cli *cli, abx_code_options *options, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *file = a->word_count > 1 ? a->words[1] : NULL;
    if (!options->context && !options->language)
        options->language = language_of(file);
    if (!file && !abx_has_flag(a, ABX_FLAG_CODE) && is_typed(cli)) {
        options->notebook = true;
        return abx_cli_open(cli, err) < 0 ? -1 : abx_code_notebook(cli, options, err);
    }
    ABX_AUTO_BUF text = ABX_BUF(CODE_MAX);
    if (get_code(cli, file, &text, err) < 0)
        return -1;
    if (!abx_utf8_valid(text.data ? text.data : (const uint8_t *)"", text.len))
        return abx_fail(err, ABX_ERR_USAGE, "the code is not UTF-8");
    int code = 0;
    if (abx_code_run(cli, options, abx_buf_cstr(&text), text.len, &code, err) < 0)
        return -1;
    return code;
}

int abx_verb_code(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *sandbox = a->words[0];
    if (check_line(a, err) < 0)
        return -1;
    if (abx_has_flag(a, ABX_FLAG_CONTEXTS))
        return list_contexts(cli, sandbox, err);
    if (abx_has_flag(a, ABX_FLAG_NEW_CONTEXT))
        return new_context(cli, sandbox, err);
    if (abx_has_flag(a, ABX_FLAG_RESTART))
        return change_context(cli, sandbox, ABX_OP_CODE_CONTEXT_RESTART, err);
    if (abx_has_flag(a, ABX_FLAG_REMOVE_CONTEXT))
        return change_context(cli, sandbox, ABX_OP_CODE_CONTEXT_REMOVE, err);
    abx_code_files files;
    abx_code_options options = {.sandbox = sandbox,
                                .language = abx_flag_value(a, ABX_FLAG_LANG, NULL),
                                .context = abx_flag_value(a, ABX_FLAG_CODE_CONTEXT, NULL),
                                .timeout_ms = abx_flag_number(a, ABX_FLAG_TIMEOUT, ABX_FOREVER),
                                .with_env = true,
                                .files = &files};
    if (abx_cli_open_config(cli, err) < 0) /* the setting `stdin` */
        return -1;
    int rc = abx_code_files_open(&files, abx_flag_value(a, ABX_FLAG_SAVE_DIR, NULL), err);
    if (rc == 0)
        rc = run_code(cli, &options, err);
    abx_code_files_close(&files);
    return rc;
}
