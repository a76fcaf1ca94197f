/* What can be emulated, and by what. */
#include "host/emulate.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/emulate_inner.h"

typedef struct emulated {
    const char *name; /* as in the map: a feature or an operation */
    abx_op_id ops[3]; /* what comes with it; ends with ABX_OP_COUNT */
    abx_op_id by[5];  /* what it is made of; ends with ABX_OP_COUNT */
} emulated;

static const emulated table[] = {
    {"filesystem.watch", {ABX_OP_FS_WATCH, ABX_OP_COUNT}, {ABX_OP_FS_LIST, ABX_OP_COUNT}},
    {"fs.stat",
     {ABX_OP_FS_STAT, ABX_OP_COUNT},
     {ABX_OP_PROCESS_START, ABX_OP_FS_READ, ABX_OP_COUNT}},
    {"process.stdin",
     {ABX_OP_PROCESS_STDIN, ABX_OP_PROCESS_CLOSE_STDIN, ABX_OP_COUNT},
     {ABX_OP_PROCESS_START, ABX_OP_FS_WRITE, ABX_OP_FS_RENAME, ABX_OP_FS_REMOVE, ABX_OP_COUNT}},
};

bool abx__features_have(yyjson_val *features, const abx_op_row *row)
{
    const char *state = abx_json_str(features, row->method, NULL);
    if (!state)
        state = abx_json_str(features, abx_feature_name(row->feature), NULL);
    if (!state)
        return row->feature == ABX_FEATURE_SANDBOX;
    return strcmp(state, "unsupported") != 0;
}

static bool can(yyjson_val *features, const emulated *row)
{
    for (const abx_op_id *op = row->by; *op != ABX_OP_COUNT; op++)
        if (!abx__features_have(features, abx_op_row_of(*op)))
            return false;
    return true;
}

/* The row that stands in for an operation that the map lacks, or NULL. */
static const emulated *row_for(yyjson_val *features, abx_op_id op)
{
    if (abx__features_have(features, abx_op_row_of(op)))
        return NULL;
    for (size_t i = 0; i < ABX_COUNT(table); i++)
        for (const abx_op_id *have = table[i].ops; *have != ABX_OP_COUNT; have++)
            if (*have == op)
                return can(features, &table[i]) ? &table[i] : NULL;
    return NULL;
}

/* Is a part of a file left to the host? */
static bool range_is_ours(yyjson_val *features)
{
    const char *own = abx_json_str(features, abx_feature_name(ABX_FEATURE_FILESYSTEM_RANGE), NULL);
    return (!own || strcmp(own, "unsupported") == 0) &&
           abx__features_have(features, abx_op_row_of(ABX_OP_FS_READ));
}

static void put(yyjson_mut_doc *d, yyjson_mut_val *map, const char *name)
{
    yyjson_mut_obj_remove_key(map, name);
    abx_mut_str(d, map, name, "emulated");
}

yyjson_doc *abx__features_with_emulated(yyjson_val *features)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *map = features ? yyjson_val_mut_copy(d, features) : yyjson_mut_obj(d);
    yyjson_mut_doc_set_root(d, map);
    for (size_t i = 0; i < ABX_COUNT(table); i++) {
        const emulated *row = &table[i];
        const char *own = abx_json_str(features, row->name, NULL);
        /* A feature of which the provider has a part keeps its own state; the missing operations get theirs. */
        bool part = own && strcmp(own, "unsupported") != 0;
        for (const abx_op_id *op = row->ops; *op != ABX_OP_COUNT; op++) {
            if (row_for(features, *op) != row)
                continue;
            const char *method = abx_op_row_of(*op)->method;
            yyjson_mut_obj_remove_key(map, method);
            put(d, map, part ? method : row->name);
        }
    }
    if (range_is_ours(features))
        put(d, map, abx_feature_name(ABX_FEATURE_FILESYSTEM_RANGE));
    return abx_json_freeze(d);
}

bool abx__wants_stdin(const abx_call *call)
{
    yyjson_val *params = abx_call_params(call);
    return abx_call_op(call)->id == ABX_OP_PROCESS_START &&
           (abx_json_get(params, "input") ||
            abx_str_eq(abx_json_str(params, "stdin", NULL), "stream"));
}

static bool wants_part(const abx_call *call)
{
    yyjson_val *params = abx_call_params(call);
    return abx_call_op(call)->id == ABX_OP_FS_READ &&
           (abx_json_get(params, "offset") || abx_json_get(params, "limit"));
}

bool abx__is_emulated(yyjson_val *features, const abx_call *call)
{
    if (wants_part(call))
        return range_is_ours(features);
    abx_op_id op = abx__wants_stdin(call) ? ABX_OP_PROCESS_STDIN : abx_call_op(call)->id;
    return row_for(features, op) != NULL;
}

void abx__emulate(abx_host *host, const char *provider_id, abx_call *call)
{
    switch (abx_call_op(call)->id) {
    case ABX_OP_FS_WATCH: abx__emulate_watch(host, provider_id, call); break;
    case ABX_OP_FS_READ: abx__emulate_range(host, provider_id, call); break;
    case ABX_OP_FS_STAT: abx__emulate_stat(host, provider_id, call); break;
    case ABX_OP_PROCESS_START: abx__emulate_start(host, provider_id, call); break;
    default: abx__emulate_stdin(host, provider_id, call); break;
    }
}
