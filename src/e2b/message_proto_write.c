/* Tree in normal form → binary protobuf, in the order of the table. */
#include "e2b/message_inner.h"

#include <string.h>

size_t abx__e2b_varint(uint64_t v, uint8_t out[10])
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static int put_varint(abx_buf *out, uint64_t v)
{
    uint8_t bytes[10];
    return abx_buf_add(out, bytes, abx__e2b_varint(v, bytes));
}

static int put_tag(abx_buf *out, uint32_t number, unsigned wire)
{
    return put_varint(out, (uint64_t)number << 3 | wire);
}

/* Put the length of what stands behind `from` in front of it: the length is known only afterwards. */
static int put_length_before(abx_buf *out, size_t from)
{
    size_t len = out->len - from;
    uint8_t bytes[10];
    size_t n = abx__e2b_varint(len, bytes);
    if (!abx_buf_room(out, n))
        return -1;
    memmove(out->data + from + n, out->data + from, len);
    memcpy(out->data + from, bytes, n);
    abx_buf_grow(out, n);
    return 0;
}

static int put_text(abx_buf *out, uint32_t number, yyjson_mut_val *v)
{
    size_t len = yyjson_mut_get_len(v);
    if (put_tag(out, number, 2) < 0 || put_varint(out, len) < 0)
        return -1;
    return abx_buf_add(out, yyjson_mut_get_str(v), len);
}

static int put_bytes(abx_buf *out, uint32_t number, yyjson_mut_val *v)
{
    if (put_tag(out, number, 2) < 0)
        return -1;
    size_t from = out->len;
    if (abx__e2b_base64_read(yyjson_mut_get_str(v), yyjson_mut_get_len(v), out) < 0)
        return -1;
    return put_length_before(out, from);
}

static int put_time(abx_buf *out, uint32_t number, yyjson_mut_val *v)
{
    int64_t seconds = 0;
    int32_t nanos = 0;
    if (abx__e2b_parse_time(yyjson_mut_get_str(v), &seconds, &nanos) < 0 ||
        put_tag(out, number, 2) < 0)
        return -1;
    size_t from = out->len;
    if (seconds != 0 && (put_tag(out, 1, 0) < 0 || put_varint(out, (uint64_t)seconds) < 0))
        return -1;
    if (nanos != 0 && (put_tag(out, 2, 0) < 0 || put_varint(out, (uint64_t)nanos) < 0))
        return -1;
    return put_length_before(out, from);
}

static int put_map(abx_buf *out, uint32_t number, yyjson_mut_val *map)
{
    size_t i = 0, n = 0;
    yyjson_mut_val *key = NULL, *value = NULL;
    yyjson_mut_obj_foreach(map, i, n, key, value)
    {
        if (put_tag(out, number, 2) < 0)
            return -1;
        size_t from = out->len;
        if (put_text(out, 1, key) < 0 || put_text(out, 2, value) < 0 ||
            put_length_before(out, from) < 0)
            return -1;
    }
    return 0;
}

static uint64_t number_of(const abx__e2b_field *f, yyjson_mut_val *v)
{
    if (f->type == ABX__E2B_BOOL)
        return yyjson_mut_get_bool(v);
    int64_t n = yyjson_mut_is_uint(v) ? (int64_t)yyjson_mut_get_uint(v) : yyjson_mut_get_sint(v);
    if (f->type == ABX__E2B_ENUM && yyjson_mut_is_str(v)) {
        int32_t value = 0;
        abx__e2b_enum_value((abx__e2b_enum)f->sub, yyjson_mut_get_str(v), &value);
        n = value;
    }
    if (f->type == ABX__E2B_S32)
        return (uint32_t)(((uint32_t)n << 1) ^ (n < 0 ? UINT32_MAX : 0));
    return (uint64_t)n;
}

static int put_value(abx_buf *out, const abx__e2b_field *f, yyjson_mut_val *v)
{
    switch (f->type) {
    case ABX__E2B_STRING: return put_text(out, f->number, v);
    case ABX__E2B_BYTES: return put_bytes(out, f->number, v);
    case ABX__E2B_TIME: return put_time(out, f->number, v);
    case ABX__E2B_MAP: return put_map(out, f->number, v);
    case ABX__E2B_MESSAGE: {
        if (put_tag(out, f->number, 2) < 0)
            return -1;
        size_t from = out->len;
        if (abx__e2b_write_proto((abx_e2b_msg)f->sub, v, out) < 0)
            return -1;
        return put_length_before(out, from);
    }
    default: break;
    }
    return put_tag(out, f->number, 0) < 0 ? -1 : put_varint(out, number_of(f, v));
}

static int put_list(abx_buf *out, const abx__e2b_field *f, yyjson_mut_val *list)
{
    size_t i = 0, n = 0;
    yyjson_mut_val *one = NULL;
    yyjson_mut_arr_foreach(list, i, n, one)
    {
        if (put_value(out, f, one) < 0)
            return -1;
    }
    return 0;
}

int abx__e2b_write_proto(abx_e2b_msg msg, yyjson_mut_val *tree, abx_buf *out)
{
    size_t count = 0;
    const abx__e2b_field *f = abx__e2b_fields(msg, &count);
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *v = yyjson_mut_obj_get(tree, f[i].json);
        if (!v)
            continue;
        if ((f[i].label == ABX__E2B_LIST ? put_list(out, f + i, v) : put_value(out, f + i, v)) < 0)
            return -1;
    }
    return 0;
}
