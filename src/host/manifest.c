/* The manifest: the file, its top level, [runtime], [connection] and [limits]. */
#include "host/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/manifest_inner.h"

#define NAME_MAX_BYTES     80
#define TEXT_MAX_BYTES     500
#define COMMAND_MAX        64
#define COMMAND_BYTES      4096
#define ENV_MAX            64
#define CALL_TIMEOUT_MAX   86400000 /* ms: a day */
#define FEATURES_MAX_COUNT 200

/* --- top level ---------------------------------------------------------------------------------------- */

static void take_schema(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)to;
    if (node->whole == ABX_MANIFEST_SCHEMA)
        return;
    abx__mf_wrong(r, node, key, NULL, "1",
                  node->whole > ABX_MANIFEST_SCHEMA
                      ? "this plugin was made for a newer abx: update abx, or take an older plugin"
                      : NULL);
}

static bool is_id(abx_mf_reader *r, const abx_toml_node *node, const char *key, const char *id)
{
    static const char expected[] =
        "an id: lower-case letters, digits and '-', at most 63, a letter or digit first";
    if (!abx_is_name(id)) {
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
        return false;
    }
    if (abx_is_reserved_id(id)) {
        ABX_AUTO_FREE char *text =
            abx_format("'%s' is \"%s\", which is the id of a provider inside abx", key, id);
        abx__mf_problem(r, node, key, false, text, "choose another id");
        return false;
    }
    return true;
}

static void take_id(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    abx_manifest *m = to;
    ABX_AUTO_FREE char *id = abx__mf_text(r, node, key, 255);
    if (id && is_id(r, node, key, id))
        m->id = ABX_TAKE(id);
}

static void take_name(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ((abx_manifest *)to)->name = abx__mf_text(r, node, key, NAME_MAX_BYTES);
}

static void take_description(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ((abx_manifest *)to)->description = abx__mf_text(r, node, key, TEXT_MAX_BYTES);
}

static void take_version(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, 128);
    if (text && !abx_is_version(text))
        abx__mf_wrong(r, node, key, NULL, "a version such as 1.2.3 or 1.2.3-beta.1", NULL);
    else if (text)
        ((abx_manifest *)to)->version = ABX_TAKE(text);
}

/* --- [runtime] ---------------------------------------------------------------------------------------- */

/* What was found in [runtime] before it is known which kind it is. */
typedef struct runtime {
    abx_manifest *m;
    bool has_kind;
    const abx_toml_node *kind, *protocol, *entry, *labels, *command, *env;
} runtime;

static void kind_problem(abx_mf_reader *r, const abx_toml_node *node, const char *key)
{
    const char *hint = NULL;
    if (strcmp(node->text, "python") == 0)
        hint = "a provider in Python is a program of its own: kind = \"exec\", protocol = "
               "\"epp/1\", command = [\"python3\", \"provider.py\"]";
    else if (strcmp(node->text, "builtin") == 0)
        hint = "a builtin provider is compiled into abx; a plugin is rest, exec or node";
    ABX_AUTO_FREE char *found = abx__mf_shown(node);
    ABX_AUTO_FREE char *text = abx_format(
        strcmp(node->text, "python") == 0
            ? "'%s' must be one of rest, exec, node, found %s: abx is no Python program and cannot "
              "load a class"
            : "'%s' must be one of rest, exec, node, found %s",
        key, found);
    abx_problem p = {.id = ABX_ERR_PROVIDER_KIND,
                     .file = r->file,
                     .line = node->line,
                     .column = node->column,
                     .key = key,
                     .found = found,
                     .expected = "one of rest, exec, node",
                     .text = text,
                     .hint = hint};
    abx_problems_add(r->problems, &p);
}

static void take_kind(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    run->kind = node;
    for (int i = 0; i < ABX_KIND_COUNT; i++)
        if (strcmp(abx_kind_name((abx_provider_kind)i), node->text) == 0) {
            run->m->kind = (abx_provider_kind)i;
            run->has_kind = true;
        }
    if (!run->has_kind)
        kind_problem(r, node, key);
}

static void take_protocol(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)r;
    (void)key;
    ((runtime *)to)->protocol = node;
}

static void take_entry(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    run->entry = node;
    ABX_AUTO_FREE char *path = abx__mf_text(r, node, key, COMMAND_BYTES);
    if (!path)
        return;
    ABX_AUTO_FREE char *slashed = abx_format("/%s/", path);
    if (path[0] == '/' || strstr(slashed, "/../") || abx_has_suffix(path, "/"))
        abx__mf_wrong(r, node, key, NULL, "the path of a file in the plugin's folder", NULL);
    else
        run->m->entry = ABX_TAKE(path);
}

static void take_labels(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    (void)r;
    (void)key;
    run->labels = node;
    run->m->no_labels = node->whole == 0;
}

static void take_command(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    run->command = node;
    if (node->count == 0) {
        abx__mf_wrong(r, node, key, "an empty list",
                      "a list of texts: the program and its arguments", NULL);
        return;
    }
    run->m->command = abx__mf_texts(r, node, key, COMMAND_MAX, COMMAND_BYTES, "text", NULL,
                                    &run->m->command_count);
}

static void take_env(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    run->env = node;
    run->m->env = abx__mf_texts(r, node, key, ENV_MAX, 255, abx__mf_variable_expected,
                                abx__mf_is_variable, &run->m->env_count);
}

static bool set_feature(abx_manifest *m, const char *name)
{
    for (int i = 0; i < ABX_FEATURE_COUNT; i++)
        if (strcmp(abx_feature_name((abx_feature)i), name) == 0) {
            m->features[i] = true;
            return true;
        }
    const abx_op_row *op = abx_op_find(name);
    if (op)
        m->ops[op->id] = true;
    return op != NULL;
}

static void take_features(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime *run = to;
    size_t n = 0;
    char **names =
        abx__mf_texts(r, node, key, FEATURES_MAX_COUNT, 100, "the name of a feature", NULL, &n);
    for (size_t i = 0; i < n; i++) {
        if (set_feature(run->m, names[i]))
            continue;
        ABX_AUTO_FREE char *name = abx_format("%s[%zu]", key, i);
        ABX_AUTO_FREE char *text = abx_format(
            "'%s' is \"%s\", which this version does not know: it is ignored", name, names[i]);
        abx__mf_problem(r, &node->children[i], name, true, text,
                        "docs/operations.md lists the features");
    }
    abx__mf_free_texts(names);
}

static const abx_mf_key runtime_keys[] = {
#define ABX_MF_RUNTIME ABX_MF_ROW
#include "host/manifest.def"
};

static void only_for(abx_mf_reader *r, const abx_toml_node *node, const char *key,
                     const char *kinds)
{
    ABX_AUTO_FREE char *text = abx_format("'%s' is only for kind = \"%s\"", key, kinds);
    if (node)
        abx__mf_problem(r, node, key, false, text, NULL);
}

/* What a kind asks of the other keys. */
static void check_kind(abx_mf_reader *r, const abx_toml_node *table, const runtime *run)
{
    abx_manifest *m = run->m;
    const char *protocol = abx_kind_protocol(m->kind);
    if (run->protocol && strcmp(run->protocol->text, protocol) != 0) {
        ABX_AUTO_FREE char *expected =
            abx_format("\"%s\" for kind = \"%s\"", protocol, abx_kind_name(m->kind));
        abx__mf_wrong(r, run->protocol, "runtime.protocol", NULL, expected, NULL);
    }
    m->protocol = abx_strdup(protocol);
    const abx_toml_node *program = run->command && run->command->count ? run->command->children
                                   : run->entry                        ? run->entry
                                                                       : table;
    m->program_line = program->line;
    m->program_column = program->column;
    if (m->kind == ABX_KIND_NODE && !m->entry)
        m->entry = abx_strdup("provider.mjs");
    if (m->kind == ABX_KIND_EXEC && !abx_toml_get(table, "command"))
        abx__mf_missing(r, table, "runtime.command",
                        "a list of texts: the program and its arguments");
    if (m->kind != ABX_KIND_NODE)
        only_for(r, run->entry, "runtime.entry", "node");
    if (m->kind == ABX_KIND_REST)
        only_for(r, run->labels, "runtime.labels", "exec\" or \"node");
    if (m->kind != ABX_KIND_EXEC) {
        only_for(r, run->command, "runtime.command", "exec");
        only_for(r, run->env, "runtime.env", "exec");
    }
}

static void take_runtime(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    runtime run = {.m = to};
    abx__mf_table(r, node, key, runtime_keys, ABX_COUNT(runtime_keys), &run);
    if (run.has_kind)
        check_kind(r, node, &run);
}

/* --- [connection], [limits] ------------------------------------------------------------------------------ */

static void take_inherit(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char expected[] = "one of apiKey, apiUrl, domain, accessKeyId, accessKeySecret";
    for (size_t i = 0; i < node->count; i++) {
        const abx_toml_node *item = &node->children[i];
        ABX_AUTO_FREE char *name = abx_format("%s[%zu]", key, i);
        abx_core_key core;
        if (item->type == ABX_TOML_STRING && abx_core_key_find(item->text, &core))
            ((abx_manifest *)to)->inherit[core] = true;
        else
            abx__mf_wrong(r, item, name, NULL, expected, NULL);
    }
}

static const abx_mf_key connection_keys[] = {
#define ABX_MF_CONNECTION ABX_MF_ROW
#include "host/manifest.def"
};

static void take_connection(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    abx__mf_table(r, node, key, connection_keys, ABX_COUNT(connection_keys), to);
}

static void take_call_timeout(abx_mf_reader *r, const abx_toml_node *node, const char *key,
                              void *to)
{
    if (node->whole < 1 || node->whole > CALL_TIMEOUT_MAX)
        abx__mf_wrong(r, node, key, NULL, "milliseconds: 1 to 86400000 (a day)", NULL);
    else
        ((abx_manifest *)to)->call_timeout_ms = (uint64_t)node->whole;
}

static const abx_mf_key limits_keys[] = {
#define ABX_MF_LIMITS ABX_MF_ROW
#include "host/manifest.def"
};

static void take_limits(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    abx__mf_table(r, node, key, limits_keys, ABX_COUNT(limits_keys), to);
}

/* --- the file ------------------------------------------------------------------------------------------- */

#define take_options abx__mf_options
#define take_rest    abx__mf_rest

static const abx_mf_key top_keys[] = {
#define ABX_MF_TOP ABX_MF_ROW
#include "host/manifest.def"
};

/* A schema that this version does not know: all other keys may mean something else. */
static bool is_newer(const abx_toml_node *root)
{
    const abx_toml_node *schema = abx_toml_get(root, "schema");
    return schema && schema->type == ABX_TOML_INT && schema->whole > ABX_MANIFEST_SCHEMA;
}

static void read_root(abx_mf_reader *r, const abx_toml_node *root)
{
    if (is_newer(root)) {
        take_schema(r, abx_toml_get(root, "schema"), "schema", NULL);
        return;
    }
    abx__mf_table(r, root, "", top_keys, ABX_COUNT(top_keys), r->manifest);
    const abx_toml_node *rest = abx_toml_get(root, "rest");
    if (rest && r->manifest->protocol && r->manifest->kind != ABX_KIND_REST)
        only_for(r, rest, "rest", "rest");
    else if (rest && rest->type == ABX_TOML_TABLE)
        abx__mf_rest_options(r, rest);
    if (!rest && r->manifest->protocol && r->manifest->kind == ABX_KIND_REST)
        r->manifest->rest = yyjson_read("{}", 2, 0);
}

/* "Error while parsing table header: cannot …" → "table header: cannot …" */
static void add_syntax(abx_mf_reader *r, const abx_toml_error *e)
{
    static const char noise[] = "Error while parsing ";
    ABX_AUTO_FREE char *shown =
        abx_printable(abx_has_prefix(e->text, noise) ? e->text + sizeof noise - 1 : e->text);
    if (shown[0] >= 'A' && shown[0] <= 'Z')
        shown[0] = (char)(shown[0] - 'A' + 'a');
    abx_problem p = {.id = ABX_ERR_PROVIDER_MANIFEST,
                     .file = r->file,
                     .line = e->line,
                     .column = e->column,
                     .text = shown,
                     .hint = "correct that line; the file is TOML (key = \"value\", [table])"};
    abx_problems_add(r->problems, &p);
}

abx_manifest *abx_manifest_parse(const char *file, const char *text, size_t n,
                                 abx_problems *problems)
{
    size_t before = problems->errors;
    ABX_AUTO(abx_manifest, abx_manifest_free) m = ABX_NEW(abx_manifest);
    m->features[ABX_FEATURE_SANDBOX] = true;
    abx_mf_reader r = {file, problems, m};
    abx_toml_node *root = NULL;
    abx_toml_error e;
    if (n > ABX_MANIFEST_MAX) {
        e = (abx_toml_error){1, 1, "the file is over 64 KiB"};
        add_syntax(&r, &e);
    } else if (abx_toml_parse(text, n, &root, &e) < 0) {
        add_syntax(&r, &e);
    } else {
        read_root(&r, root);
    }
    abx_toml_free(root);
    return problems->errors == before ? ABX_TAKE(m) : NULL;
}

void abx_manifest_free(abx_manifest *m)
{
    if (!m)
        return;
    free(m->id);
    free(m->name);
    free(m->version);
    free(m->description);
    free(m->protocol);
    free(m->entry);
    abx__mf_free_texts(m->command);
    abx__mf_free_texts(m->env);
    for (size_t i = 0; i < m->option_count; i++)
        abx__mf_option_clear(&m->options[i]);
    free(m->options);
    yyjson_doc_free(m->rest);
    free(m);
}
