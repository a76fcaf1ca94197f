#include "doors/cli/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/guard.h"
#include "doors/cli/params.h"

#define BEGIN_MS   30000 /* for one that has the lock to write its file, or to end */
#define PAUSE_MS   20
#define STOP_MS    12000 /* from TERM to KILL: a server drains for 5 s */
#define LOG_MAX    (1024 * 1024)
#define REPORT_MAX ((size_t)64 * 1024)

void abx_served_clear(abx_served *s)
{
    yyjson_doc_free(s->info);
    s->info = NULL;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

int abx_serving_look(abx_cli *cli, const char *name, abx_served *out, abx_error **err)
{
    uint64_t until = abx_now_mono_ms() + BEGIN_MS;
    for (;;) {
        int rc = abx_serving_find(cli->_home, name, &out->pid, &out->info, err);
        if (rc != 0 || out->info)
            return rc;
        if (abx_now_mono_ms() > until)
            return abx_fail(err, ABX_ERR_TIMEOUT,
                            "process %d begins to serve, but does not get ready", (int)out->pid);
        pause_ms(PAUSE_MS);
    }
}

/* --- serving ------------------------------------------------------------------------------------------------------ */
typedef struct serving {
    abx_cli *cli;
    const abx_server_door *kind;
    void *door;
    const abx_serve_wish *wish;
    int signals;
    bool tells_requests, ended, closed;
} serving;

static void on_end(void *data)
{
    ((serving *)data)->ended = true;
}

static void on_closed(void *data)
{
    ((serving *)data)->closed = true;
}

/* The first signal lets what runs end; the second does not wait. */
static void on_signal(abx_cli *cli, int sig, void *data)
{
    serving *s = data;
    (void)cli;
    if (sig == SIGWINCH)
        return;
    if (s->signals++ == 0)
        s->kind->drain(s->door);
    else
        s->ended = true;
}

static void turn_until_end(serving *s)
{
    void *former_data;
    abx_cli_signal_cb former = abx_cli_take_signals(s->cli, on_signal, s, &former_data);
    while (!s->ended) {
        abx_cli_turn(s->cli);
        if (abx_cli_interrupted(s->cli) && s->signals == 0)
            on_signal(s->cli, SIGTERM, s); /* the time limit of the command */
    }
    s->kind->close(s->door, on_closed, s);
    while (!s->closed)
        abx_cli_turn(s->cli);
    abx_cli_take_signals(s->cli, former, former_data, NULL);
}

/* Open the house and the door. 0; 1: another one serves; -1 and *err. */
static abx_serve_options options_of(serving *s)
{
    abx_cli *cli = s->cli;
    return (abx_serve_options){
        .loop = &cli->_loop,
        .home = cli->_home,
        .adapters = cli->adapters,
        .self = cli->self,
        .port = s->wish->port,
        .tls_domain = s->wish->tls_domain,
        .tls_port = s->wish->tls_port,
        .idle_ms = s->wish->idle_ms,
        .session_idle_ms = s->wish->session_idle_ms,
        .tells_requests = s->tells_requests,
        .log = &cli->log,
        .on_end = on_end,
        .data = s,
    };
}

/* A door that opens hosts by itself. */
static int open_bare_door(serving *s, abx_error **err)
{
    if (abx_cli_open_loop(s->cli, err) < 0 || abx_cli_open_config(s->cli, err) < 0)
        return -1;
    abx_guard_memory();
    if (s->cli->log.level == ABX_LOG_WARN)
        s->cli->log.level = ABX_LOG_INFO;
    abx_serve_options options = options_of(s);
    return s->kind->open(&options, &s->door, err);
}

static int open_door(serving *s, abx_error **err)
{
    abx_cli *cli = s->cli;
    cli->serves = true;
    if (s->kind->own_hosts)
        return open_bare_door(s, err);
    if (abx_cli_open(cli, err) < 0)
        return -1;
    abx_guard_memory(); /* from now on a key is in it */
    ABX_AUTO_MUT params = abx_params_create(cli, false, false, err);
    if (!params)
        return -1;
    ABX_AUTO_JSON defaults = abx_json_freeze(params);
    abx_serve_options options = options_of(s);
    options.host = cli->_host;
    options.provider = abx_host_provider(cli->_host, NULL);
    options.defaults = yyjson_doc_get_root(defaults);
    if (!abx_host_has_provider(cli->_host, options.provider))
        return abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "there is no provider '%s'",
                        options.provider);
    return s->kind->open(&options, &s->door, err);
}

/* Own pid and file, as others see them. Not by abx_serving_find: its closing of the lock's file would end our lock. */
static int tell_ready(serving *s, int (*on_ready)(abx_cli *, const abx_served *, abx_error **),
                      abx_error **err)
{
    ABX_AUTO_FREE char *leaf = abx_format("%s.json", s->kind->name);
    ABX_AUTO_FREE char *path = abx_path_join(s->cli->_home, leaf);
    ABX_AUTO_BUF text = ABX_BUF(REPORT_MAX);
    if (abx_read_file(path, REPORT_MAX, &text, err) != 0)
        return -1;
    abx_served own = {getpid(), abx_json_parse(text.data, text.len, ABX_ERR_HOME, path, err)};
    int rc = own.info ? on_ready(s->cli, &own, err) : -1;
    abx_served_clear(&own);
    return rc;
}

static int serve(serving *s, int (*on_ready)(abx_cli *, const abx_served *, abx_error **),
                 int report, abx_error **err)
{
    s->tells_requests = report < 0;
    int rc = open_door(s, err);
    if (rc != 0)
        return rc;
    if (report >= 0) {
        (void)!write(report, "{}", 2);
        close(report);
    } else if (on_ready && tell_ready(s, on_ready, err) < 0) {
        rc = -1;
        s->ended = true;
    }
    turn_until_end(s);
    return rc;
}

/* --- in the background --------------------------------------------------------------------------------------------- */
/* What our caller has open (a lock, a pipe) would stay so for as long as we serve. */
static void close_inherited(int but)
{
    if (but > 3)
        (void)close_range(3, (unsigned)but - 1, 0);
    (void)close_range((unsigned)but + 1, UINT_MAX, 0);
}

/* Standard streams of a process without a terminal: nothing, and a log of its own. */
static int leave_terminal(const char *home, const char *name, abx_error **err)
{
    ABX_AUTO_FREE char *path = abx_format("%s/%s.log", home, name);
    struct stat st;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    if (stat(path, &st) == 0 && st.st_size > LOG_MAX)
        flags |= O_TRUNC;
    ABX_AUTO_FD log = open(path, flags, 0600);
    ABX_AUTO_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log < 0 || null < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write '%s'", path);
    if (setsid() < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log, 2) < 0 ||
        chdir(home) < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot leave the terminal");
    return 0;
}

static void report_error(int fd, const abx_error *e)
{
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    ABX_AUTO_BUF text = ABX_BUF(REPORT_MAX);
    if (abx_json_write_mut(abx_error_json(d, e), &text) == 0)
        (void)!write(fd, text.data, text.len);
}

/* The process that serves. It returns into the program's usual end. */
static int background(serving *s, int report, abx_error **err)
{
    abx_error *why = NULL;
    close_inherited(report);
    int rc = leave_terminal(s->cli->_home, s->kind->name, &why);
    if (rc == 0)
        rc = serve(s, NULL, report, &why);
    if (why) {
        report_error(report, why);
        return abx_error_take(err, why);
    }
    if (rc == 1)
        (void)!write(report, "{}", 2); /* another one was faster */
    return 0;
}

/* What the child says of itself: {} when it serves, an error else; nothing: it died. */
static int await_report(int fd, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(REPORT_MAX);
    uint8_t *room = abx_buf_room(&text, REPORT_MAX - 1);
    ssize_t n = abx_read_full(fd, room, REPORT_MAX - 1);
    ABX_AUTO_JSON doc =
        n > 0 ? abx_json_parse(room, (size_t)n, ABX_ERR_INTERNAL, "the report of the server", err)
              : NULL;
    if (n <= 0)
        return abx_fail(err, ABX_ERR_INTERNAL, "the server ended before it was ready");
    if (!doc)
        return -1;
    if (yyjson_obj_size(yyjson_doc_get_root(doc)) == 0)
        return 0;
    return abx_error_take(err, abx_error_from_json(yyjson_doc_get_root(doc)));
}

/* 0: in the parent, ready; 1: this is the child, which has served to its end; -1 and *err. */
static int fork_server(serving *s, abx_error **err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_fail_errno(err, ABX_ERR_QUOTA, errno, "cannot make a pipe");
    pid_t pid = fork(); /* nothing but the configuration is open yet */
    if (pid == 0) {
        close(ends[0]);
        int rc = background(s, ends[1], err);
        return rc < 0 ? -1 : 1;
    }
    close(ends[1]);
    int rc = pid < 0 ? abx_fail_errno(err, ABX_ERR_QUOTA, errno, "cannot start a process")
                     : await_report(ends[0], err);
    close(ends[0]);
    return rc;
}

/* --- verbs -------------------------------------------------------------------------------------------------------------- */
/* The domain is asked for, and not served. */
static int check_domain(const char *asked, abx_served *s, abx_error **err)
{
    const char *serves = abx_json_str(yyjson_doc_get_root(s->info), "domain", NULL);
    size_t n = asked ? strlen(asked) : 0;
    if (!asked || (serves && strncmp(serves, asked, n) == 0 && (!serves[n] || serves[n] == ':')))
        return 0;
    if (serves)
        abx_fail(err, ABX_ERR_CONFLICT, "process %d serves https for '%s', not for '%s'",
                 (int)s->pid, serves, asked);
    else
        abx_fail(err, ABX_ERR_CONFLICT, "process %d serves without TLS", (int)s->pid);
    abx_served_clear(s);
    return abx_hint(err, "stop it first, or give the other one a home of its own by ABX_HOME");
}

/* A provider that was asked for, and another one that is served: the caller would talk to the wrong one. */
static int check_provider(abx_cli *cli, abx_served *s, abx_error **err)
{
    const char *serves = abx_json_str(yyjson_doc_get_root(s->info), "provider", NULL);
    abx_source source = ABX_SOURCE_DEFAULT;
    const char *asked = abx_config_get(cli->_config, "provider", &source, NULL);
    if (!serves || !abx_has_flag(cli->args, ABX_FLAG_PROVIDER) || abx_str_eq(asked, serves))
        return 0;
    abx_fail(err, ABX_ERR_CONFLICT, "process %d serves provider '%s', not '%s'", (int)s->pid,
             serves, asked);
    abx_served_clear(s);
    return abx_hint(err, "stop it first, or give the other one a home of its own by ABX_HOME");
}

int abx_serving_check_protocol(const abx_server_door *door, const abx_served *s, abx_error **err)
{
    const char *has = abx_json_str(yyjson_doc_get_root(s->info), "protocol", "");
    if (!door->protocol || strcmp(has, door->protocol) == 0)
        return 0;
    ABX_AUTO_FREE char *shown = abx_printable(has);
    abx_fail(err, ABX_ERR_CONFLICT, "process %d speaks '%.40s', this program speaks '%s'",
             (int)s->pid, shown, door->protocol);
    return abx_hint(err,
                    "'abx provider %s restart --detach' ends it and starts one of this version",
                    door->name);
}

/* Another one serves: is it what was asked for? Else it is forgotten. */
static int check_other(serving *s, abx_served *out, abx_error **err)
{
    if (check_domain(s->wish->tls_domain, out, err) < 0)
        return -1;
    if (abx_serving_check_protocol(s->kind, out, err) < 0) {
        abx_served_clear(out);
        return -1;
    }
    return check_provider(s->cli, out, err);
}

#define ROUNDS 5 /* of several that start and end at the same time */

int abx_serving_run(abx_cli *cli, const abx_server_door *door, bool in_background,
                    const abx_serve_wish *wish,
                    int (*on_ready)(abx_cli *cli, const abx_served *own, abx_error **err),
                    abx_served *out, abx_error **err)
{
    serving s = {.cli = cli, .kind = door, .wish = wish};
    *out = (abx_served){0};
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        int rc = abx_serving_look(cli, door->name, out, err);
        if (rc == 0)
            return check_other(&s, out, err);
        if (rc < 0)
            return -1;
        rc = in_background ? fork_server(&s, err) : serve(&s, on_ready, -1, err);
        if (rc < 0)
            return -1;
        bool served_here = in_background ? rc == 1 : rc == 0;
        if (served_here)
            return 0;
    }
    int rc = abx_serving_look(cli, door->name, out, err);
    if (rc == 1)
        return abx_fail(err, ABX_ERR_INTERNAL, "the server ended again at once");
    return rc < 0 ? -1 : check_other(&s, out, err);
}

static int await_end(abx_cli *cli, const char *name, pid_t pid, int ms, abx_error **err)
{
    uint64_t until = abx_now_mono_ms() + (uint64_t)ms;
    pid_t now = pid;
    int rc;
    while ((rc = abx_serving_find(cli->_home, name, &now, NULL, err)) == 0 && now == pid) {
        if (abx_now_mono_ms() > until)
            return 1;
        pause_ms(PAUSE_MS);
    }
    return rc < 0 ? -1 : 0;
}

int abx_serving_stop(abx_cli *cli, const char *name, abx_error **err)
{
    pid_t pid = 0, again = 0;
    if (abx_cli_open_config(cli, err) < 0)
        return -1;
    int rc = abx_serving_find(cli->_home, name, &pid, NULL, err);
    if (rc != 0)
        return rc;
    ABX_AUTO_FD fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    rc = abx_serving_find(cli->_home, name, &again, NULL, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0; /* it has ended meanwhile */
    if (fd < 0 || again != pid)
        return abx_fail(err, ABX_ERR_CONFLICT,
                        "the server runs where its process cannot be reached");
    if (pidfd_send_signal(fd, SIGTERM, NULL, 0) < 0 && errno != ESRCH)
        return abx_fail_errno(err, ABX_ERR_CONFLICT, errno, "cannot end process %d", (int)pid);
    rc = await_end(cli, name, pid, STOP_MS, err);
    if (rc == 1) {
        (void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
        rc = await_end(cli, name, pid, STOP_MS, err);
    }
    return rc == 1 ? abx_fail(err, ABX_ERR_TIMEOUT, "process %d does not end", (int)pid) : rc;
}
