/* Binary protobuf → tree. Every length is checked against what is there; depth is bounded by the table; the
 * number of values by a budget. As protobuf asks: a message that comes twice is merged, of other fields and of a
 * oneof the last one counts. */
#include "e2b/message_inner.h"

#include <string.h>

#include "base/json_names.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

static int read_varint(abx__e2b_reader *r, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end)
            return -1;
        uint8_t b = *r->at++;
        if (shift == 63 && b > 1)
            return -1;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return 0;
        }
    }
    return -1;
}

static int take(abx__e2b_reader *r, uint64_t n, abx__e2b_item *item)
{
    if (n > (uint64_t)(r->end - r->at))
        return -1;
    item->bytes = r->at;
    item->len = (size_t)n;
    r->at += n;
    return 1;
}

int abx__e2b_next(abx__e2b_reader *r, abx__e2b_item *item)
{
    if (r->at == r->end)
        return 0;
    uint64_t tag = 0;
    if (read_varint(r, &tag) < 0 || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    *item = (abx__e2b_item){.number = (uint32_t)(tag >> 3), .wire = (unsigned)(tag & 7)};
    uint64_t len = 0;
    switch (item->wire) {
    case 0: return read_varint(r, &item->value) < 0 ? -1 : 1;
    case 1: return take(r, 8, item);
    case 2: return read_varint(r, &len) < 0 ? -1 : take(r, len, item);
    case 5: return take(r, 4, item);
    default: return -1; /* groups: no message of ours has them */
    }
}

typedef struct reading {
    yyjson_mut_doc *doc;
    size_t count; /* values made so far */
    abx_error **err;
} reading;

static int read_message(reading *r, abx_e2b_msg msg, const uint8_t *bytes, size_t n,
                        yyjson_mut_val *into);

static int bad(reading *r, abx_e2b_msg msg, const abx__e2b_field *f, const char *what)
{
    return abx_fail(r->err, ABX_ERR_BACKEND_ANSWER, "'%s.%s' %s", abx__e2b_msg_name(msg), f->json,
                    what);
}

static yyjson_mut_val *text_value(reading *r, const uint8_t *bytes, size_t n)
{
    return yyjson_mut_strncpy(r->doc, n > 0 ? (const char *)bytes : "", n);
}

static yyjson_mut_val *bytes_value(reading *r, const uint8_t *bytes, size_t n)
{
    size_t len = ABX_BASE64_ROOM(n) - 1;
    ABX_AUTO_FREE char *text = abx_alloc(len + 1);
    abx_base64_encode(bytes, n, text, ABX_BASE64_STANDARD, true);
    return yyjson_mut_strncpy(r->doc, text, len);
}

static int32_t zigzag(uint64_t v)
{
    uint32_t u = (uint32_t)v;
    return (int32_t)(u >> 1 ^ (0U - (u & 1)));
}

static yyjson_mut_val *number_value(reading *r, const abx__e2b_field *f, uint64_t v)
{
    switch (f->type) {
    case ABX__E2B_BOOL: return yyjson_mut_bool(r->doc, v != 0);
    case ABX__E2B_U32: return abx__e2b_int(r->doc, (int64_t)(uint32_t)v);
    case ABX__E2B_I32: return abx__e2b_int(r->doc, (int32_t)(uint32_t)v);
    case ABX__E2B_S32: return abx__e2b_int(r->doc, zigzag(v));
    case ABX__E2B_I64: return abx__e2b_int(r->doc, (int64_t)v);
    default: break;
    }
    int32_t e = (int32_t)(uint32_t)v;
    const char *name = abx__e2b_enum_name((abx__e2b_enum)f->sub, e);
    return name ? yyjson_mut_str(r->doc, name) : abx__e2b_int(r->doc, e);
}

/* Timestamp {1: seconds int64, 2: nanos int32}. */
static int read_time(reading *r, abx_e2b_msg msg, const abx__e2b_field *f,
                     const abx__e2b_item *item, yyjson_mut_val **out)
{
    abx__e2b_reader in = {item->bytes, item->bytes + item->len};
    abx__e2b_item part;
    int64_t seconds = 0, nanos = 0;
    int rc = 0;
    while ((rc = abx__e2b_next(&in, &part)) > 0) {
        if (part.number == 1 && part.wire == 0)
            seconds = (int64_t)part.value;
        else if (part.number == 2 && part.wire == 0)
            nanos = (int32_t)(uint32_t)part.value;
    }
    char text[ABX__E2B_TIME_SIZE];
    if (rc < 0 || abx__e2b_format_time(seconds, nanos, text) < 0)
        return bad(r, msg, f, "is not a time");
    *out = yyjson_mut_strcpy(r->doc, text);
    return 0;
}

/* One entry {1: key, 2: value} of a map of text. */
static int read_entry(reading *r, abx_e2b_msg msg, const abx__e2b_field *f,
                      const abx__e2b_item *item, yyjson_mut_val *map)
{
    abx__e2b_reader in = {item->bytes, item->bytes + item->len};
    abx__e2b_item part, key = {0}, value = {0};
    int rc = 0;
    while ((rc = abx__e2b_next(&in, &part)) > 0) {
        if (part.number == 1 && part.wire == 2)
            key = part;
        else if (part.number == 2 && part.wire == 2)
            value = part;
    }
    if (rc < 0 || !abx_utf8_valid(key.bytes, key.len) || !abx_utf8_valid(value.bytes, value.len))
        return bad(r, msg, f, "is broken");
    /* The last one with a name wins; which one that is shows at the end of the message. */
    if (yyjson_mut_obj_size(map) >= ABX__E2B_MAX_MAP)
        return bad(r, msg, f, "has too many members");
    r->count += 2;
    yyjson_mut_obj_add(map, text_value(r, key.bytes, key.len),
                       text_value(r, value.bytes, value.len));
    return 0;
}

/* A value that stands for itself: everything but maps and messages. */
static int read_value(reading *r, abx_e2b_msg msg, const abx__e2b_field *f,
                      const abx__e2b_item *item, yyjson_mut_val **out)
{
    switch (f->type) {
    case ABX__E2B_STRING:
        if (!abx_utf8_valid(item->bytes, item->len))
            return bad(r, msg, f, "is not UTF-8");
        *out = text_value(r, item->bytes, item->len);
        return 0;
    case ABX__E2B_BYTES: *out = bytes_value(r, item->bytes, item->len); return 0;
    case ABX__E2B_TIME: return read_time(r, msg, f, item, out);
    default: *out = number_value(r, f, item->value); return 0;
    }
}

static unsigned wire_of(const abx__e2b_field *f)
{
    switch (f->type) {
    case ABX__E2B_BOOL:
    case ABX__E2B_U32:
    case ABX__E2B_I32:
    case ABX__E2B_S32:
    case ABX__E2B_I64:
    case ABX__E2B_ENUM: return 0;
    default: return 2;
    }
}

static void drop_other_choices(abx_e2b_msg msg, const abx__e2b_field *chosen, yyjson_mut_val *into)
{
    size_t count = 0;
    const abx__e2b_field *f = abx__e2b_fields(msg, &count);
    for (size_t i = 0; i < count; i++)
        if (f[i].label == ABX__E2B_ONEOF && f + i != chosen)
            yyjson_mut_obj_remove_key(into, f[i].json);
}

/* The member that collects: the list of a repeated field, the map, or the message that is merged into. */
static yyjson_mut_val *member(reading *r, const abx__e2b_field *f, yyjson_mut_val *into)
{
    yyjson_mut_val *v = yyjson_mut_obj_get(into, f->json);
    if (!v) {
        v = f->label == ABX__E2B_LIST ? yyjson_mut_arr(r->doc) : yyjson_mut_obj(r->doc);
        yyjson_mut_obj_add(into, yyjson_mut_str(r->doc, f->json), v);
    }
    return v;
}

static int read_field(reading *r, abx_e2b_msg msg, const abx__e2b_field *f,
                      const abx__e2b_item *item, yyjson_mut_val *into)
{
    if (item->wire != wire_of(f))
        return bad(r, msg, f, "has another type");
    if (++r->count > ABX__E2B_MAX_VALUES)
        return bad(r, msg, f, "makes the message too large");
    if (f->label == ABX__E2B_ONEOF)
        drop_other_choices(msg, f, into);
    if (f->type == ABX__E2B_MAP)
        return read_entry(r, msg, f, item, member(r, f, into));
    yyjson_mut_val *list = NULL, *value = NULL;
    if (f->label == ABX__E2B_LIST) {
        list = member(r, f, into);
        if (yyjson_mut_arr_size(list) >= ABX__E2B_MAX_LIST)
            return bad(r, msg, f, "has too many entries");
    }
    if (f->type == ABX__E2B_MESSAGE) {
        value = list ? yyjson_mut_obj(r->doc) : member(r, f, into);
        if (read_message(r, (abx_e2b_msg)f->sub, item->bytes, item->len, value) < 0)
            return -1;
    } else if (read_value(r, msg, f, item, &value) < 0) {
        return -1;
    }
    if (list)
        yyjson_mut_arr_append(list, value);
    else if (f->type != ABX__E2B_MESSAGE)
        yyjson_mut_obj_put(into, yyjson_mut_str(r->doc, f->json), value);
    return 0;
}

static int read_message(reading *r, abx_e2b_msg msg, const uint8_t *bytes, size_t n,
                        yyjson_mut_val *into)
{
    abx__e2b_reader in = {bytes, bytes + n};
    abx__e2b_item item;
    int rc = 0;
    while ((rc = abx__e2b_next(&in, &item)) > 0) {
        const abx__e2b_field *f = abx__e2b_field_by_number(msg, item.number);
        if (f && read_field(r, msg, f, &item, into) < 0)
            return -1;
    }
    if (rc < 0)
        return abx_fail(r->err, ABX_ERR_BACKEND_ANSWER, "'%s' is no whole message",
                        abx__e2b_msg_name(msg));
    return 0;
}

/* Entries of maps that a later one has replaced. Once, when all is read: the same message may come in many pieces. */
static void settle_maps(abx_e2b_msg msg, yyjson_mut_val *obj)
{
    size_t count = 0;
    const abx__e2b_field *f = abx__e2b_fields(msg, &count);
    for (size_t i = 0; i < count; i++) {
        if (f[i].type != ABX__E2B_MAP && f[i].type != ABX__E2B_MESSAGE)
            continue;
        yyjson_mut_val *v = yyjson_mut_obj_get(obj, f[i].json);
        yyjson_mut_arr_iter items = yyjson_mut_arr_iter_with(v);
        if (f[i].type == ABX__E2B_MAP)
            abx_mut_keep_last(v);
        else if (f[i].label != ABX__E2B_LIST && v)
            settle_maps((abx_e2b_msg)f[i].sub, v);
        for (yyjson_mut_val *item; (item = yyjson_mut_arr_iter_next(&items));)
            settle_maps((abx_e2b_msg)f[i].sub, item);
    }
}

yyjson_mut_val *abx__e2b_read_proto(abx_e2b_msg msg, const uint8_t *bytes, size_t n,
                                    yyjson_mut_doc *doc, abx_error **err)
{
    static const uint8_t none[1] = {0};
    reading r = {doc, 0, err};
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    if (read_message(&r, msg, bytes ? bytes : none, n, root) < 0)
        return NULL;
    settle_maps(msg, root);
    return root;
}
