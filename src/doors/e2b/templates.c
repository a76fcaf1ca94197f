#include "doors/e2b/templates.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/snapshots.h"

/* Names under which programs ask for what E2B starts with. */
static const char *const defaults[] = {"base", "code-interpreter-v1"};

void e2b_wish_clear(e2b_wish *w)
{
    free(w->given);
    free(w->name);
    memset(w, 0, sizeof *w);
}

char *e2b_plain_name(const char *given)
{
    size_t from = strspn(given, " \t"), n = strlen(given);
    while (n > from && (given[n - 1] == ' ' || given[n - 1] == '\t'))
        n--;
    char *name = abx_strndup(given + from, n - from);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (abx_has_suffix(name, ":default"))
        name[strlen(name) - strlen(":default")] = 0;
    return name;
}

static bool is_default(const char *name)
{
    for (size_t i = 0; i < ABX_COUNT(defaults); i++)
        if (strcmp(name, defaults[i]) == 0)
            return true;
    return false;
}

void e2b_wish_read(e2b_door *door, const char *given, e2b_wish *out)
{
    *out = (e2b_wish){.given = abx_strdup(given), .name = e2b_plain_name(given)};
    const char *snapshot = e2b_snapshot_named(door, out->name);
    if (snapshot) {
        char *id = abx_strdup(snapshot);
        free(out->name);
        out->name = id;
        out->is_snapshot = true;
    } else if (is_default(out->name)) {
        free(ABX_TAKE(out->name));
    }
}

/* --- routes ---------------------------------------------------------------------------------------------------------- */
static void add_names(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *name)
{
    yyjson_mut_val *names = abx_mut_arr(d, o, key);
    if (name)
        yyjson_mut_arr_add_strcpy(d, names, name);
}

/* Sizes and counts that a provider does not tell are 0. */
static yyjson_mut_val *view(yyjson_mut_doc *d, const char *id, const char *name, const char *time)
{
    static const char *const numbers[] = {"cpuCount", "memoryMB", "diskSizeMB", "spawnCount",
                                          "buildCount"};
    yyjson_mut_val *o = yyjson_mut_obj(d);
    abx_mut_str(d, o, "templateID", id);
    abx_mut_str(d, o, "buildID", id);
    for (size_t i = 0; i < ABX_COUNT(numbers); i++)
        abx_mut_int(d, o, numbers[i], 0);
    abx_mut_bool(d, o, "public", true);
    add_names(d, o, "aliases", name);
    add_names(d, o, "names", name);
    abx_mut_str(d, o, "createdAt", time);
    abx_mut_str(d, o, "updatedAt", time);
    abx_mut_put(d, o, "lastSpawnedAt", yyjson_mut_null(d));
    abx_mut_put(d, o, "createdBy", yyjson_mut_null(d));
    abx_mut_str(d, o, "buildStatus", "ready");
    abx_mut_str(d, o, "envdVersion", E2B_ENVD_VERSION);
    return o;
}

static void on_list(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    if (err && err->id != ABX_ERR_FEATURE_MISSING) {
        e2b_reply_error(r, err);
        return;
    }
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    yyjson_val *template;
    size_t i, n;
    yyjson_mut_doc_set_root(d, list);
    yyjson_mut_arr_append(list, view(d, defaults[0], defaults[0], "1970-01-01T00:00:00Z"));
    yyjson_arr_foreach(abx_json_get(result, "templates"), i, n, template)
    {
        const char *id = abx_json_str(template, "id", NULL);
        if (id)
            yyjson_mut_arr_append(
                list, view(d, id, abx_json_str(template, "name", NULL),
                           abx_json_str(template, "createdAt", "1970-01-01T00:00:00Z")));
    }
    e2b_reply(r, 200, list);
}

void e2b_do_template_list(e2b_request *r)
{
    yyjson_mut_val *root;
    e2b_request_ask(r, ABX_OP_SANDBOX_TEMPLATE_LIST, abx_mut_new(&root), on_list);
}

static void tell_alias(e2b_request *r, const char *id)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "templateID", id);
    abx_mut_bool(d, root, "public", true);
    e2b_reply(r, 200, root);
}

static void on_info(void *data, yyjson_val *result, const abx_error *err)
{
    e2b_request *r = data;
    ABX_AUTO_FREE char *shown = abx_printable(r->word);
    if (!err)
        tell_alias(r, abx_json_str(result, "id", ""));
    else if (err->id == ABX_ERR_TEMPLATE_NOT_FOUND || err->id == ABX_ERR_FEATURE_MISSING)
        e2b_reply_refuse(r, 404, "template '%s' not found", shown);
    else
        e2b_reply_error(r, err);
}

/* GET /templates/aliases/{}: is there such a template? */
void e2b_do_template_alias(e2b_request *r)
{
    e2b_wish wish;
    e2b_wish_read(r->door, r->word, &wish);
    if (!wish.name || wish.is_snapshot) {
        tell_alias(r, wish.name ? wish.name : defaults[0]);
    } else {
        yyjson_mut_val *root;
        yyjson_mut_doc *params = abx_mut_new(&root);
        abx_mut_str(params, root, "template", wish.name);
        e2b_request_ask(r, ABX_OP_SANDBOX_TEMPLATE_INFO, params, on_info);
    }
    e2b_wish_clear(&wish);
}
