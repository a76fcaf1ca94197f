#include "doors/cli/sandbox_logs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "doors/cli/log_view.h"
#include "doors/cli/pager.h"
#include "doors/cli/print.h"

static int refuse_others(const abx_args *a, abx_error **err)
{
    static const struct {
        abx_flag_id id;
        const char *name;
    } others[] = {{ABX_FLAG_FOLLOW, "--follow"}};
    for (size_t i = 0; i < ABX_COUNT(others); i++)
        if (abx_has_flag(a, others[i].id))
            return abx_fail(err, ABX_ERR_USAGE, "'--sandbox' does not go with '%s'",
                            others[i].name);
    if (a->word_count > 1)
        return abx_fail(err, ABX_ERR_USAGE, "'--sandbox' does not go with a JOB");
    return 0;
}

static int print_entry(abx_cli *cli, yyjson_val *entry, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    const char *level = abx_json_str(entry, "level", "");
    if (abx_cli_json(cli)) {
        ABX_AUTO_MUT d = abx_mut_new(&root);
        yyjson_val *key, *value;
        size_t i, n;
        abx_mut_str(d, root, "type", "entry");
        yyjson_obj_foreach(entry, i, n, key, value)
            abx_mut_val(d, root, yyjson_get_str(key), value);
        return abx_print_json_mut(cli, root, err);
    }
    ABX_AUTO_FREE char *line = abx_format("%s %s%s%s", abx_json_str(entry, "timestamp", "-"), level,
                                          *level ? " " : "", abx_json_str(entry, "message", ""));
    return abx_print_name(cli, line, err);
}

int abx_logs_of_sandbox(abx_cli *cli, abx_error **err)
{
    const abx_args *a = cli->args;
    const char *since = abx_flag_value(a, ABX_FLAG_SINCE, NULL);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_JSON found = NULL;
    int64_t since_ms = 0;
    if (refuse_others(a, err) < 0 ||
        (since && abx_log_since(since, abx_now_wall_ms(), &since_ms, err) < 0))
        return -1;
    yyjson_mut_doc *params = abx_cli_params(a->words[0], &root);
    if (since) {
        char text[ABX_RFC3339_SIZE];
        abx_format_rfc3339(since_ms, text);
        abx_mut_str(params, root, "since", text);
    }
    if (abx_cli_call(cli, ABX_OP_SANDBOX_LOGS, params, &found, err) < 0 ||
        abx_pager_start(cli, err) < 0)
        return -1;
    yyjson_val *entries = abx_json_get(yyjson_doc_get_root(found), "entries"), *entry;
    size_t i, n, count = yyjson_arr_size(entries);
    uint64_t keep = abx_flag_number(a, ABX_FLAG_TAIL, count);
    yyjson_arr_foreach(entries, i, n, entry)
    {
        if (i + keep >= count && print_entry(cli, entry, err) < 0)
            return -1;
    }
    return 0;
}
