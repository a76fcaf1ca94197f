#include "doors/cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/errors.h"
#include "doors/cli/guard.h"
#include "doors/cli/progress.h"
#include "host/plugin.h"

extern char **environ;

#define FILES_MIN                                                                                  \
    32 /* descriptors that a command may need, beside those that it was started with */
#define CLOSE_MS 5000 /* for a child that was let go of to end */
#define GRACE_MS 100  /* beyond the deadline, for the calls to tell it themselves */

static const int signal_numbers[ABX_CLI_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

static void write_log(abx_log_level level, const char *text, void *data)
{
    (void)data;
    fprintf(stderr, "abx: %s: %s\n", abx_log_name(level), text);
}

static abx_output_format parse_format(const char *s)
{
    static const char *const names[] = {"table", "wide", "json", "jsonl", "name"};
    for (size_t i = 0; s && i < ABX_COUNT(names); i++)
        if (strcmp(names[i], s) == 0)
            return (abx_output_format)i;
    return ABX_OUT_TABLE;
}

static abx_log_level log_level(int verbose)
{
    abx_log_level level = ABX_LOG_WARN;
    const char *env = getenv("ABX_LOG");
    if (env)
        (void)abx_log_parse(env, &level); /* a wrong word leaves the default */
    if (verbose > 0)
        level = verbose == 1 ? ABX_LOG_DEBUG : ABX_LOG_TRACE;
    return level;
}

static bool env_is_set(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] && strcmp(v, "0") != 0 && strcmp(v, "false") != 0;
}

void abx_cli_init(abx_cli *cli, const abx_args *args, const abx_adapter *const *adapters)
{
    memset(cli, 0, sizeof *cli);
    cli->args = args;
    cli->adapters = adapters;
    cli->self = "/proc/self/exe";
    cli->format = parse_format(abx_flag_value(args, ABX_FLAG_OUTPUT, getenv("ABX_OUTPUT")));
    cli->quiet = abx_has_flag(args, ABX_FLAG_QUIET);
    cli->verbose = args->flags[ABX_FLAG_VERBOSE].count;
    cli->yes = abx_has_flag(args, ABX_FLAG_YES);
    cli->no_input =
        abx_has_flag(args, ABX_FLAG_NO_INPUT) || env_is_set("ABX_NO_INPUT") || env_is_set("CI");
    uint64_t wait = abx_flag_number(args, ABX_FLAG_WAIT_TIMEOUT, ABX_FOREVER);
    /* these have a dry run of their own */
    cli->dry_run = abx_has_flag(args, ABX_FLAG_DRY_RUN) &&
                   !(args->verb && abx_in_list("gc,sync,provider test", args->verb->name, ','));
    cli->deadline = wait == ABX_FOREVER ? ABX_FOREVER : abx_now_mono_ms() + wait;
    cli->log = (abx_log){log_level(cli->verbose), write_log, NULL};
}

/* --- open and close ------------------------------------------------------------------------------------ */

/* --provider ./folder: a plugin that is not installed; its id is what the configuration knows. */
static int use_folder(abx_cli *cli, const char *folder, abx_error **err)
{
    ABX_AUTO(abx_plugin, abx_plugin_free) plugin = NULL;
    if (abx_plugin_open_folder(folder, &plugin, err) < 0)
        return -1;
    cli->_folder = abx_strdup(plugin->folder);
    return abx_config_set_flag(cli->_config, "provider", plugin->manifest->id, err);
}

static int apply_flags(abx_cli *cli, abx_error **err)
{
    static const struct {
        abx_flag_id flag;
        const char *key;
    } settings[] = {
        {ABX_FLAG_PROVIDER, "provider"}, {ABX_FLAG_OUTPUT, "output"}, {ABX_FLAG_COLOR, "color"}};
    for (size_t i = 0; i < ABX_COUNT(settings); i++) {
        const char *value = abx_flag_value(cli->args, settings[i].flag, NULL);
        if (value && settings[i].flag == ABX_FLAG_PROVIDER && strchr(value, '/')) {
            if (use_folder(cli, value, err) < 0)
                return -1;
            continue;
        }
        if (value && abx_config_set_flag(cli->_config, settings[i].key, value, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < cli->args->item_count; i++)
        if (cli->args->items[i].flag == ABX_FLAG_OPTION &&
            abx_config_set_option(cli->_config, cli->args->items[i].value, err) < 0)
            return -1;
    if (abx_str_eq(abx_config_get(cli->_config, "no_input", NULL, NULL), "true"))
        cli->no_input = true;
    cli->stdin_off = abx_str_eq(abx_config_get(cli->_config, "stdin", NULL, NULL), "closed");
    cli->format = parse_format(abx_config_get(cli->_config, "output", NULL, NULL));
    cli->color = abx_config_get(cli->_config, "color", NULL, NULL);
    const char *log = abx_config_get(cli->_config, "log", NULL, NULL);
    if (log && cli->verbose == 0)
        (void)abx_log_parse(log, &cli->log.level); /* checked by the configuration */
    return 0;
}

int abx_cli_open_config(abx_cli *cli, abx_error **err)
{
    if (cli->_config)
        return 0;
    bool tightened = false;
    cli->_home = abx_home_open(&tightened, err);
    if (!cli->_home)
        return -1;
    if (tightened)
        abx_cli_note(cli, "warning: '%s' could be read by others; its mode is 0700 now",
                     cli->_home);
    ABX_AUTO_FREE char *cwd = getcwd(NULL, 0); /* gone: no project file */
    abx_verb_id verb = cli->args->verb ? cli->args->verb->id : ABX_VERB_COUNT;
    abx_config_options options = {
        .home = cli->_home,
        .cwd = cwd,
        .file = abx_flag_value(cli->args, ABX_FLAG_CONFIG, NULL),
        .profile = abx_flag_value(cli->args, ABX_FLAG_PROFILE, NULL),
        .env = (const char *const *)environ,
        /* trust must work while the project's file sets what needs it */
        .ignore_project = verb == ABX_VERB_CONFIG_TRUST,
        .ignore_profile = verb == ABX_VERB_CONFIG_SET || verb == ABX_VERB_CONFIG_UNSET ||
                          verb == ABX_VERB_CONFIG_PATH,
        /* the engine takes all from its clients */
        .no_files = verb == ABX_VERB_ENGINE_SERVE || verb == ABX_VERB_ENGINE_RESTART ||
                    verb == ABX_VERB_ENGINE_STOP,
    };
    const char *named = getenv("ABX_CONFIG");
    if (!options.file && named && named[0])
        options.file = named;
    if (abx_config_open(&options, &cli->_config, err) < 0)
        return -1;
    abx_guard_secrets(cli->_config);
    return apply_flags(cli, err);
}

static void on_signal(uv_signal_t *handle, int sig)
{
    abx_cli *cli = handle->data;
    if (cli->_on_signal)
        cli->_on_signal(cli, sig, cli->_on_signal_data);
    else if (sig != SIGWINCH)
        cli->_interrupted = sig;
}

/* A call tells by itself that its time is over; this is for what waits for something else: a reader, a writer. */
static void on_deadline(uv_timer_t *timer)
{
    abx_cli *cli = timer->data;
    cli->_expired = true;
    if (!cli->_cleaning && !cli->_interrupted)
        cli->_interrupted = SIGALRM;
}

static void start_deadline(abx_cli *cli)
{
    ABX_CHECK(uv_timer_init(&cli->_loop, &cli->_deadline_timer) == 0);
    cli->_deadline_timer.data = cli;
    if (cli->deadline == ABX_FOREVER)
        return;
    uint64_t now = abx_now_mono_ms();
    uint64_t left = cli->deadline > now ? cli->deadline - now : 0;
    uv_timer_start(&cli->_deadline_timer, on_deadline, left + GRACE_MS, 0);
    uv_unref((uv_handle_t *)&cli->_deadline_timer);
}

/* The loop and its signals. SIGWINCH is watched only by those who take it; it costs nothing else. */
int abx_cli_open_loop(abx_cli *cli, abx_error **err)
{
    if (cli->_open)
        return 0;
    /* libuv aborts where the descriptors run out in the middle of its set-up. The number of its first one tells how many were
     * taken before. */
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    int rc = files.rlim_cur < FILES_MIN ? UV_EMFILE : uv_loop_init(&cli->_loop);
    if (rc == 0 && (rlim_t)uv_backend_fd(&cli->_loop) + FILES_MIN > files.rlim_cur + 3) {
        (void)uv_loop_close(&cli->_loop);
        rc = UV_EMFILE;
    }
    if (rc == UV_EMFILE) {
        abx_fail(err, ABX_ERR_QUOTA, "too many open files: the limit is too low");
        return abx_hint(err, "raise it: ulimit -n 256");
    }
    if (rc < 0)
        return abx_fail(err, ABX_ERR_INTERNAL, "cannot open the event loop: %s", uv_strerror(rc));
    cli->_open = true;
    start_deadline(cli);
    for (size_t i = 0; i < ABX_CLI_SIGNALS; i++) {
        ABX_CHECK(uv_signal_init(&cli->_loop, &cli->_signals[i]) == 0);
        cli->_signals[i].data = cli;
        /* A caller that ignores HUP or INT (nohup, a shell's background job) goes on doing so. */
        struct sigaction now;
        if (sigaction(signal_numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            continue;
        ABX_CHECK(uv_signal_start(&cli->_signals[i], on_signal, signal_numbers[i]) == 0);
    }
    return 0;
}

int abx_cli_open(abx_cli *cli, abx_error **err)
{
    if (cli->_host)
        return 0;
    if (abx_cli_open_loop(cli, err) < 0)
        return -1;
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    abx_host_options options = {
        .loop = &cli->_loop,
        .home = cli->_home,
        .config = cli->_config,
        .adapters = cli->adapters,
        /* one command, no threads */
        .may_fork = !cli->serves && !abx_config_holds_secret(cli->_config),
        .exact_ids = cli->serves,
        .self = cli->self,
        .on_secret = abx_guard_memory,
        .log = &cli->log,
        .strict = cli->strict,
    };
    const char *id;
    if (abx_host_open(&options, &cli->_host, err) < 0)
        return -1;
    return cli->_folder ? abx_host_use_folder(cli->_host, cli->_folder, &id, err) : 0;
}

static void on_host_closed(void *data)
{
    *(bool *)data = true;
}

/* Children that were let go of are watched without holding the loop: they are about to end, wait for that. */
static void hold(uv_handle_t *handle, void *data)
{
    if (uv_handle_get_type(handle) == UV_POLL && uv_is_active(handle) && !uv_has_ref(handle)) {
        uv_ref(handle);
        *(bool *)data = true;
    }
}

static void on_waited(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void close_loop(abx_cli *cli)
{
    for (size_t i = 0; i < ABX_CLI_SIGNALS; i++)
        uv_close((uv_handle_t *)&cli->_signals[i], NULL);
    uv_close((uv_handle_t *)&cli->_deadline_timer, NULL);
    uv_run(&cli->_loop, UV_RUN_DEFAULT);
    bool holding = false;
    uv_walk(&cli->_loop, hold, &holding);
    if (holding) {
        uv_timer_t timer;
        uv_timer_init(&cli->_loop, &timer);
        uv_timer_start(&timer, on_waited, CLOSE_MS, 0);
        uv_unref((uv_handle_t *)&timer);
        uv_run(&cli->_loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&timer, NULL);
        uv_run(&cli->_loop, UV_RUN_NOWAIT);
    }
    int rc = uv_loop_close(&cli->_loop);
    if (rc != 0 && cli->log.level >= ABX_LOG_DEBUG)
        uv_print_all_handles(&cli->_loop, stderr);
    ABX_CHECK(rc == 0);
}

void abx_cli_close(abx_cli *cli)
{
    if (cli->_host) {
        bool closed = false;
        abx_host_close(cli->_host, on_host_closed, &closed);
        while (!closed)
            uv_run(&cli->_loop, UV_RUN_ONCE);
        cli->_host = NULL;
    }
    if (cli->_open) {
        close_loop(cli);
        cli->_open = false;
    }
    abx_config_free(cli->_config);
    cli->_config = NULL;
    yyjson_mut_doc_free(ABX_TAKE(cli->_plan));
    free(ABX_TAKE(cli->_folder));
    free(cli->_home);
    cli->_home = NULL;
}

/* --- signals ------------------------------------------------------------------------------------------- */

abx_cli_signal_cb abx_cli_take_signals(abx_cli *cli, abx_cli_signal_cb cb, void *data,
                                       void **former_data)
{
    abx_cli_signal_cb former = cli->_on_signal;
    if (former_data)
        *former_data = cli->_on_signal_data;
    cli->_on_signal = cb;
    cli->_on_signal_data = data;
    return former;
}

int abx_cli_interrupted(const abx_cli *cli)
{
    return cli->_interrupted;
}

void abx_cli_interrupt(abx_cli *cli, int sig)
{
    cli->_interrupted = sig;
}

void abx_cli_begin_cleanup(abx_cli *cli)
{
    cli->_cleaning = true;
}

void abx_cli_turn(abx_cli *cli)
{
    uv_run(&cli->_loop, UV_RUN_ONCE);
}

/* --- what is told -------------------------------------------------------------------------------------- */

int abx_cli_exit_code(const abx_cli *cli, const abx_error *e)
{
    const abx_verb *verb = cli->args->verb;
    bool passes_code = verb && verb->exits == ABX_EXITS_PROCESS;
    return abx_exit_code_of(e, passes_code, cli->remote, cli->_interrupted);
}

int abx_cli_report(const abx_cli *cli, const abx_error *e)
{
    abx_transfer_hide(cli->_transfer);
    if (abx_is_dry_run(cli, e))
        return 0;
    const abx_verb *verb = cli->args->verb;
    abx_error_style style = {
        .json = abx_cli_json(cli),
        .color = abx_color_on(cli->args, cli->color, STDERR_FILENO),
        .tell_code =
            verb && verb->exits == ABX_EXITS_PROCESS && !(e->id == ABX_ERR_USAGE && !cli->remote),
    };
    ABX_AUTO_ERROR named = abx_error_copy(e);
    abx_error_name_verb(&named, verb);
    abx_error_print(stderr, named, &style);
    return abx_cli_exit_code(cli, e);
}

static void write_note(const abx_cli *cli, const char *fmt, va_list ap)
{
    abx_transfer_hide(cli->_transfer);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    ABX_AUTO_FREE char *safe = abx_printable(text);
    fprintf(stderr, "%s\n", safe);
}

void abx_cli_note(const abx_cli *cli, const char *fmt, ...)
{
    if (cli->quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    write_note(cli, fmt, ap);
    va_end(ap);
}

void abx_cli_note_timeout(const abx_cli *cli, const char *what)
{
    bool runs = cli->args->verb->id == ABX_VERB_RUN; /* its --timeout is the life of the sandbox */
    abx_flag_id flag = runs ? ABX_FLAG_COMMAND_TIMEOUT : ABX_FLAG_TIMEOUT;
    const char *limit = abx_flag_value(cli->args, flag, NULL);
    if (limit)
        abx_cli_note(cli, "abx: %s was ended by its time limit: --%s %s", what,
                     abx_flag_row(flag)->name, limit);
    else
        abx_cli_note(cli, "abx: %s was ended by its time limit", what);
}

void abx_cli_warn(const abx_cli *cli, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_note(cli, fmt, ap);
    va_end(ap);
}
