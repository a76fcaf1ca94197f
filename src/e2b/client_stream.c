/* Connect streams: envelopes of 5 bytes head and a message, the last one with the end flag. What comes in one
 * piece is read where it lies; only what is cut over pieces is copied. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "wire/envelope.h"

#define HEAD ABX_ENVELOPE_HEAD

struct abx__envd_stream {
    const abx__envd_stream_spec *spec;
    abx__envd_kind kind;
    uint8_t head[HEAD];
    size_t head_len;
    bool has_head;
    size_t want;     /* bytes of the message that the head announced */
    abx_buf message; /* the part of it that came */
    abx_buf scratch; /* decoded bytes */
    abx_buf out;     /* of a client stream */
    bool first, dropped, told;
    bool ended;       /* the end frame came */
    abx_error *error; /* why we gave up, or what the end frame says */
    char *code;       /* of the end frame */
    uint64_t idle_since;
    unsigned idle; /* messages since then that say nothing */
};

/* In ten seconds; a keepalive comes twice a minute. */
#define MAX_IDLE 1000u

void abx__envd_stream_free(abx__envd_job *job)
{
    abx__envd_stream *s = job->stream;
    if (!s)
        return;
    abx_buf_clear(&s->message);
    abx_buf_clear(&s->scratch);
    abx_buf_clear(&s->out);
    abx_error_free(s->error);
    free(s->code);
    free(s);
    job->stream = NULL;
}

void abx__envd_stream_kind(abx__envd_job *job, abx__envd_kind kind)
{
    job->stream->kind = kind;
}

int abx__envd_stream_idle(abx__envd_job *job, abx_error **err)
{
    abx__envd_stream *s = job->stream;
    uint64_t now = abx_now_mono_ms();
    if (now - s->idle_since > 10000) {
        s->idle_since = now;
        s->idle = 0;
    }
    if (++s->idle <= MAX_IDLE)
        return 0;
    return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a flood of messages that say nothing came");
}

static void tell_end(abx__envd_job *job, abx_error *err, const char *code)
{
    abx__envd_stream *s = job->stream;
    if (s->told || job->ended) {
        abx_error_free(err);
        return;
    }
    s->told = true;
    abx__envd_job_after(job, 0, NULL);
    s->spec->end(job, err, code);
}

/* Our own reason to stop: the peer broke the rules, or took too long. */
static void give_up(abx__envd_job *job, abx_error *err)
{
    abx__envd_stream *s = job->stream;
    if (s->error || s->ended) {
        abx_error_free(err);
        return;
    }
    s->error = abx__envd_stamp(job->client, job->main, err);
    if (job->main)
        abx__envd_exchange_cancel(job->main);
}

static void on_linger(abx__envd_job *job)
{
    if (job->main)
        abx__envd_exchange_cancel(job->main);
}

static uint64_t first_ms(const abx__envd_stream_spec *spec)
{
    return spec->first_ms ? spec->first_ms : ABX__ENVD_FIRST_MS;
}

static void on_first_late(abx__envd_job *job)
{
    give_up(job, abx_error_new(ABX_ERR_TIMEOUT, "no answer within %d seconds",
                               (int)(first_ms(job->stream->spec) / 1000)));
}

/* --- messages in ------------------------------------------------------------------------------------------- */
static void read_end(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__envd_stream *s = job->stream;
    abx_error *err = NULL;
    ABX_AUTO_JSON doc =
        abx_json_parse(bytes, n, ABX_ERR_BACKEND_ANSWER, "the end of the stream", &err);
    if (!doc) {
        give_up(job, err);
        return;
    }
    yyjson_val *why = abx_json_get(yyjson_doc_get_root(doc), "error");
    s->ended = true;
    s->code = abx_strdup(why ? abx_json_str(why, "code", "unknown") : "");
    if (why)
        s->error = abx__envd_stamp(job->client, job->main,
                                   abx__envd_connect_error(job->client, s->kind, why));
    /* the rest of the HTTP answer comes at once; a peer that keeps it back is not waited for */
    abx__envd_job_after(job, ABX__ENVD_LINGER_MS, on_linger);
}

static void read_data(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes, size_t n)
{
    if (!job->stream->spec->data(job, channel, bytes, n) && job->main && !job->ended)
        abx_http_pause(job->main->transfer);
}

static void read_message(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__envd_stream *s = job->stream;
    abx_e2b_codec codec = job->client->codec;
    abx_error *err = NULL;
    if (s->first) {
        s->first = false;
        abx__envd_job_after(job, 0, NULL);
    }
    if (s->spec->data) {
        abx_e2b_channel channel = ABX_E2B_STDOUT;
        const uint8_t *data = NULL;
        size_t len = 0;
        int rc = abx_e2b_get_data_event(codec, bytes, n, &channel, &data, &len, &s->scratch);
        if (rc > 0) {
            read_data(job, channel, data, len);
            return;
        }
    }
    ABX_AUTO_JSON doc = abx_e2b_decode(s->spec->answer, codec, bytes, n, &err);
    if (!doc || s->spec->message(job, yyjson_doc_get_root(doc), &err) < 0)
        give_up(job, err);
}

static void read_envelope(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__envd_stream *s = job->stream;
    uint8_t flags = s->head[0];
    if (flags & ABX_ENVELOPE_COMPRESSED)
        give_up(job, abx__envd_bad_answer(job->client,
                                          "a message is compressed, which was not offered"));
    else if (flags & ~(ABX_ENVELOPE_COMPRESSED | ABX_ENVELOPE_END))
        give_up(job,
                abx__envd_bad_answer(job->client, "a message has the unknown flags 0x%02x", flags));
    else if (flags & ABX_ENVELOPE_END)
        read_end(job, bytes, n);
    else
        read_message(job, bytes, n);
}

static bool stopped(const abx__envd_job *job)
{
    const abx__envd_stream *s = job->stream;
    return job->ended || s->dropped || s->error || s->ended;
}

/* Take bytes for the head. Returns the count. */
static size_t take_head(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__envd_stream *s = job->stream;
    size_t k = HEAD - s->head_len < n ? HEAD - s->head_len : n;
    memcpy(s->head + s->head_len, bytes, k);
    s->head_len += k;
    if (s->head_len < HEAD)
        return k;
    s->has_head = true;
    s->want = abx_envelope_length(s->head);
    if (s->want > ABX__ENVD_MAX_MESSAGE)
        give_up(job, abx__envd_stamp(job->client, job->main,
                                     abx_error_new(ABX_ERR_BACKEND_ANSWER,
                                                   "a message has %zu bytes, at most %zu", s->want,
                                                   ABX__ENVD_MAX_MESSAGE)));
    return k;
}

/* Take bytes for the message; runs it when it is whole. Returns the count. */
static size_t take_message(abx__envd_job *job, const uint8_t *bytes, size_t n)
{
    abx__envd_stream *s = job->stream;
    size_t k = s->want - s->message.len < n ? s->want - s->message.len : n;
    bool whole = k == s->want - s->message.len;
    const uint8_t *view = bytes;
    if (!whole || s->message.len > 0) {
        ABX_CHECK(abx_buf_add(&s->message, bytes, k) == 0);
        view = s->message.data;
    }
    if (!whole)
        return k;
    s->has_head = false;
    s->head_len = 0;
    read_envelope(job, view, s->want);
    abx_buf_reset(&s->message);
    return k;
}

static void on_body(abx__envd_exchange *x, const uint8_t *bytes, size_t n)
{
    abx__envd_job *job = x->data;
    while (n > 0 && !stopped(job)) {
        size_t k = job->stream->has_head ? 0 : take_head(job, bytes, n);
        bytes += k;
        n -= k;
        if (job->stream->has_head && !stopped(job) && (n > 0 || job->stream->want == 0)) {
            k = take_message(job, bytes, n);
            bytes += k;
            n -= k;
        }
    }
    if (n > 0 && !job->ended && job->stream->ended && !job->stream->error)
        job->stream->error =
            abx__envd_bad_answer(job->client, "bytes stand behind the end of the stream");
}

/* --- the end --------------------------------------------------------------------------------------------------- */
static void on_broken(abx__envd_job *job, abx_error *err)
{
    if (job->stream)
        tell_end(job, err, "");
    else
        abx_error_free(err);
}

/* The stream has no end mark, however the HTTP exchange ended. */
static void cut_short(abx__envd_job *job, const abx_error *by)
{
    abx__envd_stream *s = job->stream;
    bool inside = s->has_head || s->head_len > 0;
    const char *how = by && by->id == ABX_ERR_TIMEOUT ? "the server has gone silent"
                      : inside ? "the stream was cut in the middle of a message"
                               : "the stream ended without its end mark";
    bool why = by && by->id != ABX_ERR_TIMEOUT;
    abx_error *err =
        abx_error_new(ABX_ERR_NETWORK, "%s%s%s", how, why ? ": " : "", why ? by->message : "");
    abx__envd_job_broken(job, err, on_broken);
    abx_error_free(err);
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    abx__envd_stream *s = job->stream;
    if (!abx__envd_job_left(job, x) && !s->dropped) {
        if (s->ended || s->error)
            tell_end(job, ABX_TAKE(s->error), s->code ? s->code : "");
        else if (err && !x->good)
            abx__envd_job_broken(job, err, on_broken);
        else if (!x->good)
            tell_end(job, abx__envd_answer_error(job->client, s->kind, x), "");
        else
            cut_short(job, err);
    }
    abx__envd_job_unref(job);
}

/* --- start ------------------------------------------------------------------------------------------------------- */
static void on_writable(abx__envd_exchange *x)
{
    abx__envd_job *job = x->data;
    if (!stopped(job) && job->stream->spec->writable)
        job->stream->spec->writable(job);
}

static int put_envelope(abx_envd_client *c, abx_e2b_msg msg, yyjson_mut_doc *doc, abx_buf *out,
                        abx_error **err)
{
    static const uint8_t head[HEAD] = {0};
    size_t from = out->len;
    if (abx_buf_add(out, head, HEAD) < 0 ||
        abx_e2b_encode_mut(msg, c->codec, yyjson_mut_doc_get_root(doc), out, err) < 0)
        return -1;
    abx_envelope_head(out->data + from, 0, (uint32_t)(out->len - from - HEAD));
    return 0;
}

static uint64_t dead_after(const abx_envd_client *c, const abx__envd_stream_spec *spec)
{
    /* a local socket tells when the other side is gone; the other way round nothing comes before the end */
    if (spec->input || (c->local && c->abx))
        return 0;
    return ABX__ENVD_DEAD_MS;
}

int abx__envd_stream_start(abx__envd_job *job, const abx__envd_stream_spec *spec,
                           yyjson_mut_doc *doc, uint64_t connect_timeout_ms, abx_error **err)
{
    static const abx__envd_hooks hooks = {.body = on_body, .writable = on_writable, .end = on_end};
    ABX_AUTO_MUT owned = doc;
    ABX_AUTO_BUF body = ABX_BUF(ABX__ENVD_MAX_MESSAGE);
    abx_envd_client *c = job->client;
    const char *user = spec->has_user ? abx__envd_user(job) : NULL;
    if (abx__envd_check_user(user, err) < 0 ||
        put_envelope(c, spec->request, owned, &body, err) < 0)
        return -1;
    abx__envd_request r = {
        .method = "POST",
        .path = spec->path,
        .content_type = abx__envd_stream_type(c),
        .answer_type = abx__envd_stream_type(c),
        .user = user,
        .body = spec->input ? NULL : body.data,
        .body_len = spec->input ? 0 : body.len,
        .body_stream = spec->input,
        .body_size = -1,
        .connect = true,
        .keepalive = !spec->input,
        .lasts = true,
        .connect_timeout_ms = connect_timeout_ms,
        .idle_ms = dead_after(c, spec),
    };
    abx__envd_stream_free(job);
    abx__envd_stream *s = ABX_NEW(abx__envd_stream);
    s->spec = spec;
    s->kind = spec->kind;
    s->first = true;
    abx_buf_init(&s->message, ABX__ENVD_MAX_MESSAGE);
    abx_buf_init(&s->scratch, ABX__ENVD_MAX_MESSAGE);
    abx_buf_init(&s->out, 4 * ABX__ENVD_PIECE);
    job->stream = s;
    if (abx__envd_job_exchange(job, &job->main, &r, &hooks, err) < 0)
        return -1;
    if (spec->input)
        (void)abx_http_write(job->main->transfer, body.data, body.len);
    else
        abx__envd_job_after(job, first_ms(spec), on_first_late);
    return 0;
}

void abx__envd_stream_drop(abx__envd_job *job)
{
    job->stream->dropped = true;
    abx__envd_job_after(job, 0, NULL);
    if (job->main)
        abx__envd_exchange_cancel(job->main);
}

void abx__envd_stream_resume(abx__envd_job *job)
{
    if (job->main && job->main->transfer)
        abx_http_resume(job->main->transfer);
}

int abx__envd_stream_send(abx__envd_job *job, abx_e2b_channel channel, const uint8_t *bytes,
                          size_t n)
{
    abx__envd_stream *s = job->stream;
    int more = 1;
    while (n > 0 && job->main && !s->told) {
        size_t k = n < ABX__ENVD_PIECE ? n : ABX__ENVD_PIECE;
        abx_buf_reset(&s->out);
        ABX_CHECK(abx_e2b_put_input_event(job->client->codec, channel, bytes, k, &s->out) == 0);
        more = abx_http_write(job->main->transfer, s->out.data, s->out.len);
        bytes += k;
        n -= k;
    }
    return more;
}

void abx__envd_stream_send_end(abx__envd_job *job)
{
    if (job->main && job->main->transfer)
        abx_http_write_end(job->main->transfer);
}
