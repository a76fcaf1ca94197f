#include "doors/cli/schema.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/protocols.h"
#include "doors/cli/spec.h"

/* Add the words of a list as an array. */
static void add_words(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *list,
                      char separator)
{
    yyjson_mut_val *array = abx_mut_arr(d, o, key);
    for (const char *p = list; *p;) {
        const char *end = strchr(p, separator);
        size_t n = end ? (size_t)(end - p) : strlen(p);
        yyjson_mut_arr_add_strncpy(d, array, p, n);
        p += n + (end != NULL);
    }
}

static yyjson_mut_val *flag_object(yyjson_mut_doc *d, const abx_flag *f)
{
    yyjson_mut_val *o = yyjson_mut_obj(d);
    char letter[2] = {f->letter, 0};
    abx_mut_str(d, o, "name", f->name);
    abx_mut_str(d, o, "short", f->letter ? letter : NULL);
    if (f->aliases[0])
        add_words(d, o, "aliases", f->aliases, ' ');
    abx_mut_str(d, o, "type", abx_flag_type_name(f->type));
    if (f->type == ABX_FLAG_TYPE_CHOICE)
        add_words(d, o, "choices", f->arg, '|');
    else
        abx_mut_str(d, o, "argument", f->arg[0] ? f->arg : NULL);
    abx_mut_str(d, o, "default", f->otherwise[0] ? f->otherwise : NULL);
    abx_mut_bool(d, o, "repeatable",
                 f->type == ABX_FLAG_TYPE_PAIRS || f->type == ABX_FLAG_TYPE_STRINGS ||
                     f->type == ABX_FLAG_TYPE_COUNT);
    abx_mut_bool(d, o, "negatable", f->type == ABX_FLAG_TYPE_BOOL);
    abx_mut_str(d, o, "text", f->text);
    return o;
}

static void add_flags(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const abx_verb *verb,
                      bool global)
{
    yyjson_mut_val *array = abx_mut_arr(d, o, key);
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (abx_flag_is_global(f) == global && abx_verb_has_flag(verb, f))
            yyjson_mut_arr_append(array, flag_object(d, f));
    }
}

static const char *exits_name(abx_exits exits)
{
    static const char *const names[] = {"process", "wait", "common"};
    return names[exits];
}

static void add_output(yyjson_mut_doc *d, yyjson_mut_val *o, const abx_verb *verb)
{
    size_t n;
    const abx_verb_output *outputs = abx_verb_outputs(&n);
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].verb != verb->id)
            continue;
        yyjson_mut_val *output = abx_mut_obj(d, o, "output");
        abx_mut_str(d, output, "shape", abx_shape_name(outputs[i].shape));
        abx_mut_str(d, output, "object", outputs[i].object);
    }
}

static yyjson_mut_val *verb_object(yyjson_mut_doc *d, const abx_verb *v)
{
    static const char *const args[] = {"words", "command", "id-command"};
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "name", v->name);
    if (strchr(v->name, ' ')) { /* aliases of a group's verb are pairs: "files read" */
        yyjson_mut_val *array = abx_mut_arr(d, o, "aliases");
        for (const char *p = v->aliases; *p;) {
            const char *end = strchr(p, ' ');
            end = end ? strchr(end + 1, ' ') : NULL;
            size_t n = end ? (size_t)(end - p) : strlen(p);
            yyjson_mut_arr_add_strncpy(d, array, p, n);
            p += n + (end != NULL);
        }
    } else {
        add_words(d, o, "aliases", v->aliases, ' ');
    }
    abx_mut_str(d, o, "usage", v->usage);
    abx_mut_str(d, o, "summary", v->summary);
    abx_mut_str(d, o, "arguments", args[v->args]);
    abx_mut_int(d, o, "minWords", v->min);
    if (v->max >= 0)
        abx_mut_int(d, o, "maxWords", v->max);
    abx_mut_str(d, o, "exitCodes", exits_name(v->exits));
    add_output(d, o, v);
    add_flags(d, o, "flags", v, false);
    return o;
}

static void add_objects(yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_mut_val *objects = abx_mut_obj(d, root, "objects");
    yyjson_mut_val *fields = NULL;
    size_t n;
    const abx_object_row *rows = abx_object_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].name) {
            yyjson_mut_val *o = abx_mut_obj(d, objects, rows[i].object);
            abx_mut_str(d, o, "text", rows[i].text);
            fields = abx_mut_obj(d, o, "fields");
            continue;
        }
        yyjson_mut_val *field = abx_mut_obj(d, fields, rows[i].name);
        abx_mut_str(d, field, "type", rows[i].type);
        abx_mut_str(d, field, "text", rows[i].text[0] ? rows[i].text : NULL);
    }
}

static void add_exit_codes(yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_mut_val *codes = abx_mut_obj(d, root, "exitCodes");
    size_t n;
    const abx_exit_row *rows = abx_exit_rows(&n);
    for (size_t i = 0; i < n; i++) {
        yyjson_mut_val *list = yyjson_mut_obj_get(codes, exits_name(rows[i].exits));
        if (!list)
            list = abx_mut_arr(d, codes, exits_name(rows[i].exits));
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, o, "code", rows[i].code);
        abx_mut_str(d, o, "text", rows[i].text);
    }
}

static void add_errors(yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_mut_val *errors = abx_mut_arr(d, root, "errors");
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        const abx_err_row *row = abx_err_row_of((abx_err_id)i);
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, errors);
        abx_mut_str(d, o, "code", row->code);
        abx_mut_str(d, o, "type", row->type);
        abx_mut_int(d, o, "exitCode", row->exit_code);
        if (row->retryable != ABX_RETRY_UNKNOWN)
            abx_mut_bool(d, o, "retryable", row->retryable == ABX_RETRY_YES);
        abx_mut_str(d, o, "text", row->meaning);
    }
}

yyjson_mut_doc *abx_schema(void)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "schema", ABX_PROTOCOL_SCHEMA);
    yyjson_mut_val *verbs = abx_mut_arr(d, root, "verbs");
    for (int i = 0; i < ABX_VERB_COUNT; i++)
        yyjson_mut_arr_append(verbs, verb_object(d, abx_verb_row((abx_verb_id)i)));
    add_flags(d, root, "globalFlags", NULL, true);
    add_objects(d, root);
    add_exit_codes(d, root);
    add_errors(d, root);
    return d;
}
