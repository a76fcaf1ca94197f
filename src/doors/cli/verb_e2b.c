/* e2b serve, status, stop, env: the E2B door as a server. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"
#include "doors/cli/serving.h"
#include "doors/cli/verbs.h"
#include "doors/cli/wildcard.h"

#define IDLE_MS ((uint64_t)900 * 1000)

static int read_port(abx_cli *cli, int flag, const char *name, int *port, abx_error **err)
{
    uint64_t n = abx_flag_number(cli->args, flag, 0);
    *port = (int)n;
    return n <= 65535 ? 0 : abx_fail(err, ABX_ERR_USAGE, "'--%s' is at most 65535", name);
}

static int read_wish(abx_cli *cli, abx_serve_wish *wish, abx_error **err)
{
    *wish = (abx_serve_wish){.idle_ms = abx_flag_number(cli->args, ABX_FLAG_E2B_IDLE, IDLE_MS)};
    bool tls = abx_has_flag(cli->args, ABX_FLAG_E2B_TLS);
    if (!tls && (abx_has_flag(cli->args, ABX_FLAG_E2B_DOMAIN) ||
                 abx_has_flag(cli->args, ABX_FLAG_E2B_TLS_PORT)))
        return abx_fail(err, ABX_ERR_USAGE, "'--domain' and '--tls-port' are for '--tls'");
    if (tls)
        wish->tls_domain = abx_flag_value(cli->args, ABX_FLAG_E2B_DOMAIN, cli->e2b->domain);
    return read_port(cli, ABX_FLAG_E2B_PORT, "port", &wish->port, err) < 0
               ? -1
               : read_port(cli, ABX_FLAG_E2B_TLS_PORT, "tls-port", &wish->tls_port, err);
}

/* What others may know of a server: all but its key. */
static int print_served(abx_cli *cli, const abx_served *s, abx_error **err)
{
    yyjson_val *info = yyjson_doc_get_root(s->info), *key, *value;
    if (!abx_cli_json(cli))
        return abx_print_line(cli, abx_json_str(info, "url", ""), err);
    size_t i, n;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_bool(d, root, "running", true);
    yyjson_obj_foreach(info, i, n, key, value)
    {
        if (!yyjson_equals_str(key, "key"))
            abx_mut_val(d, root, yyjson_get_str(key), value);
    }
    return abx_print_json_mut(cli, root, err);
}

static int start(abx_cli *cli, bool background,
                 int (*on_ready)(abx_cli *, const abx_served *, abx_error **), abx_served *out,
                 abx_error **err)
{
    abx_serve_wish wish;
    if (read_wish(cli, &wish, err) < 0)
        return -1;
    return abx_serving_run(cli, cli->e2b, background, &wish, on_ready, out, err);
}

int abx_verb_e2b_serve(abx_cli *cli, abx_error **err)
{
    abx_served other;
    bool background = abx_has_flag(cli->args, ABX_FLAG_SERVE_DETACH);
    if (start(cli, background, print_served, &other, err) < 0)
        return -1;
    if (!other.info) /* it has served, and ended */
        return 0;
    int rc = 0;
    if (background) {
        rc = print_served(cli, &other, err);
    } else {
        const char *url = abx_json_str(yyjson_doc_get_root(other.info), "url", "");
        rc = abx_fail(err, ABX_ERR_CONFLICT, "process %d serves already, at %s", (int)other.pid,
                      url);
        abx_hint(err, "'abx e2b stop' ends it; ABX_HOME gives another one a home of its own");
    }
    abx_served_clear(&other);
    return rc;
}

/* The living server, or NOT_SERVED. */
static int find(abx_cli *cli, abx_served *out, abx_error **err)
{
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    int rc = abx_serving_look(cli, cli->e2b->name, out, err);
    if (rc != 1)
        return rc;
    abx_fail(err, ABX_ERR_NOT_SERVED, "no E2B server runs in the home '%s'", cli->_home);
    return abx_hint(err, "'abx e2b serve --detach' starts one");
}

int abx_verb_e2b_status(abx_cli *cli, abx_error **err)
{
    abx_served s = {0};
    if (find(cli, &s, err) < 0)
        return -1;
    yyjson_val *info = yyjson_doc_get_root(s.info);
    int rc;
    if (abx_cli_json(cli) || cli->quiet) {
        rc = print_served(cli, &s, err);
    } else {
        ABX_AUTO_FREE char *text = abx_format(
            "%s\nprovider %s, process %d, since %s", abx_json_str(info, "url", ""),
            abx_json_str(info, "provider", ""), (int)s.pid, abx_json_str(info, "startedAt", ""));
        rc = abx_print_line(cli, text, err);
    }
    abx_served_clear(&s);
    return rc;
}

int abx_verb_e2b_stop(abx_cli *cli, abx_error **err)
{
    int rc = abx_serving_stop(cli, cli->e2b->name, err);
    if (rc < 0)
        return -1;
    if (abx_cli_json(cli)) {
        yyjson_mut_val *root;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        abx_mut_bool(d, root, "stopped", rc == 0);
        return abx_print_json_mut(cli, root, err);
    }
    if (rc == 1)
        abx_cli_note(cli, "no E2B server runs here");
    return 0;
}

/* Names of sandboxes need a resolver that knows them; without one all goes over the plain URL. */
static bool by_names(abx_cli *cli, yyjson_val *info)
{
    const char *address = abx_json_str(info, "domain", NULL);
    if (!address)
        return false;
    ABX_AUTO_FREE char *domain = abx_strndup(address, strcspn(address, ":"));
    if (abx_wildcard_leads_here(domain))
        return true;
    ABX_AUTO_FREE char *fix = abx_wildcard_fix(domain);
    abx_cli_note(
        cli,
        "names below '%s' do not lead to this machine: E2B_API_URL and E2B_SANDBOX_URL are set "
        "instead, and getHost() gives names that nobody finds. What helps: %s",
        domain, fix);
    return false;
}

/* A home may have any name: what is not plain stands in single quotes. */
static int add_export(abx_buf *text, const char *name, const char *value)
{
    int rc = abx_buf_addf(text, "export %s=", name);
    if (!value[strcspn(value, " \t\n'\"$`\\*?[]{}()<>|&;!#~")])
        return rc | abx_buf_addf(text, "%s\n", value);
    rc |= abx_buf_add_byte(text, '\'');
    for (; *value; value++)
        rc |= *value == '\'' ? abx_buf_add_str(text, "'\\''")
                             : abx_buf_add_byte(text, (uint8_t)*value);
    return rc | abx_buf_add_str(text, "'\n");
}

static int print_variables(abx_cli *cli, const abx_served *s, abx_error **err)
{
    yyjson_mut_val *root, *key, *value;
    size_t i, n;
    yyjson_val *info = yyjson_doc_get_root(s->info);
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (cli->e2b->variables(cli->_home, info, by_names(cli, info), d, root, err) < 0)
        return -1;
    if (abx_cli_json(cli))
        return abx_print_json_mut(cli, root, err);
    ABX_AUTO_BUF text = ABX_BUF(64 * 1024);
    yyjson_mut_obj_foreach(root, i, n, key, value)
    {
        const char *name = yyjson_mut_get_str(key), *shown = yyjson_mut_get_str(value);
        if (name && shown && add_export(&text, name, shown) < 0)
            return abx_fail(err, ABX_ERR_TOO_LARGE, "the variables are too long");
    }
    return abx_print_buf(cli, &text, err);
}

int abx_verb_e2b_env(abx_cli *cli, abx_error **err)
{
    abx_served s = {0};
    if (abx_has_flag(cli->args, ABX_FLAG_E2B_START)) {
        if (start(cli, true, NULL, &s, err) < 0)
            return -1;
        if (!s.info) /* the server's own process, at its end */
            return 0;
    } else if (find(cli, &s, err) < 0) {
        return -1;
    }
    int rc = print_variables(cli, &s, err);
    abx_served_clear(&s);
    return rc;
}
