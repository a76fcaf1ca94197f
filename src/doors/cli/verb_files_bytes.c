/* files cat, write, watch: streams. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/event_lines.h"
#include "doors/cli/print.h"
#include "doors/cli/remote_path.h"
#include "doors/cli/stream.h"
#include "doors/cli/verbs.h"

static yyjson_mut_doc *path_params(abx_cli *cli, const abx_remote_path *p, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_cli_params(p->sandbox, root);
    abx_mut_str(d, *root, "path", p->path);
    abx_mut_str(d, *root, "user", abx_flag_value(cli->args, ABX_FLAG_USER, NULL));
    return d;
}

/* --- cat ----------------------------------------------------------------------------------------------- */

static int pump_out(abx_stream *s, abx_sink *sink, abx_error **err)
{
    const uint8_t *bytes;
    size_t n;
    int rc;
    while ((rc = abx_stream_read(s, &bytes, &n, err)) == 1)
        if (abx_sink_write(sink, bytes, n, err) < 0)
            return -1;
    return rc;
}

static void put_part(const abx_args *args, yyjson_mut_doc *d, yyjson_mut_val *params)
{
    if (abx_has_flag(args, ABX_FLAG_READ_OFFSET))
        abx_mut_int(d, params, "offset", (int64_t)abx_flag_number(args, ABX_FLAG_READ_OFFSET, 0));
    if (abx_has_flag(args, ABX_FLAG_READ_LIMIT))
        abx_mut_int(d, params, "limit", (int64_t)abx_flag_number(args, ABX_FLAG_READ_LIMIT, 0));
}

static int cat_one(abx_cli *cli, const char *word, abx_error **err)
{
    ABX_AUTO_REMOTE p = {NULL, NULL};
    if (abx_remote_path_parse(&p, word, false, err) < 0 || abx_cli_open(cli, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    abx_stream s;
    abx_sink sink;
    yyjson_mut_doc *params = path_params(cli, &p, &root);
    put_part(cli->args, params, root);
    abx_sink_open(&sink, cli, STDOUT_FILENO);
    int rc = abx_stream_open(&s, cli, ABX_OP_FS_READ, p.sandbox, params, false, err);
    if (rc == 0)
        rc = pump_out(&s, &sink, err);
    abx_stream_close(&s);
    abx_sink_close(&sink);
    return rc;
}

int abx_verb_files_cat(abx_cli *cli, abx_error **err)
{
    for (size_t i = 0; i < cli->args->word_count; i++)
        if (cat_one(cli, cli->args->words[i], err) < 0)
            return -1;
    return 0;
}

/* --- write --------------------------------------------------------------------------------------------- */

static int parse_mode(abx_cli *cli, int64_t *mode, abx_error **err)
{
    const char *text = abx_flag_value(cli->args, ABX_FLAG_MODE, NULL);
    *mode = -1;
    if (!text)
        return 0;
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 8);
    if (!text[0] || text[0] == '-' || *end || value > 07777) {
        abx_fail(err, ABX_ERR_USAGE, "flag '--mode' needs permission bits in octal, not '%s'",
                 text);
        return abx_hint(err, "for example 0644 or 0755");
    }
    *mode = (int64_t)value;
    return 0;
}

static int pump_in(abx_stream *s, abx_cli *cli, uint64_t *sent, abx_error **err)
{
    abx_feed feed;
    abx_feed_open(&feed, cli, STDIN_FILENO);
    const uint8_t *bytes;
    size_t n;
    int rc;
    while ((rc = abx_feed_read(&feed, &bytes, &n, err)) == 1 && !s->_ended)
        if (abx_stream_write(s, bytes, n, err) < 0) {
            rc = -1;
            break;
        } else {
            *sent += n;
        }
    abx_feed_close(&feed);
    if (rc >= 0)
        abx_stream_write_end(s);
    return rc < 0 ? -1 : 0;
}

/* A short write is an error, never a success. */
static int check_written(const abx_remote_path *p, yyjson_val *result, uint64_t sent,
                         abx_error **err)
{
    int64_t size = abx_json_int(result, "size", -1);
    if (size < 0 || (uint64_t)size == sent)
        return 0;
    return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "'%s' has %lld bytes, %llu were sent", p->path,
                    (long long)size, (unsigned long long)sent);
}

static int print_written(abx_cli *cli, yyjson_val *result, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "path", abx_json_str(result, "path", NULL));
    abx_mut_int(d, root, "size", abx_json_int(result, "size", 0));
    return abx_print_json_mut(cli, root, err);
}

int abx_verb_files_write(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_REMOTE p = {NULL, NULL};
    int64_t mode;
    if (abx_remote_path_parse(&p, cli->args->words[0], false, err) < 0 ||
        parse_mode(cli, &mode, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = path_params(cli, &p, &root);
    if (mode >= 0)
        abx_mut_int(params, root, "mode", mode);
    abx_stream s;
    yyjson_val *result = NULL;
    uint64_t sent = 0;
    int rc = abx_stream_open(&s, cli, ABX_OP_FS_WRITE, p.sandbox, params, true, err);
    if (rc == 0 && !cli->stdin_closed)
        rc = pump_in(&s, cli, &sent, err);
    else if (rc == 0)
        abx_stream_write_end(&s);
    if (rc == 0)
        rc = abx_stream_finish(&s, &result, err);
    if (rc == 0)
        rc = check_written(&p, result, sent, err);
    if (rc == 0 && abx_cli_json(cli))
        rc = print_written(cli, result, err);
    abx_stream_close(&s);
    return rc;
}

/* --- watch --------------------------------------------------------------------------------------------- */

typedef struct watching {
    abx_cli *cli;
    bool ended;
    abx_error *err;
} watching;

static void on_change(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    watching *w = data;
    ABX_AUTO_BUF line = ABX_BUF(SIZE_MAX / 2);
    if (abx_cli_json(w->cli)) {
        abx_event_object(&line, type, event, NULL, NULL);
    } else if (strcmp(type, "change") != 0) {
        return;
    } else {
        ABX_AUTO_FREE char *name = abx_printable(abx_json_str(event, "name", ""));
        ABX_CHECK(abx_buf_addf(&line, "%-6s  %s\n", abx_json_str(event, "kind", "-"), name) == 0);
    }
    if (!w->err && abx_print_buf(w->cli, &line, &w->err) < 0)
        abx_call_cancel(c);
}

static void on_watch_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    watching *w = data;
    w->ended = true;
    if (err && !w->err)
        w->err = abx_error_copy(err);
}

int abx_verb_files_watch(abx_cli *cli, abx_error **err)
{
    ABX_AUTO_REMOTE p = {NULL, NULL};
    if (abx_remote_path_parse(&p, cli->args->words[0], true, err) < 0)
        return -1;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *params = path_params(cli, &p, &root);
    if (abx_has_flag(cli->args, ABX_FLAG_RECURSIVE))
        abx_mut_bool(params, root, "recursive", true);
    watching w = {.cli = cli};
    abx_call_handlers handlers = {.on_event = on_change, .on_end = on_watch_end};
    abx_call *c = abx_cli_start(cli, ABX_OP_FS_WATCH, params, &handlers, &w, err);
    if (!c)
        return -1;
    bool cancelled = false;
    while (!w.ended) {
        abx_cli_turn(cli);
        if (abx_cli_interrupted(cli) && !cancelled && !w.ended) {
            cancelled = true;
            abx_call_cancel(c);
        }
    }
    if (w.err && w.err->id == ABX_ERR_CANCELLED && cancelled) {
        abx_error_free(w.err); /* the way that this verb ends */
        return 128 + abx_cli_interrupted(cli);
    }
    return w.err ? abx_error_take(err, w.err) : 0;
}
