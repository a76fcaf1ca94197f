/* The table of operations as JSON. */
#include <string.h>

#include "base/json.h"
#include "doors/capi/capi.h"
#include "ops/ops.h"

typedef struct op_event {
    abx_op_id op;
    const char *name, *text;
} op_event;

static void add_fields(yyjson_mut_doc *d, yyjson_mut_val *op, const char *key, abx_op_id id,
                       const abx_op_field *fields, size_t count)
{
    yyjson_mut_val *list = abx_mut_arr(d, op, key);
    for (size_t i = 0; i < count; i++) {
        if (fields[i].op != id)
            continue;
        yyjson_mut_val *f = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, f, "name", fields[i].name);
        abx_mut_str(d, f, "type", abx_type_name(fields[i].type));
        if (strcmp(key, "params") == 0)
            abx_mut_bool(d, f, "required", fields[i].required);
        abx_mut_str(d, f, "text", fields[i].text);
    }
}

static void add_events(yyjson_mut_doc *d, yyjson_mut_val *op, abx_op_id id)
{
    size_t count;
    const abx_op_field *events = abx_op_events(&count);
    yyjson_mut_val *list = abx_mut_arr(d, op, "events");
    for (size_t i = 0; i < count; i++) {
        if (events[i].op != id)
            continue;
        yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, e, "name", events[i].name);
        abx_mut_str(d, e, "text", events[i].text);
    }
}

char *capi_operations(void)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "operations");
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *row = abx_op_row_of((abx_op_id)i);
        yyjson_mut_val *op = yyjson_mut_arr_add_obj(d, list);
        size_t params, results;
        const abx_op_field *p = abx_op_params(&params), *r = abx_op_results(&results);
        abx_mut_str(d, op, "method", row->method);
        abx_mut_str(d, op, "feature", abx_feature_name(row->feature));
        abx_mut_str(d, op, "style", abx_style_name(row->style));
        abx_mut_str(d, op, "summary", row->summary);
        add_fields(d, op, "params", row->id, p, params);
        add_fields(d, op, "results", row->id, r, results);
        add_events(d, op, row->id);
    }
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}
