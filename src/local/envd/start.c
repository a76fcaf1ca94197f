/* A Start request becomes a process: what to run, with which ids, folder, environment and descriptors. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "wire/base64.h"

#define COMMAND_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- environment ----------------------------------------------------------------------------------------- */
typedef struct env_list {
    char **items;
    size_t count, room;
} env_list;

/* text is taken. */
static void env_put(env_list *l, char *text)
{
    if (l->count + 2 > l->room) {
        l->room = l->room ? l->room * 2 : 32;
        l->items = abx_realloc(l->items, l->room * sizeof(*l->items));
    }
    l->items[l->count++] = text;
    l->items[l->count] = NULL;
}

typedef struct env_place {
    const char *text;
    size_t i;
} env_place;

static int by_name(const void *a, const void *b)
{
    const env_place *x = a, *y = b;
    size_t n = strcspn(x->text, "="), m = strcspn(y->text, "=");
    int order = memcmp(x->text, y->text, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int by_name_and_place(const void *a, const void *b)
{
    const env_place *x = a, *y = b;
    int order = by_name(a, b);
    return order ? order : (x->i > y->i) - (x->i < y->i);
}

/* Of those with one name the last one stays, in the place of the first. */
static void env_settle(env_list *l)
{
    ABX_AUTO_FREE env_place *places = abx_alloc_array(l->count, sizeof(*places));
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        places[i] = (env_place){l->items[i], i};
    qsort(places, l->count, sizeof(*places), by_name_and_place);
    for (size_t i = 1, first = 0; i < l->count; i++) {
        if (by_name(&places[first], &places[i]) != 0) {
            first = i;
            continue;
        }
        free(l->items[places[first].i]);
        l->items[places[first].i] = ABX_TAKE(l->items[places[i].i]);
        places[first].text = l->items[places[first].i];
    }
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i])
            l->items[kept++] = l->items[i];
    l->count = kept;
    l->items[kept] = NULL;
}

char **abx__start_env(const abx_envd *e, const abx__start *st)
{
    env_list l = {0};
    env_put(&l, abx_strdup("PATH=" COMMAND_PATH));
    env_put(&l, abx_format("HOME=%s", st->user.home));
    env_put(&l, abx_format("USER=%s", st->user.name));
    env_put(&l, abx_format("LOGNAME=%s", st->user.name));
    if (st->abx) {
        env_put(&l, abx_format("SHELL=%s", st->user.shell));
        env_put(&l, abx_strdup("LANG=C.UTF-8"));
        env_put(&l, abx_strdup(st->tty ? "TERM=xterm-256color" : "TERM=dumb"));
    } else {
        env_put(&l, abx_format("PWD=%s", st->cwd));
    }
    for (size_t i = 0; e->env && e->env[i]; i++)
        env_put(&l, abx_strdup(e->env[i]));
    yyjson_val *envs = abx_json_get(abx_json_get(st->request, "process"), "envs");
    yyjson_obj_iter it = yyjson_obj_iter_with(envs);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&it));) {
        const char *name = yyjson_get_str(key);
        const char *value = yyjson_get_str(yyjson_obj_iter_get_val(key));
        if (name && value && *name && !strchr(name, '='))
            env_put(&l, abx_format("%s=%s", name, value));
    }
    env_settle(&l);
    return l.items;
}

/* --- arguments -------------------------------------------------------------------------------------------- */
static char **make_argv(const abx__start *st)
{
    yyjson_val *process = abx_json_get(st->request, "process");
    yyjson_val *args = abx_json_get(process, "args");
    size_t n = yyjson_arr_size(args);
    char **argv = abx_alloc_array(n + 2, sizeof(*argv));
    argv[0] = abx_strdup(abx_json_str(process, "cmd", ""));
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = abx_strdup(yyjson_get_str(yyjson_arr_get(args, i)));
    return argv;
}

/* "/bin/bash -l -c pwd" for error texts. */
static char *joined(char *const *argv)
{
    ABX_AUTO_BUF b = ABX_BUF(1024);
    for (size_t i = 0; argv[i]; i++)
        if ((i > 0 && abx_buf_add_byte(&b, ' ') < 0) || abx_buf_add_str(&b, argv[i]) < 0)
            break;
    return abx_buf_take(&b);
}

/* --- descriptors ------------------------------------------------------------------------------------------- */
typedef struct ends {
    int child[3]; /* for the process */
    int ours[4];  /* by abx_e2b_channel */
} ends;

static void ends_close(ends *x)
{
    for (int i = 0; i < 4; i++)
        abx_close_fd(&x->ours[i]);
    if (x->child[1] == x->child[0]) /* a terminal thrice */
        x->child[1] = x->child[2] = -1;
    for (int i = 0; i < 3; i++)
        abx_close_fd(&x->child[i]);
}

static int open_tty(abx_envd *e, const abx__start *st, ends *x)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0)
        return -1;
    x->ours[ABX_E2B_PTY] = master;
    if (unlockpt(master) < 0)
        return -1;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -1;
    x->child[0] = x->child[1] = x->child[2] = slave;
    abx__power(e, &st->user, true);
    (void)abx__own_fd(e, slave, &st->user);
    abx__power(e, &st->user, false);
    struct winsize size = {.ws_col = (unsigned short)st->cols, .ws_row = (unsigned short)st->rows};
    return ioctl(master, TIOCSWINSZ, &size);
}

static int open_pipes(const abx__start *st, ends *x)
{
    int fds[2];
    for (int i = 1; i < 3; i++) {
        if (pipe2(fds, O_CLOEXEC) < 0)
            return -1;
        x->child[i] = fds[1];
        x->ours[i == 1 ? ABX_E2B_STDOUT : ABX_E2B_STDERR] = fds[0];
        if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
            return -1;
    }
    if (!st->has_stdin) {
        x->child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return x->child[0] < 0 ? -1 : 0;
    }
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    x->child[0] = fds[0];
    x->ours[ABX_E2B_STDIN] = fds[1];
    return fcntl(fds[1], F_SETFL, O_NONBLOCK);
}

/* --- failures ------------------------------------------------------------------------------------------------ */
static void fail_abx(const abx_envd *e, const abx__start *st, const abx__spawn *s)
{
    char text[96];
    (void)abx__errno_text(s->error, text);
    const char *cmd = s->argv[0];
    if (s->stage == ABX__STAGE_CWD)
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT, "cwd '%s': %s", st->cwd, text);
    else if (s->stage == ABX__STAGE_IDS && !e->has_range)
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "user '%s': the ids of this sandbox are those of 'user' and 'root' alone",
                     st->user.name);
    else if (s->stage == ABX__STAGE_IDS)
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT, "user '%s': %s", st->user.name, text);
    else if (s->stage == ABX__STAGE_EXEC && (s->error == ENOENT || s->error == ENOTDIR))
        abx_e2b_fail(st->call, ABX_E2B_CODE_NOT_FOUND, "cannot run '%s': %s", cmd, text);
    else if (s->stage == ABX__STAGE_EXEC && s->error != E2BIG && s->error != ENOMEM)
        abx_e2b_fail(st->call, ABX_E2B_CODE_PERMISSION_DENIED, "cannot run '%s': %s", cmd, text);
    else if (s->error == E2BIG)
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT, "cannot run '%s': %s", cmd, text);
    else
        abx_e2b_fail(st->call, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "cannot start '%s': %s", cmd, text);
}

static void fail_e2b(const abx__start *st, const abx__spawn *s)
{
    char text[96];
    ABX_AUTO_FREE char *words = joined(s->argv);
    (void)abx__errno_text(s->error, text);
    if (st->tty)
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "error starting pty with command '%s' in dir '%s' with '%u' cols and '%u' "
                     "rows: fork/exec /bin/sh: %s",
                     words, st->cwd, st->cols, st->rows, text);
    else
        abx_e2b_fail(st->call, ABX_E2B_CODE_INVALID_ARGUMENT,
                     "error starting process '%s': fork/exec /bin/sh: %s", words, text);
}

/* --- the start ------------------------------------------------------------------------------------------------ */
pid_t abx__start_spawn(abx_envd *e, const abx__start *st, const int fds[3], abx__spawn *s,
                       uint64_t mark)
{
    s->envp = abx__start_env(e, st);
    s->paths = abx__spawn_paths(s->argv[0], s->envp);
    size_t n = 0;
    while (s->argv[n])
        n++;
    char **sh = NULL;
    if (!st->abx) { /* as the shell does with a script that has no first line */
        sh = abx_alloc_array(n + 3, sizeof(*sh));
        sh[0] = s->argv[0];
        memcpy(sh + 2, s->argv + 1, n * sizeof(*sh));
    }
    s->sh_argv = sh;
    s->cwd = st->cwd;
    memcpy(s->fds, fds, sizeof(s->fds));
    s->tty = st->tty;
    s->pipe_only = e->is_init;
    s->told_by_exit = !st->abx;
    s->user = &st->user;
    s->userns_fd = -1;
    if (e->has_range) {
        s->set_ids = true;
        s->keep_caps = st->user.uid == 0;
    } else if (st->user.uid != geteuid() && e->root_userns && st->user.uid == 0) {
        s->userns_fd = e->root_ns >= 0 ? e->root_ns : e->root_userns(e->root_userns_data);
        e->root_ns = s->userns_fd;
        if (s->userns_fd < 0)
            s->error = errno;
    } else if (st->user.uid != geteuid()) {
        s->set_ids = true;
    }
    s->commands_fd = e->commands_fd;
    s->mark = mark;
    s->nofile_soft = e->nofile_soft;
    s->lock = e->lock_child;
    s->lock_data = e->lock_child_data;
    if (s->error == 0 && e->oom_fd >= 0)
        (void)!pwrite(e->oom_fd, "500", 3, 0);
    pid_t pid = -1;
    s->stage = ABX__STAGE_IDS;
    if (s->error == 0)
        pid = abx__spawn_run(s);
    if (e->oom_fd >= 0)
        (void)!pwrite(e->oom_fd, "0", 1, 0);
    free(sh);
    s->sh_argv = NULL;
    return pid;
}

/* The kernel should take commands before pid 1 when memory ends. */
void abx__start_oom_score(const abx_envd *e, const abx__user *u, pid_t pid)
{
    char path[48];
    if (e->oom_fd >= 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
    abx__power(e, u, true);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
    abx__power(e, u, false);
    if (fd >= 0)
        (void)!write(fd, "500", 3);
}

/* Descriptors to their channels, first event to the caller, then the input that came with the request. */
static void begin(abx__proc *p, abx__start *st, ends *x)
{
    for (int i = 0; i < 4; i++)
        if (x->ours[i] >= 0)
            abx__chan_open(p, (abx_e2b_channel)i, abx_take_fd(&x->ours[i]));
    abx__proc_began(p, st->timeout_ms);
    abx__sub *s = abx__sub_add(p, st->call);
    s->tied = st->tied;
    s->limited = !st->abx && st->timeout_ms != ABX_FOREVER;
    abx__send_start(p, s);
    if (st->input) {
        size_t n = 0;
        uint8_t *bytes = abx_base64_bytes(st->input, strlen(st->input), ABX_BASE64_STANDARD, &n);
        p->input_closed = true;
        abx__input_add(p, bytes, bytes ? n : 0, NULL, true);
    }
    for (int i = 0; i < 4; i++)
        abx__chan_update(&p->chans[i]);
}

int abx__proc_start(abx_envd *e, abx__start *st)
{
    ends x = {{-1, -1, -1}, {-1, -1, -1, -1}};
    char text[96];
    if ((st->tty ? open_tty(e, st, &x) : open_pipes(st, &x)) < 0) {
        abx_e2b_fail(st->call, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "cannot open %s: %s",
                     st->tty ? "a terminal" : "pipes", abx__errno_text(errno, text));
        ends_close(&x);
        return -1;
    }
    abx__proc *p = abx__proc_new(e, st);
    abx__spawn s = {.argv = make_argv(st)};
    p->pid = abx__start_spawn(e, st, x.child, &s, p->mark);
    int rc = p->pid > 0 ? 0 : -1;
    if (rc == 0) {
        abx__start_oom_score(e, &st->user, p->pid);
        begin(p, st, &x);
    } else {
        if (st->abx)
            fail_abx(e, st, &s);
        else
            fail_e2b(st, &s);
        p->reaped = p->ended = true;
        abx__proc_drop(p);
    }
    ends_close(&x);
    abx__strings_free(s.argv);
    abx__strings_free(s.envp);
    abx__strings_free(s.paths);
    return rc;
}
