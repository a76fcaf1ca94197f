#include "ops/ops.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const abx_op_row op_rows[] = {
#define ABX_OP(id, method, feature, style, http, route, cli, summary)                              \
    {ABX_OP_##id, method, ABX_FEATURE_##feature, ABX_STYLE_##style, http, route, cli, summary},
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
};

#define REQUIRED true
#define OPTIONAL false
static const abx_op_field param_rows[] = {
#define ABX_PARAM(op, name, type, presence, text)                                                  \
    {ABX_OP_##op, name, ABX_TYPE_##type, presence, text},
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
};
#undef REQUIRED
#undef OPTIONAL

static const abx_op_field result_rows[] = {
#define ABX_RESULT(op, name, type, text) {ABX_OP_##op, name, ABX_TYPE_##type, false, text},
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
};

static const abx_op_field event_rows[] = {
#define ABX_EVENT(op, name, text) {ABX_OP_##op, name, ABX_TYPE_OBJECT, false, text},
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
};

static const struct {
    const char *name, *text;
} features[] = {
#define ABX_FEATURE(id, name, text) {name, text},
#include "ops/features.def"
#undef ABX_FEATURE
};

const abx_op_row *abx_op_row_of(abx_op_id id)
{
    ABX_CHECK((unsigned)id < ABX_OP_COUNT);
    return &op_rows[id];
}

const abx_op_row *abx_op_find(const char *method)
{
    for (size_t i = 0; i < ABX_OP_COUNT; i++)
        if (strcmp(op_rows[i].method, method) == 0)
            return &op_rows[i];
    return NULL;
}

const char *abx_feature_name(abx_feature f)
{
    ABX_CHECK((unsigned)f < ABX_FEATURE_COUNT);
    return features[f].name;
}

const char *abx_feature_text(abx_feature f)
{
    ABX_CHECK((unsigned)f < ABX_FEATURE_COUNT);
    return features[f].text;
}

const char *abx_style_name(abx_style s)
{
    static const char *const names[] = {"unary", "stream", "body-in", "body-out", "duplex"};
    return names[s];
}

const char *abx_type_name(abx_type t)
{
    static const char *const names[] = {"string", "bool", "int",    "argv",  "map",
                                        "bytes",  "list", "object", "number"};
    return names[t];
}

const abx_op_field *abx_op_params(size_t *count)
{
    *count = ABX_COUNT(param_rows);
    return param_rows;
}

const abx_op_field *abx_op_results(size_t *count)
{
    *count = ABX_COUNT(result_rows);
    return result_rows;
}

const abx_op_field *abx_op_events(size_t *count)
{
    *count = ABX_COUNT(event_rows);
    return event_rows;
}
