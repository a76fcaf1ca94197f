/* port: who listens in a sandbox, and reaching it from this machine. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/forward.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"

static int parse_port(const char *text, int *out, abx_error **err)
{
    uint64_t port = 0;
    if (abx_parse_uint(text, 65535, &port) < 0 || port == 0)
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is no port: 1 to 65535", text);
    *out = (int)port;
    return 0;
}

/* {"ports":[…]}, only those of `port` unless it is 0. Owned; NULL and *err. */
static yyjson_doc *ask(abx_cli *cli, const char *sandbox, int port, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    if (abx_cli_call(cli, ABX_OP_SANDBOX_PORTS, abx_cli_params(sandbox, &root), &found, err) < 0)
        return NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "ports");
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(abx_json_get(yyjson_doc_get_root(found), "ports"), i, n, item)
    {
        if (port == 0 || abx_json_int(item, "port", 0) == port)
            yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, item));
    }
    return abx_json_freeze(d);
}

/* --- the list ------------------------------------------------------------------------------------------ */
static int print_table(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    static const char *const headers[] = {"PORT", "ADDRESS", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *item;
    yyjson_arr_foreach(array, i, n, item)
    {
        ABX_AUTO_FREE char *port = abx_format("%d", (int)abx_json_int(item, "port", 0));
        const char *cells[] = {port, abx_json_str(item, "address", NULL)};
        abx_table_add(&t, cells);
    }
    return abx_print_table(cli, &t, err);
}

static int print_names(abx_cli *cli, yyjson_val *array, abx_error **err)
{
    size_t i, n;
    yyjson_val *item;
    int64_t last = 0;
    yyjson_arr_foreach(array, i, n, item)
    {
        int64_t port = abx_json_int(item, "port", 0);
        ABX_AUTO_FREE char *text = abx_format("%d", (int)port);
        if (port != last && abx_print_line(cli, text, err) < 0)
            return -1;
        last = port;
    }
    return 0;
}

static int list(abx_cli *cli, const char *sandbox, int port, abx_error **err)
{
    ABX_AUTO_JSON doc = ask(cli, sandbox, port, err);
    if (!doc)
        return -1;
    yyjson_val *array = abx_json_get(yyjson_doc_get_root(doc), "ports");
    if (port != 0 && yyjson_arr_size(array) == 0)
        return abx_fail(err, ABX_ERR_PORT_NOT_FOUND, "nothing listens on port %d in sandbox '%s'",
                        port, sandbox);
    if (cli->format == ABX_OUT_NAME || (cli->quiet && !abx_cli_json(cli)))
        return print_names(cli, array, err);
    int rc = abx_print_list(cli, "ports", array, "port", err);
    return rc != 0 ? (rc < 0 ? -1 : 0) : print_table(cli, array, err);
}

/* --- the address ------------------------------------------------------------------------------------------ */
/* Where the provider has addresses for ports it is that. 1: printed; 0: it has none; -1 and *err. */
static int address(abx_cli *cli, const char *sandbox, int port, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    ABX_AUTO_ERROR why = NULL;
    yyjson_mut_doc *params = abx_cli_params(sandbox, &root);
    abx_mut_int(params, root, "port", port);
    if (abx_cli_call(cli, ABX_OP_SANDBOX_HOST, params, &found, &why) < 0) {
        if (why->id == ABX_ERR_FEATURE_MISSING)
            return 0;
        return abx_error_take(err, ABX_TAKE(why));
    }
    yyjson_val *host = yyjson_doc_get_root(found), *headers = abx_json_get(host, "headers"), *name;
    if (abx_cli_json(cli))
        return abx_print_json(cli, host, err) < 0 ? -1 : 1;
    size_t i, n;
    yyjson_val *value;
    yyjson_obj_foreach(headers, i, n, name, value) abx_cli_note(
        cli, "note: each request needs the header '%s'; --json shows it", yyjson_get_str(name));
    return abx_print_line(cli, abx_json_str(host, "url", ""), err) < 0 ? -1 : 1;
}

/* --- forwarding ---------------------------------------------------------------------------------------- */
static int tell(abx_cli *cli, const char *address, void *data, abx_error **err)
{
    const abx_forward_spec *spec = data;
    if (!abx_cli_json(cli))
        return abx_print_line(cli, address, err);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandbox", spec->sandbox);
    abx_mut_int(d, root, "port", spec->port);
    abx_mut_str(d, root, "address", address);
    return abx_print_json_mut(cli, root, err);
}

static int forward(abx_cli *cli, abx_forward_spec *spec, const char *local, abx_error **err)
{
    if (abx_forward_parse(local, &spec->local, err) < 0)
        return -1;
    /* also tells a sandbox that is not there, or paused, before anybody connects */
    ABX_AUTO_JSON doc = ask(cli, spec->sandbox, spec->port, err);
    if (!doc)
        return -1;
    if (yyjson_arr_size(abx_json_get(yyjson_doc_get_root(doc), "ports")) == 0)
        abx_cli_note(cli, "abx: nothing listens on port %d yet", spec->port);
    return abx_forward_run(cli, spec, tell, spec, err);
}

int abx_verb_port(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *word = a->word_count > 1 ? a->words[1] : NULL;
    const char *local = a->word_count > 2 ? a->words[2] : abx_flag_value(a, ABX_FLAG_FORWARD, NULL);
    abx_forward_spec spec = {.sandbox = a->words[0]};
    if (!abx_has_flag(a, ABX_FLAG_FORWARD)) {
        if (a->word_count > 2 || (word && strchr(word, ':'))) {
            abx_fail(err, ABX_ERR_USAGE, "a port on this machine needs --forward");
            return abx_hint(err, "usage: abx %s", a->verb->usage);
        }
        if (word && parse_port(word, &spec.port, err) < 0)
            return -1;
        int rc = spec.port ? address(cli, spec.sandbox, spec.port, err) : 0;
        return rc != 0 ? (rc < 0 ? -1 : 0) : list(cli, spec.sandbox, spec.port, err);
    }
    if (!word) { /* --forward=LOCAL:PORT */
        word = local;
        local = NULL;
    }
    const char *colon = word ? strrchr(word, ':') : NULL;
    if (!word || (colon && local)) {
        abx_fail(err, ABX_ERR_USAGE,
                 word ? "LOCAL is given twice" : "--forward needs the port in the sandbox");
        return abx_hint(err, "usage: abx %s", a->verb->usage);
    }
    ABX_AUTO_FREE char *first = colon ? abx_strndup(word, (size_t)(colon - word)) : NULL;
    if (parse_port(colon ? colon + 1 : word, &spec.port, err) < 0)
        return -1;
    return forward(cli, &spec, first ? first : local, err);
}
