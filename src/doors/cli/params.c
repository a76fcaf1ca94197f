#include "doors/cli/params.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/terminal.h"

#define ENV_FILE_MAX ((size_t)1024 * 1024)

/* The object under this key, made when it is not there yet. */
static yyjson_mut_val *object_of(yyjson_mut_doc *d, yyjson_mut_val *params, const char *key)
{
    yyjson_mut_val *o = yyjson_mut_obj_get(params, key);
    return o ? o : abx_mut_obj(d, params, key);
}

/* Set a member, replacing an earlier one. */
static void put(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, size_t key_len,
                const char *value)
{
    yyjson_mut_obj_put(o, yyjson_mut_strncpy(d, key, key_len), yyjson_mut_strcpy(d, value));
}

/* "K=V", or "K": ours, if we have it. */
static void put_variable(yyjson_mut_doc *d, yyjson_mut_val *params, const char *pair)
{
    const char *equals = strchr(pair, '=');
    size_t n = equals ? (size_t)(equals - pair) : strlen(pair);
    ABX_AUTO_FREE char *key = abx_strndup(pair, n);
    const char *value = equals ? equals + 1 : getenv(key);
    if (value)
        put(d, object_of(d, params, "env"), key, n, value);
}

static int read_env_file(yyjson_mut_doc *d, yyjson_mut_val *params, const char *path,
                         abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(ENV_FILE_MAX);
    int rc = abx_read_file(path, ENV_FILE_MAX, &text, err);
    if (rc == 1) {
        abx_fail(err, ABX_ERR_USAGE, "no such file '%s'", path);
        return abx_hint(err, "--env-file reads one KEY=VALUE a line");
    }
    if (rc < 0)
        return -1;
    if (text.data && strlen((char *)text.data) != text.len)
        return abx_fail(err, ABX_ERR_USAGE, "'%s' is no text: it holds a zero byte", path);
    char *save = NULL;
    int number = 0;
    for (char *line = text.data ? (char *)text.data : NULL; line; line = save) {
        save = strchr(line, '\n');
        if (save)
            *save++ = 0;
        number++;
        size_t n = strlen(line);
        if (n > 0 && line[n - 1] == '\r')
            line[n - 1] = 0;
        line += strspn(line, " \t");
        if (!line[0] || line[0] == '#')
            continue;
        if (line[0] == '=')
            return abx_fail(err, ABX_ERR_USAGE, "'%s' line %d: no name before '='", path, number);
        put_variable(d, params, line);
    }
    return 0;
}

int abx_params_env(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, abx_error **err)
{
    const abx_args *a = cli->args;
    for (size_t i = 0; i < a->item_count; i++)
        if (a->items[i].flag == ABX_FLAG_ENV_FILE &&
            read_env_file(d, params, a->items[i].value, err) < 0)
            return -1;
    for (size_t i = 0; i < a->item_count; i++)
        if (a->items[i].flag == ABX_FLAG_ENV)
            put_variable(d, params, a->items[i].value);
    return 0;
}

void abx_params_labels(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params)
{
    const abx_args *a = cli->args;
    for (size_t i = 0; i < a->item_count; i++) {
        const char *equals = strchr(a->items[i].value, '=');
        if (a->items[i].flag == ABX_FLAG_LABEL && equals)
            put(d, object_of(d, params, "metadata"), a->items[i].value,
                (size_t)(equals - a->items[i].value), equals + 1);
    }
}

/* A duration for JSON: no limit is 0. */
static int64_t duration(uint64_t ms)
{
    return ms == ABX_FOREVER ? 0 : (int64_t)ms;
}

/* --timeout, else the setting; absent: the provider's own. --idle and --on-timeout. */
static int add_life(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, abx_error **err)
{
    uint64_t ms;
    if (abx_has_flag(cli->args, ABX_FLAG_IDLE))
        abx_mut_int(d, params, "idleMs", duration(abx_flag_number(cli->args, ABX_FLAG_IDLE, 0)));
    abx_mut_str(d, params, "onTimeout", abx_flag_value(cli->args, ABX_FLAG_ON_TIMEOUT, NULL));
    if (abx_has_flag(cli->args, ABX_FLAG_TIMEOUT)) {
        abx_mut_int(d, params, "timeoutMs",
                    duration(abx_flag_number(cli->args, ABX_FLAG_TIMEOUT, 0)));
        return 0;
    }
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    const char *set = abx_config_get(cli->_config, "timeout", NULL, NULL);
    if (set && abx_parse_duration(set, &ms) == 0)
        abx_mut_int(d, params, "timeoutMs", duration(ms));
    return 0;
}

typedef struct size_row {
    abx_flag_id flag;
    const char *setting, *param;
} size_row;

static const size_row sizes[] = {
    {ABX_FLAG_MEMORY, "memory", "memoryBytes"},
    {ABX_FLAG_CPUS, "cpus", "cpus"},
    {ABX_FLAG_DISK, "disk", "diskBytes"},
    {ABX_FLAG_PROCESSES, "processes", "processes"},
    {ABX_FLAG_OPEN_FILES, "open_files", "openFiles"},
};

/* A setting was checked when it was read. */
static uint64_t setting_number(abx_flag_type type, const char *text)
{
    uint64_t n = 0;
    int rc = type == ABX_FLAG_TYPE_SIZE     ? abx_parse_size(text, &n)
             : type == ABX_FLAG_TYPE_NUMBER ? abx_parse_millis(text, INT32_MAX, &n)
                                            : abx_parse_uint(text, INT64_MAX, &n);
    return rc == 0 ? n : 0;
}

/* Flags, else settings; absent: the provider's own. The configuration is open. */
static void add_sizes(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params)
{
    for (size_t i = 0; i < ABX_COUNT(sizes); i++) {
        const size_row *row = &sizes[i];
        const abx_flag *flag = abx_flag_row(row->flag);
        const char *set = abx_config_get(cli->_config, row->setting, NULL, NULL);
        bool given = abx_has_flag(cli->args, row->flag);
        if (!given && !set)
            continue;
        uint64_t n =
            given ? abx_flag_number(cli->args, row->flag, 0) : setting_number(flag->type, set);
        if (flag->type != ABX_FLAG_TYPE_NUMBER)
            abx_mut_int(d, params, row->param, (int64_t)n);
        else
            (void)yyjson_mut_obj_add_real(d, params, row->param, (double)n / 1000.0);
    }
}

/* --template, --image: at most one. A path is taken from our working directory. */
static int add_source(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, abx_error **err)
{
    static const abx_flag_id flags[] = {ABX_FLAG_TEMPLATE, ABX_FLAG_IMAGE, ABX_FLAG_SNAPSHOT};
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNT(flags); i++)
        n += abx_has_flag(cli->args, flags[i]);
    if (n > 1)
        return abx_fail(err, ABX_ERR_USAGE,
                        "only one of '--template', '--image' and '--snapshot' can be given");
    abx_mut_str(d, params, "template", abx_flag_value(cli->args, ABX_FLAG_TEMPLATE, NULL));
    abx_mut_str(d, params, "snapshot", abx_flag_value(cli->args, ABX_FLAG_SNAPSHOT, NULL));
    const char *image = abx_flag_value(cli->args, ABX_FLAG_IMAGE, NULL);
    ABX_AUTO_FREE char *path = image ? abx_params_path(image) : NULL;
    abx_mut_str(d, params, "image", path);
    return 0;
}

char *abx_params_path(const char *path)
{
    ABX_AUTO_FREE char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    return here ? abx_path_join(here, path) : abx_strdup(path);
}

/* One more word of a network. text: so far; hosts: it holds names of hosts. */
static int join_network(abx_buf *text, const char *word, bool *hosts, abx_error **err)
{
    bool is_host = abx_has_prefix(word, "allow:");
    if (text->len > 0 && *hosts != is_host) {
        abx_fail(err, ABX_ERR_USAGE, "'--network allow:HOST' goes with others of its kind only");
        return abx_hint(err, "leave the hosts out, or none and internet");
    }
    *hosts = is_host;
    if (!is_host)
        abx_buf_reset(text);
    if (abx_buf_addf(text, "%s%s", text->len > 0 ? "," : "", word) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "too many hosts");
    return 0;
}

int abx_params_network(yyjson_mut_doc *d, yyjson_mut_val *params, const char *const *words,
                       size_t count, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(1u << 20);
    bool hosts = false;
    for (size_t i = 0; i < count; i++)
        if (join_network(&text, words[i], &hosts, err) < 0)
            return -1;
    if (count > 0) /* an empty word, too: it is told what it is not */
        abx_mut_str(d, params, "network", abx_buf_cstr(&text));
    return 0;
}

/* --network: the last word wins; those that name a host are one list. */
static int add_network(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, abx_error **err)
{
    const abx_args *a = cli->args;
    ABX_AUTO_FREE const char **words = abx_alloc_array(a->item_count + 1, sizeof *words);
    size_t n = 0;
    for (size_t i = 0; i < a->item_count; i++)
        if (a->items[i].flag == ABX_FLAG_NETWORK)
            words[n++] = a->items[i].value;
    return abx_params_network(d, params, words, n, err);
}

yyjson_mut_doc *abx_params_create(abx_cli *cli, bool tied, bool with_env, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "name", abx_flag_value(cli->args, ABX_FLAG_NAME, NULL));
    if (tied)
        abx_mut_bool(d, root, "tied", true);
    abx_mut_str(d, root, "idempotencyKey",
                abx_flag_value(cli->args, ABX_FLAG_IDEMPOTENCY_KEY, NULL));
    if (abx_has_flag(cli->args, ABX_FLAG_REUSE))
        abx_mut_bool(d, root, "reuse", true);
    if (tied && abx_has_flag(cli->args, ABX_FLAG_IDEMPOTENCY_KEY)) {
        abx_fail(err, ABX_ERR_USAGE, "'--idempotency-key' needs a sandbox that stays");
        abx_hint(err, "add --keep, --name or -d");
        return NULL;
    }
    if (abx_has_flag(cli->args, ABX_FLAG_REUSE) && !abx_has_flag(cli->args, ABX_FLAG_NAME)) {
        abx_fail(err, ABX_ERR_USAGE, "'--reuse' needs a name");
        abx_hint(err, "add --name NAME");
        return NULL;
    }
    if (add_source(cli, d, root, err) < 0)
        return NULL;
    abx_params_labels(cli, d, root);
    yyjson_mut_val *weaker = NULL;
    for (size_t i = 0; i < cli->args->item_count; i++) {
        if (cli->args->items[i].flag != ABX_FLAG_ALLOW_WEAKER)
            continue;
        if (!weaker)
            weaker = abx_mut_arr(d, root, "allowWeaker");
        yyjson_mut_arr_add_strcpy(d, weaker, cli->args->items[i].value);
    }
    if (add_life(cli, d, root, err) < 0 || abx_cli_open_config(cli, err) < 0 ||
        add_network(cli, d, root, err) < 0)
        return NULL;
    if (!abx_has_flag(cli->args, ABX_FLAG_NETWORK))
        abx_mut_str(d, root, "network", abx_config_get(cli->_config, "network", NULL, NULL));
    add_sizes(cli, d, root);
    if (with_env && abx_params_env(cli, d, root, err) < 0)
        return NULL;
    return ABX_TAKE(d);
}

void abx_note_watched(abx_cli *cli, yyjson_val *sandbox)
{
    ABX_AUTO_BUF names = ABX_BUF(256);
    yyjson_val *watched = abx_json_get(abx_json_get(sandbox, "limits"), "watched"), *name;
    size_t i, n;
    yyjson_arr_foreach(watched, i, n, name)
    {
        if (yyjson_is_str(name) &&
            abx_buf_addf(&names, "%s%s", names.len ? ", " : "", yyjson_get_str(name)) < 0)
            return;
    }
    if (names.len > 0)
        abx_cli_note(
            cli,
            "note: watched, not enforced by the kernel: the limit of %s; 'abx doctor' tells more",
            abx_buf_cstr(&names));
}

yyjson_mut_doc *abx_params_fork(abx_cli *cli, const char *sandbox, yyjson_mut_val **root,
                                abx_error **err)
{
    ABX_AUTO_MUT d = abx_cli_params(sandbox, root);
    abx_mut_str(d, *root, "name", abx_flag_value(cli->args, ABX_FLAG_NAME, NULL));
    abx_params_labels(cli, d, *root);
    if (add_network(cli, d, *root, err) < 0)
        return NULL;
    return add_life(cli, d, *root, err) < 0 ? NULL : ABX_TAKE(d);
}

int abx_params_process(abx_cli *cli, yyjson_mut_doc *d, yyjson_mut_val *params, bool with_env,
                       abx_error **err)
{
    const abx_args *a = cli->args;
    if (a->command_count > 0) {
        yyjson_mut_val *cmd = abx_mut_arr(d, params, "cmd");
        for (size_t i = 0; i < a->command_count; i++)
            yyjson_mut_arr_add_strcpy(d, cmd, a->command[i]);
    } else if (cli->command) {
        abx_mut_val(d, params, "cmd", cli->command);
    }
    abx_mut_str(d, params, "cwd", abx_flag_value(a, ABX_FLAG_WORKDIR, NULL));
    abx_mut_str(d, params, "user", abx_flag_value(a, ABX_FLAG_USER, NULL));
    if (with_env && abx_params_env(cli, d, params, err) < 0)
        return -1;
    abx_flag_id limit = a->verb->id == ABX_VERB_RUN ? ABX_FLAG_COMMAND_TIMEOUT : ABX_FLAG_TIMEOUT;
    if (a->verb->id != ABX_VERB_SHELL && abx_has_flag(a, limit))
        abx_mut_int(d, params, "timeoutMs", duration(abx_flag_number(a, limit, 0)));
    return 0;
}

void abx_params_terminal(yyjson_mut_doc *d, yyjson_mut_val *params)
{
    int cols, rows;
    if (abx_terminal_size(STDOUT_FILENO, &cols, &rows) == 0) {
        abx_mut_int(d, params, "cols", cols);
        abx_mut_int(d, params, "rows", rows);
    }
    const char *term = getenv("TERM");
    abx_mut_str(d, params, "term", term && term[0] ? term : NULL);
    const char *color = getenv("COLORTERM");
    if (abx_str_eq(color, "truecolor") || abx_str_eq(color, "24bit"))
        put(d, object_of(d, params, "env"), "COLORTERM", 9, color);
}
