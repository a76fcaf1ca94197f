/* provider engine serve, status, stop, restart, logs: the engine as a server. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/follow_file.h"
#include "doors/cli/print.h"
#include "doors/cli/serving.h"
#include "doors/cli/verbs.h"

#define IDLE_MS         ((uint64_t)900 * 1000)
#define SESSION_IDLE_MS ((uint64_t)600 * 1000)

static int read_wish(abx_cli *cli, abx_serve_wish *wish, abx_error **err)
{
    uint64_t port = abx_flag_number(cli->args, ABX_FLAG_ENGINE_PORT, 0);
    *wish = (abx_serve_wish){
        .port = (int)port,
        .idle_ms = abx_flag_number(cli->args, ABX_FLAG_ENGINE_IDLE, IDLE_MS),
        .session_idle_ms = abx_flag_number(cli->args, ABX_FLAG_SESSION_IDLE, SESSION_IDLE_MS)};
    return port <= 65535 ? 0 : abx_fail(err, ABX_ERR_USAGE, "'--port' is at most 65535");
}

static char *url_of(const abx_served *s)
{
    return abx_format("http://127.0.0.1:%lld",
                      (long long)abx_json_int(yyjson_doc_get_root(s->info), "port", 0));
}

/* What others may know of the engine: all but its token. */
static int print_engine(abx_cli *cli, const abx_served *s, abx_error **err)
{
    yyjson_val *info = yyjson_doc_get_root(s->info), *key, *value;
    ABX_AUTO_FREE char *url = url_of(s);
    if (!abx_cli_json(cli))
        return abx_print_line(cli, url, err);
    size_t i, n;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_bool(d, root, "running", true);
    abx_mut_str(d, root, "url", url);
    yyjson_obj_foreach(info, i, n, key, value)
    {
        if (!yyjson_equals_str(key, "token"))
            abx_mut_val(d, root, yyjson_get_str(key), value);
    }
    return abx_print_json_mut(cli, root, err);
}

int abx_verb_engine_serve(abx_cli *cli, abx_error **err)
{
    abx_served other;
    abx_serve_wish wish;
    bool background = abx_has_flag(cli->args, ABX_FLAG_SERVE_DETACH);
    if (read_wish(cli, &wish, err) < 0 ||
        abx_serving_run(cli, cli->engine, background, &wish, print_engine, &other, err) < 0)
        return -1;
    if (!other.info) /* it has served, and ended */
        return 0;
    if (!background)
        abx_cli_note(cli, "process %d serves already", (int)other.pid);
    int rc = print_engine(cli, &other, err);
    abx_served_clear(&other);
    return rc;
}

int abx_verb_engine_status(abx_cli *cli, abx_error **err)
{
    abx_served s = {0};
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    int rc = abx_serving_look(cli, cli->engine->name, &s, err);
    if (rc == 1) {
        abx_fail(err, ABX_ERR_NOT_SERVED, "no engine runs in the home '%s'", cli->_home);
        return abx_hint(err, "'abx provider engine serve --detach' starts one");
    }
    if (rc < 0)
        return -1;
    yyjson_val *info = yyjson_doc_get_root(s.info);
    if (abx_serving_check_protocol(cli->engine, &s, err) < 0) {
        rc = -1;
    } else if (abx_cli_json(cli) || cli->quiet) {
        rc = print_engine(cli, &s, err);
    } else {
        ABX_AUTO_FREE char *url = url_of(&s);
        ABX_AUTO_FREE char *text = abx_format(
            "%s\n%s, abx %s, process %d, since %s", url, abx_json_str(info, "protocol", ""),
            abx_json_str(info, "version", ""), (int)s.pid, abx_json_str(info, "startedAt", ""));
        rc = abx_print_line(cli, text, err);
    }
    abx_served_clear(&s);
    return rc;
}

int abx_verb_engine_stop(abx_cli *cli, abx_error **err)
{
    int rc = abx_serving_stop(cli, cli->engine->name, err);
    if (rc < 0)
        return -1;
    if (abx_cli_json(cli)) {
        yyjson_mut_val *root;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        abx_mut_bool(d, root, "stopped", rc == 0);
        return abx_print_json_mut(cli, root, err);
    }
    if (rc == 1)
        abx_cli_note(cli, "no engine runs here");
    return 0;
}

int abx_verb_engine_restart(abx_cli *cli, abx_error **err)
{
    return abx_serving_stop(cli, cli->engine->name, err) < 0 ? -1 : abx_verb_engine_serve(cli, err);
}

int abx_verb_engine_logs(abx_cli *cli, abx_error **err)
{
    if (abx_cli_open_loop(cli, err) < 0 || abx_cli_open_config(cli, err) < 0)
        return -1;
    ABX_AUTO_FREE char *path = abx_path_join(cli->_home, "engine.log");
    return abx_follow_file(cli, NULL, path, abx_has_flag(cli->args, ABX_FLAG_FOLLOW), err);
}
