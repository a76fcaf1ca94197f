#include "wire/envelope.h"

#include <string.h>

void abx_envelope_decoder_init(abx_envelope_decoder *d, size_t max_message,
                               abx_on_envelope on_message, void *user)
{
    memset(d, 0, sizeof *d);
    d->on_message = on_message;
    d->user = user;
    d->max = max_message;
    abx_buf_init(&d->part, max_message);
}

void abx_envelope_decoder_clear(abx_envelope_decoder *d)
{
    abx_buf_clear(&d->part);
    d->head_len = 0;
}

static int too_large(abx_envelope_decoder *d, abx_error **err)
{
    d->failed = 1;
    return abx_fail(err, ABX_ERR_TOO_LARGE, "a message of the stream is longer than %zu bytes",
                    d->max);
}

/* The rest of a message whose head came before, or with part of it. Returns bytes taken; *whole is set
 * when the message is complete, *bytes then points to it. */
static size_t continue_message(abx_envelope_decoder *d, const uint8_t *at, size_t n,
                               const uint8_t **bytes)
{
    size_t want = abx_envelope_length(d->head) - d->part.len;
    size_t take = n < want ? n : want;

    if (d->part.len == 0 && take == want) {
        *bytes = at; /* all of it is here */
        return take;
    }
    *bytes = NULL;
    if (abx_buf_add(&d->part, at, take) == 0 && take == want)
        *bytes = d->part.data;
    return take;
}

static size_t take_head(abx_envelope_decoder *d, const uint8_t *at, size_t n)
{
    size_t want = ABX_ENVELOPE_HEAD - d->head_len;
    size_t take = n < want ? n : want;

    memcpy(d->head + d->head_len, at, take);
    d->head_len += take;
    return take;
}

int abx_envelope_decoder_feed(abx_envelope_decoder *d, const void *bytes, size_t n, size_t *used,
                              abx_error **err)
{
    const uint8_t *at = bytes, *end = at + n;
    int stop = 0;

    while (!d->failed && !stop) {
        const uint8_t *message;
        at += take_head(d, at, (size_t)(end - at));
        if (d->head_len < ABX_ENVELOPE_HEAD)
            break;
        if (abx_envelope_length(d->head) > d->max)
            return too_large(d, err);
        at += continue_message(d, at, (size_t)(end - at), &message);
        if (!message)
            break;
        size_t len = abx_envelope_length(d->head);
        d->head_len = 0;
        stop = d->on_message(d->head[0], message, len, d->user);
        abx_buf_reset(&d->part);
    }
    if (used)
        *used = (size_t)(at - (const uint8_t *)bytes);
    if (d->failed)
        return too_large(d, err);
    return stop != 0;
}

int abx_envelope_decoder_is_clean(const abx_envelope_decoder *d)
{
    return d->head_len == 0 && !d->failed;
}
