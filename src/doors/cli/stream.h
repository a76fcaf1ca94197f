/* A call with bytes, as straight code: reading and writing turn the loop until they can go on. Every wait ends
 * with CANCELLED when a signal comes. */
#ifndef ABX_CLI_STREAM_H
#define ABX_CLI_STREAM_H

#include "doors/cli/cli.h"
#include "doors/cli/out_writer.h"
#include "doors/cli/stdin_reader.h"

typedef struct abx_stream {
    abx_cli *cli;
    abx_call *_call;
    abx_call *_input; /* process.stdin, where the call itself takes no bytes */
    bool _is_process, _wants_input, _started, _full, _paused, _ended, _input_ended;
    char *_sandbox;
    abx_buf _data;  /* arrived, not yet read */
    abx_buf _taken; /* what the last read handed out */
    abx_buf _notes; /* the end of stderr of a process */
    yyjson_doc *_result;
    abx_error *_err;
} abx_stream;

/* Start fs.read, fs.write or process.start. params is taken over; with_input: bytes will be written (a process then needs
 * stdin: stream in its parameters). 0, or -1 and *err. Close it in every case. */
int abx_stream_open(abx_stream *s, abx_cli *cli, abx_op_id op, const char *sandbox,
                    yyjson_mut_doc *params, bool with_input, abx_error **err);
/* The next bytes (stdout or body), valid until the next read: 1; 0 at the end; -1 and *err. */
int abx_stream_read(abx_stream *s, const uint8_t **bytes, size_t *n, abx_error **err);
/* 0, or -1 and *err. When the other side takes no more (a process that has ended) the bytes are dropped: finish tells why. */
int abx_stream_write(abx_stream *s, const void *bytes, size_t n, abx_error **err);
/* No more bytes will be written. */
void abx_stream_write_end(abx_stream *s);
/* Wait for the end. 0 and *result (borrowed until close), or -1 and *err. */
int abx_stream_finish(abx_stream *s, yyjson_val **result, abx_error **err);
/* The last lines that a process wrote to stderr, without the newline at the end. */
const char *abx_stream_notes(abx_stream *s);
/* Cancel what still runs and release everything. */
void abx_stream_close(abx_stream *s);

/* Our own standard output (or another descriptor), waiting with the loop. */
typedef struct abx_sink {
    abx_cli *cli;
    abx_out_writer _out;
} abx_sink;
void abx_sink_open(abx_sink *s, abx_cli *cli, int fd);
int abx_sink_write(abx_sink *s, const void *bytes, size_t n, abx_error **err);
void abx_sink_close(abx_sink *s);

/* Our own standard input, a piece at a time. */
typedef struct abx_feed {
    abx_cli *cli;
    abx_stdin_reader _reader;
    abx_buf _data;
    bool _ended;
    int _error;
} abx_feed;
void abx_feed_open(abx_feed *s, abx_cli *cli, int fd);
/* 1 and bytes (valid until the next call), 0 at the end, -1 and *err. */
int abx_feed_read(abx_feed *s, const uint8_t **bytes, size_t *n, abx_error **err);
void abx_feed_close(abx_feed *s);

#endif
