/* Our own descriptors as straight code: the sink and the feed of stream.h. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "doors/cli/stream.h"

void abx_sink_open(abx_sink *s, abx_cli *cli, int fd)
{
    s->cli = cli;
    abx_out_writer_init(&s->_out, &cli->_loop, fd, NULL, NULL);
}

int abx_sink_write(abx_sink *s, const void *bytes, size_t n, abx_error **err)
{
    abx_out_write(&s->_out, bytes, n);
    while (abx_out_is_waiting(&s->_out)) {
        if (abx_cli_interrupted(s->cli))
            return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
        abx_cli_turn(s->cli);
    }
    int error = abx_out_error(&s->_out);
    if (!error)
        return 0;
    if (error == EPIPE)
        s->cli->output_closed = true;
    return abx_fail_errno(err, ABX_ERR_FILE, error, "cannot write to standard output");
}

void abx_sink_close(abx_sink *s)
{
    abx_out_close(&s->_out);
    while (!abx_out_is_closed(&s->_out))
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
}

static int on_bytes(const uint8_t *bytes, size_t n, void *data)
{
    abx_feed *s = data;
    ABX_CHECK(abx_buf_add(&s->_data, bytes, n) == 0);
    return 0; /* a piece at a time */
}

static void on_end(int error, void *data)
{
    abx_feed *s = data;
    s->_ended = true;
    s->_error = error;
}

void abx_feed_open(abx_feed *s, abx_cli *cli, int fd)
{
    memset(s, 0, sizeof *s);
    s->cli = cli;
    abx_buf_init(&s->_data, SIZE_MAX / 2);
    abx_stdin_reader_init(&s->_reader, &cli->_loop, fd, on_bytes, on_end, s);
    abx_stdin_reader_start(&s->_reader);
}

int abx_feed_read(abx_feed *s, const uint8_t **bytes, size_t *n, abx_error **err)
{
    abx_buf_reset(&s->_data);
    abx_stdin_reader_resume(&s->_reader);
    while (s->_data.len == 0 && !s->_ended) {
        if (abx_cli_interrupted(s->cli))
            return abx_fail(err, ABX_ERR_CANCELLED, "interrupted");
        abx_cli_turn(s->cli);
    }
    if (s->_error)
        return abx_fail_errno(err, ABX_ERR_FILE, s->_error, "cannot read standard input");
    *bytes = s->_data.data;
    *n = s->_data.len;
    return s->_data.len > 0;
}

void abx_feed_close(abx_feed *s)
{
    abx_stdin_reader_close(&s->_reader);
    while (!abx_stdin_reader_is_closed(&s->_reader))
        uv_run(&s->cli->_loop, UV_RUN_NOWAIT);
    abx_buf_clear(&s->_data);
}
