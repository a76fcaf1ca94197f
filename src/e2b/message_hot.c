/* Output and input bytes. The shapes are written and read here by hand; what has another shape goes the general
 * way, so that nothing is lost but time. */
#include "e2b/message_inner.h"

#include <string.h>

#include "wire/base64.h"
#include "wire/envelope.h"

#define HEAD ABX_ENVELOPE_HEAD

/* Where the bytes stand: three nested fields, or three nested members. */
typedef struct shape {
    uint32_t outer, middle, inner;
    const char *json; /* text before the base64 */
    abx_e2b_channel channel;
} shape;

static const shape outputs[] = {
    {1, 2, 1, "{\"event\":{\"data\":{\"stdout\":\"", ABX_E2B_STDOUT},
    {1, 2, 2, "{\"event\":{\"data\":{\"stderr\":\"", ABX_E2B_STDERR},
    {1, 2, 3, "{\"event\":{\"data\":{\"pty\":\"", ABX_E2B_PTY},
};
static const shape inputs[] = {
    {2, 2, 1, "{\"data\":{\"input\":{\"stdin\":\"", ABX_E2B_STDIN},
    {2, 2, 2, "{\"data\":{\"input\":{\"pty\":\"", ABX_E2B_PTY},
};
static const char json_tail[] = "\"}}}";

/* tag + length, in front of n bytes that are to come. */
static size_t put_field(uint8_t *to, uint32_t number, size_t n)
{
    to[0] = (uint8_t)(number << 3 | 2);
    return 1 + abx__e2b_varint(n, to + 1);
}

static int put_proto(const shape *s, const void *bytes, size_t n, abx_buf *out)
{
    uint8_t a[11], b[11], c[11];
    size_t c_len = put_field(c, s->inner, n);
    size_t b_len = put_field(b, s->middle, c_len + n);
    size_t a_len = put_field(a, s->outer, b_len + c_len + n);
    size_t whole = a_len + b_len + c_len + n;
    uint8_t *to = abx_buf_room(out, HEAD + whole);
    if (!to)
        return -1;
    abx_envelope_head(to, 0, (uint32_t)whole);
    to += HEAD;
    memcpy(to, a, a_len);
    memcpy(to + a_len, b, b_len);
    memcpy(to + a_len + b_len, c, c_len);
    if (n > 0)
        memcpy(to + a_len + b_len + c_len, bytes, n);
    abx_buf_grow(out, HEAD + whole);
    return 0;
}

static int put_json(const shape *s, const void *bytes, size_t n, abx_buf *out)
{
    size_t before = strlen(s->json), text = ABX_BASE64_ROOM(n) - 1, after = sizeof(json_tail) - 1;
    size_t whole = before + text + after;
    uint8_t *to = abx_buf_room(out, HEAD + whole);
    if (!to)
        return -1;
    abx_envelope_head(to, 0, (uint32_t)whole);
    memcpy(to + HEAD, s->json, before);
    abx_base64_encode(bytes, n, (char *)to + HEAD + before, ABX_BASE64_STANDARD, true);
    memcpy(to + HEAD + before + text, json_tail, after);
    abx_buf_grow(out, HEAD + whole);
    return 0;
}

static int put(const shape *shapes, size_t count, abx_e2b_codec codec, abx_e2b_channel channel,
               const void *bytes, size_t n, abx_buf *out)
{
    if (n > UINT32_MAX / 2)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (shapes[i].channel == channel)
            return codec == ABX_E2B_PROTO ? put_proto(shapes + i, bytes, n, out)
                                          : put_json(shapes + i, bytes, n, out);
    return -1;
}

/* The contents of a message's only field, when it has this number. 1; 0: the general way sorts it out; -1: broken. */
static int only_field(abx__e2b_reader in, uint32_t number, abx__e2b_reader *out)
{
    abx__e2b_item item;
    int rc = abx__e2b_next(&in, &item);
    if (rc <= 0)
        return rc;
    if (item.number != number || item.wire != 2 || in.at != in.end)
        return 0;
    *out = (abx__e2b_reader){item.bytes, item.bytes + item.len};
    return 1;
}

static int get_proto(const shape *shapes, size_t count, const void *msg, size_t n,
                     abx_e2b_channel *channel, const uint8_t **bytes, size_t *len)
{
    const uint8_t *p = msg;
    if (n == 0)
        return 0;
    abx__e2b_reader outer = {p, p + n}, middle = {0}, inner = {0};
    int rc = only_field(outer, shapes[0].outer, &middle);
    if (rc <= 0)
        return rc;
    rc = only_field(middle, shapes[0].middle, &inner);
    if (rc <= 0)
        return rc;
    abx__e2b_item item;
    rc = abx__e2b_next(&inner, &item);
    if (rc <= 0 || inner.at != inner.end)
        return rc < 0 ? -1 : 0;
    for (size_t i = 0; i < count; i++)
        if (item.number == shapes[i].inner) {
            if (item.wire != 2)
                return -1;
            *channel = shapes[i].channel;
            *bytes = item.bytes;
            *len = item.len;
            return 1;
        }
    return 0;
}

/* The shape that we write ourselves, without blanks: a prefix, base64, the tail. */
static int get_plain_json(const shape *s, const char *msg, size_t n, abx_buf *scratch)
{
    size_t before = strlen(s->json), after = sizeof(json_tail) - 1;
    if (n < before + after || memcmp(msg, s->json, before) != 0 ||
        memcmp(msg + n - after, json_tail, after) != 0)
        return 0;
    return abx__e2b_base64_read(msg + before, n - before - after, scratch) == 0;
}

static int get_general(abx_e2b_msg type, abx_e2b_codec codec, const shape *shapes, size_t count,
                       const void *msg, size_t n, abx_e2b_channel *channel, const uint8_t **bytes,
                       size_t *len, abx_buf *scratch)
{
    static const char *const names[] = {"stdout", "stderr", "pty", "stdin"};
    ABX_AUTO_JSON doc = abx_e2b_decode(type, codec, msg, n, NULL);
    if (!doc)
        return -1;
    bool output = type == ABX_E2B_START_RESPONSE;
    yyjson_val *v = yyjson_obj_get(yyjson_doc_get_root(doc), output ? "event" : "data");
    v = yyjson_obj_get(v, output ? "data" : "input");
    for (size_t i = 0; i < count; i++) {
        yyjson_val *text = yyjson_obj_get(v, names[shapes[i].channel]);
        if (!text)
            continue;
        if (abx__e2b_base64_read(yyjson_get_str(text), yyjson_get_len(text), scratch) < 0)
            return -1;
        *channel = shapes[i].channel;
        *bytes = scratch->data;
        *len = scratch->len;
        return 1;
    }
    return 0;
}

static int get(abx_e2b_msg type, const shape *shapes, size_t count, abx_e2b_codec codec,
               const void *msg, size_t n, abx_e2b_channel *channel, const uint8_t **bytes,
               size_t *len, abx_buf *scratch)
{
    abx_buf_reset(scratch);
    if (codec == ABX_E2B_PROTO) {
        int rc = get_proto(shapes, count, msg, n, channel, bytes, len);
        if (rc != 0)
            return rc;
        return get_general(type, codec, shapes, count, msg, n, channel, bytes, len, scratch);
    }
    for (size_t i = 0; i < count; i++)
        if (get_plain_json(shapes + i, msg, n, scratch)) {
            *channel = shapes[i].channel;
            *bytes = scratch->data;
            *len = scratch->len;
            return 1;
        }
    return get_general(type, codec, shapes, count, msg, n, channel, bytes, len, scratch);
}

int abx_e2b_put_data_event(abx_e2b_codec codec, abx_e2b_channel channel, const void *bytes,
                           size_t n, abx_buf *out)
{
    return put(outputs, 3, codec, channel, bytes, n, out);
}

int abx_e2b_get_data_event(abx_e2b_codec codec, const void *msg, size_t n, abx_e2b_channel *channel,
                           const uint8_t **bytes, size_t *len, abx_buf *scratch)
{
    return get(ABX_E2B_START_RESPONSE, outputs, 3, codec, msg, n, channel, bytes, len, scratch);
}

int abx_e2b_put_input_event(abx_e2b_codec codec, abx_e2b_channel channel, const void *bytes,
                            size_t n, abx_buf *out)
{
    return put(inputs, 2, codec, channel, bytes, n, out);
}

int abx_e2b_get_input_event(abx_e2b_codec codec, const void *msg, size_t n,
                            abx_e2b_channel *channel, const uint8_t **bytes, size_t *len,
                            abx_buf *scratch)
{
    return get(ABX_E2B_STREAM_INPUT_REQUEST, inputs, 2, codec, msg, n, channel, bytes, len,
               scratch);
}
