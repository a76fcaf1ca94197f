#include "e2b/message_inner.h"

#include <string.h>

#include "base/mem.h"

/* Index of each message's first row: the rows of a message follow it in messages.def. */
enum {
#define ABX_E2B_MSG(id, name)                           FIRST_##id, BEFORE_##id = FIRST_##id - 1,
#define ABX_E2B_FIELD(msg, json, snake, num, t, sub, l) ROW_##msg##_##num,
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
    ROW_COUNT
};

static const uint16_t firsts[] = {
#define ABX_E2B_MSG(id, name) FIRST_##id,
#define ABX_E2B_FIELD(...)
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
    ROW_COUNT};

static const char *const names[] = {
#define ABX_E2B_MSG(id, name) name,
#define ABX_E2B_FIELD(...)
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
};

#define SUB_STRING(x)  0
#define SUB_BYTES(x)   0
#define SUB_BOOL(x)    0
#define SUB_U32(x)     0
#define SUB_I32(x)     0
#define SUB_S32(x)     0
#define SUB_I64(x)     0
#define SUB_TIME(x)    0
#define SUB_MAP(x)     0
#define SUB_MESSAGE(x) (int)ABX_E2B_##x
#define SUB_ENUM(x)    (int)ABX__E2B_ENUM_##x

static const abx__e2b_field rows[] = {
#define ABX_E2B_MSG(id, name)
#define ABX_E2B_FIELD(msg, json, snake, num, t, sub, l)                                            \
    {json, snake, num, ABX__E2B_##t, SUB_##t(sub), ABX__E2B_##l},
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
};

static const struct {
    abx__e2b_enum e;
    const char *name;
    int32_t value;
} values[] = {
#define ABX_E2B_MSG(id, name)
#define ABX_E2B_FIELD(...)
#define ABX_E2B_ENUM(e, name, number) {ABX__E2B_ENUM_##e, name, number},
#include "e2b/messages.def"
#undef ABX_E2B_MSG
#undef ABX_E2B_FIELD
};

const char *abx__e2b_msg_name(abx_e2b_msg msg)
{
    ABX_CHECK(msg < ABX_E2B_MSG_COUNT);
    return names[msg];
}

const abx__e2b_field *abx__e2b_fields(abx_e2b_msg msg, size_t *count)
{
    ABX_CHECK(msg < ABX_E2B_MSG_COUNT);
    *count = (size_t)(firsts[msg + 1] - firsts[msg]);
    return rows + firsts[msg];
}

const abx__e2b_field *abx__e2b_field_by_name(abx_e2b_msg msg, const char *name)
{
    size_t count = 0;
    const abx__e2b_field *f = abx__e2b_fields(msg, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(f[i].json, name) == 0 || strcmp(f[i].snake, name) == 0)
            return f + i;
    return NULL;
}

const abx__e2b_field *abx__e2b_field_by_number(abx_e2b_msg msg, uint32_t number)
{
    size_t count = 0;
    const abx__e2b_field *f = abx__e2b_fields(msg, &count);
    for (size_t i = 0; i < count; i++)
        if (f[i].number == number)
            return f + i;
    return NULL;
}

const char *abx__e2b_enum_name(abx__e2b_enum e, int32_t value)
{
    for (size_t i = 0; i < ABX_COUNT(values); i++)
        if (values[i].e == e && values[i].value == value)
            return values[i].name;
    return NULL;
}

int abx__e2b_enum_value(abx__e2b_enum e, const char *name, int32_t *value)
{
    for (size_t i = 0; i < ABX_COUNT(values); i++)
        if (values[i].e == e && strcmp(values[i].name, name) == 0) {
            *value = values[i].value;
            return 1;
        }
    return 0;
}
