/* What the parts of the codec share; for src/e2b/message*.c only. */
#ifndef ABX_E2B_MESSAGE_INNER_H
#define ABX_E2B_MESSAGE_INNER_H

#include "e2b/message.h"

/* Values of one tree (a member counts as one): what a peer can make us build is bounded by it. */
#define ABX__E2B_MAX_VALUES ((size_t)8 * 1024 * 1024)
#define ABX__E2B_MAX_LIST   ((size_t)256 * 1024)
#define ABX__E2B_MAX_MAP    ((size_t)8 * 1024)

typedef enum abx__e2b_type {
    ABX__E2B_STRING,
    ABX__E2B_BYTES,
    ABX__E2B_BOOL,
    ABX__E2B_U32,
    ABX__E2B_I32,
    ABX__E2B_S32,
    ABX__E2B_I64,
    ABX__E2B_ENUM,
    ABX__E2B_MESSAGE,
    ABX__E2B_TIME,
    ABX__E2B_MAP
} abx__e2b_type;

typedef enum abx__e2b_label {
    ABX__E2B_ONE,
    ABX__E2B_OPTIONAL,
    ABX__E2B_LIST,
    ABX__E2B_ONEOF
} abx__e2b_label;

typedef enum abx__e2b_enum {
    ABX__E2B_ENUM_SIGNAL,
    ABX__E2B_ENUM_FILE_TYPE,
    ABX__E2B_ENUM_EVENT_TYPE
} abx__e2b_enum;

typedef struct abx__e2b_field {
    const char *json, *snake;
    uint32_t number;
    abx__e2b_type type;
    int sub; /* abx_e2b_msg or abx__e2b_enum */
    abx__e2b_label label;
} abx__e2b_field;

const char *abx__e2b_msg_name(abx_e2b_msg msg);
const abx__e2b_field *abx__e2b_fields(abx_e2b_msg msg, size_t *count);
const abx__e2b_field *abx__e2b_field_by_name(abx_e2b_msg msg, const char *name);
const abx__e2b_field *abx__e2b_field_by_number(abx_e2b_msg msg, uint32_t number);
/* The name of a value, or NULL; the value of a name: 1 and *value, or 0. */
const char *abx__e2b_enum_name(abx__e2b_enum e, int32_t value);
int abx__e2b_enum_value(abx__e2b_enum e, const char *name, int32_t *value);

/* A tree in the normal form of message.h, made of another tree. strict: for what we send ourselves; unknown fields,
 * unknown enum names and both members of a oneof are errors then. int_text: int64 as decimal text (for JSON bytes).
 * Returns the new value in doc, or NULL and *err (id; names message and field). */
yyjson_mut_val *abx__e2b_normal(abx_e2b_msg msg, yyjson_val *tree, bool strict, bool int_text,
                                yyjson_mut_doc *doc, abx_err_id id, abx_error **err);

/* Binary → tree in normal form in doc. NULL and *err BACKEND_ANSWER. */
yyjson_mut_val *abx__e2b_read_proto(abx_e2b_msg msg, const uint8_t *bytes, size_t n,
                                    yyjson_mut_doc *doc, abx_error **err);
/* A tree in normal form → binary, appended. 0, or -1: out is full. */
int abx__e2b_write_proto(abx_e2b_msg msg, yyjson_mut_val *tree, abx_buf *out) ABX_MUST_CHECK;

/* A number as a parser would make it: unsigned unless it is negative. */
static inline yyjson_mut_val *abx__e2b_int(yyjson_mut_doc *doc, int64_t v)
{
    return v < 0 ? yyjson_mut_sint(doc, v) : yyjson_mut_uint(doc, (uint64_t)v);
}

/* Base64 of a peer, in either alphabet, padded or not: decoded and appended to out. 0; -1: not base64, or out is
 * full (out->len is as before then). */
int abx__e2b_base64_read(const char *text, size_t n, abx_buf *out) ABX_MUST_CHECK;

/* --- protobuf's own form ----------------------------------------------------------------------------- */
typedef struct abx__e2b_reader {
    const uint8_t *at, *end;
} abx__e2b_reader;

typedef struct abx__e2b_item {
    uint32_t number;
    unsigned wire;        /* 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes */
    uint64_t value;       /* of a varint */
    const uint8_t *bytes; /* of a length-delimited one */
    size_t len;
} abx__e2b_item;

/* The next field. 1: *item is set, 0: the end, -1: broken (cut, bad tag, group, varint over 64 bits). */
int abx__e2b_next(abx__e2b_reader *r, abx__e2b_item *item);
/* Write v as varint; out has room for 10. Returns the count. */
size_t abx__e2b_varint(uint64_t v, uint8_t out[10]);

/* --- RFC 3339 with nanoseconds --------------------------------------------------------------------------- */
#define ABX__E2B_TIME_SIZE 40
/* 0, or -1: outside of year 1 to 9999, or nanos not in 0..999999999. */
int abx__e2b_format_time(int64_t seconds, int64_t nanos, char out[ABX__E2B_TIME_SIZE]);
int abx__e2b_parse_time(const char *text, int64_t *seconds, int32_t *nanos);

#endif
