/* The op table as data, and the check of a call's parameters against it. Read-only; any thread. */
#ifndef ABX_OPS_OPS_H
#define ABX_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

typedef enum abx_op_id {
#define ABX_OP(id, method, feature, style, http, route, cli, summary) ABX_OP_##id,
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
    ABX_OP_COUNT
} abx_op_id;

typedef enum abx_feature {
#define ABX_FEATURE(id, name, text) ABX_FEATURE_##id,
#include "ops/features.def"
#undef ABX_FEATURE
    ABX_FEATURE_COUNT
} abx_feature;

typedef enum abx_style {
    ABX_STYLE_UNARY,
    ABX_STYLE_STREAM,
    ABX_STYLE_BODY_IN,
    ABX_STYLE_BODY_OUT,
    ABX_STYLE_DUPLEX
} abx_style;

typedef enum abx_type {
    ABX_TYPE_STRING,
    ABX_TYPE_BOOL,
    ABX_TYPE_INT,
    ABX_TYPE_ARGV,  /* array of strings, or a string (with shell: true) */
    ABX_TYPE_MAP,   /* object of strings */
    ABX_TYPE_BYTES, /* {"text"} or {"base64"} */
    ABX_TYPE_LIST,
    ABX_TYPE_OBJECT,
    ABX_TYPE_NUMBER /* from 0 on, with or without a fraction */
} abx_type;

typedef struct abx_op_row {
    abx_op_id id;
    const char *method; /* "process.start" */
    abx_feature feature;
    abx_style style;
    const char *http, *route;
    const char *cli; /* verbs, separated by blanks */
    const char *summary;
} abx_op_row;

typedef struct abx_op_field {
    abx_op_id op;
    const char *name;
    abx_type type;
    bool required;
    const char *text;
} abx_op_field;

const abx_op_row *abx_op_row_of(abx_op_id id);
const abx_op_row *abx_op_find(const char *method); /* or NULL */
const char *abx_feature_name(abx_feature f);
const char *abx_feature_text(abx_feature f);
const char *abx_style_name(abx_style s);
const char *abx_type_name(abx_type t);
/* All parameters, results, events of the table in its order; the rows of one op are together. */
const abx_op_field *abx_op_params(size_t *count);
const abx_op_field *abx_op_results(size_t *count);
const abx_op_field *abx_op_events(size_t *count);

#define ABX_OP_MAP_MAX  8192   /* members of a map or an object */
#define ABX_OP_LIST_MAX 262144 /* entries of a list */

/* Check a call's parameters: an object, no unknown member (the nearest known one is named), right types, required
 * ones present, no negative or fractional INT, a string cmd only with shell: true. 0, or -1 and USAGE; TOO_LARGE for more
 * entries than above. */
int abx_op_check_params(const abx_op_row *row, yyjson_val *params, abx_error **err);
/* Check a result that came from outside, or a part of it: the members that the table knows have their types; what it does not know is
 * let be. whole: `id` is there where the table has one. 0, or -1 and PROVIDER_PROTOCOL. */
int abx_op_check_results(const abx_op_row *row, yyjson_val *result, bool whole, abx_error **err);

#endif
