#include "doors/cli/print.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/terminal.h"

int abx_print(abx_cli *cli, const void *text, size_t n, abx_error **err)
{
    const char *p = text;
    if (cli->_plan) /* a dry run: only what would be done is printed */
        return 0;
    while (n > 0) {
        ssize_t rc = write(STDOUT_FILENO, p, n);
        if (rc > 0) {
            p += rc;
            n -= (size_t)rc;
            continue;
        }
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
            continue;
        }
        if (rc < 0 && errno == EPIPE)
            cli->output_closed = true;
        return abx_fail_errno(err, ABX_ERR_FILE, rc < 0 ? errno : EIO,
                              "cannot write to standard output");
    }
    return 0;
}

int abx_print_str(abx_cli *cli, const char *text, abx_error **err)
{
    return abx_print(cli, text, strlen(text), err);
}

int abx_print_line(abx_cli *cli, const char *text, abx_error **err)
{
    ABX_AUTO_FREE char *line = abx_format("%s\n", text);
    return abx_print_str(cli, line, err);
}

int abx_print_name(abx_cli *cli, const char *name, abx_error **err)
{
    ABX_AUTO_FREE char *shown = isatty(STDOUT_FILENO) ? abx_printable(name) : abx_strdup(name);
    return abx_print_line(cli, shown, err);
}

int abx_print_buf(abx_cli *cli, const abx_buf *text, abx_error **err)
{
    return abx_print(cli, abx_buf_cstr(text), text->len, err);
}

int abx_print_table(abx_cli *cli, abx_table *table, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    abx_table_write(table, abx_print_width(cli), &text);
    abx_table_clear(table);
    return abx_print_buf(cli, &text, err);
}

int abx_print_json(abx_cli *cli, yyjson_val *value, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    ABX_CHECK(abx_json_write(value, &text) == 0 && abx_buf_add_byte(&text, '\n') == 0);
    return abx_print_buf(cli, &text, err);
}

int abx_print_json_mut(abx_cli *cli, yyjson_mut_val *value, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    ABX_CHECK(abx_json_write_mut(value, &text) == 0 && abx_buf_add_byte(&text, '\n') == 0);
    return abx_print_buf(cli, &text, err);
}

static int print_items(abx_cli *cli, yyjson_val *array, const char *id, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    bool terminal = isatty(STDOUT_FILENO) == 1;
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(array, i, n, item)
    {
        const char *name = id ? abx_json_str(item, id, "-") : "-";
        ABX_AUTO_FREE char *shown = terminal ? abx_printable(name) : abx_strdup(name);
        int rc = cli->format == ABX_OUT_JSONL ? abx_json_write(item, &text)
                                              : abx_buf_add_str(&text, shown);
        ABX_CHECK(rc == 0 && abx_buf_add_byte(&text, '\n') == 0);
    }
    return abx_print_buf(cli, &text, err) < 0 ? -1 : 1;
}

int abx_print_list(abx_cli *cli, const char *name, yyjson_val *array, const char *id,
                   abx_error **err)
{
    if (cli->format == ABX_OUT_JSON) {
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        if (array)
            abx_mut_val(d, root, name, array);
        else
            abx_mut_arr(d, root, name);
        return abx_print_json_mut(cli, root, err) < 0 ? -1 : 1;
    }
    if (cli->format == ABX_OUT_JSONL || cli->format == ABX_OUT_NAME || (cli->quiet && id))
        return print_items(cli, array, id, err);
    return 0;
}

yyjson_doc *abx_limit_list(abx_cli *cli, const char *name, yyjson_val *array)
{
    uint64_t limit = abx_flag_number(cli->args, ABX_FLAG_LIMIT, 1000);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, name);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(array, i, n, item)
    {
        if (limit == 0 || i < limit)
            yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, item));
    }
    if (limit && yyjson_arr_size(array) > limit)
        abx_cli_warn(cli, "abx: %zu more are not shown; --limit 0 shows all",
                     yyjson_arr_size(array) - (size_t)limit);
    return abx_json_freeze(d);
}

size_t abx_print_width(const abx_cli *cli)
{
    int cols, rows;
    if (cli->format == ABX_OUT_WIDE || abx_terminal_size(STDOUT_FILENO, &cols, &rows) < 0)
        return 0;
    return (size_t)cols;
}
