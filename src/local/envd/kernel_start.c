/* From a context to a running kernel: program, descriptors, environment. */
#include "local/envd/code_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct pipes {
    int child[3]; /* output, errors, control */
    int ours[3];
    int input, commands; /* standard input; where we write to it, -1: it is empty */
} pipes;

static void pipes_close(pipes *p)
{
    for (size_t i = 0; i < 3; i++) {
        abx_close_fd(&p->child[i]);
        abx_close_fd(&p->ours[i]);
    }
    abx_close_fd(&p->input);
    abx_close_fd(&p->commands);
}

static int pipes_open(pipes *p, bool commands)
{
    int fds[2];
    *p = (pipes){{-1, -1, -1}, {-1, -1, -1}, -1, -1};
    for (size_t i = 0; i < 3; i++) {
        if (i < 2 ? pipe2(fds, O_CLOEXEC) < 0
                  : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
            return -1;
        p->ours[i] = fds[0];
        p->child[i] = fds[1];
        if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
            return -1;
    }
    if (!commands) {
        p->input = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return p->input < 0 ? -1 : 0;
    }
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    p->input = fds[0];
    p->commands = fds[1];
    return fcntl(p->commands, F_SETFL, O_NONBLOCK);
}

static ABX_PRINTF(4, 5) int refuse(int *status, char text[1024], int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *status = code;
    (void)vsnprintf(text, 1024, fmt, ap);
    va_end(ap);
    return -1;
}

static int run_program(abx__context *c, const abx__start *st, pipes *p, uint64_t mark, pid_t *pid,
                       int *status, char text[1024])
{
    const abx__language *l = c->language;
    char why[96];
    char **envp = abx__start_env(c->envd, st);
    ABX_AUTO_FREE char *program = abx__language_program(l, envp);
    ABX_AUTO_FREE char *there = program ? NULL : abx__languages_there(envp);
    abx__strings_free(envp);
    if (!program)
        return refuse(status, text, 501,
                      "the sandbox has no program that runs %s; code can be run in: %s", l->name,
                      *there ? there : "no language");
    char **argv = abx_alloc_array(ABX_COUNT(l->arguments) + 2, sizeof(*argv));
    argv[0] = abx_strdup(program);
    for (size_t i = 0; i < ABX_COUNT(l->arguments) && l->arguments[i]; i++)
        argv[i + 1] = abx_strdup(l->arguments[i]);
    abx__spawn s = {.argv = argv, .control = p->child[2]};
    int fds[3] = {p->input, p->child[0], p->child[1]};
    *pid = abx__start_spawn(c->envd, st, fds, &s, mark);
    abx__strings_free(s.argv);
    abx__strings_free(s.envp);
    abx__strings_free(s.paths);
    if (*pid > 0)
        return 0;
    (void)abx__errno_text(s.error, why);
    if (s.stage == ABX__STAGE_CWD)
        return refuse(status, text, 400, "cwd '%s': %s", st->cwd, why);
    return refuse(status, text, 500, "cannot start '%s': %s", program, why);
}

int abx__kernel_start(abx__context *c, int *status, char text[1024])
{
    abx_envd *e = c->envd;
    pipes p;
    char why[96];
    pid_t pid = -1;
    abx__start st = {.user = c->user, .abx = true, .cwd = c->cwd};
    ABX_AUTO_JSON request = NULL;
    if (c->env) { /* as a Start request has it */
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        abx_mut_val(d, abx_mut_obj(d, root, "process"), "envs", yyjson_doc_get_root(c->env));
        request = abx_json_freeze(d);
        st.request = yyjson_doc_get_root(request);
    }
    uint64_t mark = ((uint64_t)1 << 40) + ++e->next_id;
    int rc = 0;
    if (pipes_open(&p, c->language->commands != NULL) < 0)
        rc = refuse(status, text, 500, "cannot open pipes: %s", abx__errno_text(errno, why));
    else
        rc = run_program(c, &st, &p, mark, &pid, status, text);
    if (rc == 0) {
        abx__start_oom_score(e, &st.user, pid);
        const abx__language *l = c->language;
        c->kernel = abx__kernel_new(c, pid, mark, p.ours, abx_take_fd(&p.commands));
        if (l->commands)
            abx__kernel_command(c->kernel, l->source, l->source_len);
        else
            abx__kernel_send(c->kernel, "__abx_driver", l->source, l->source_len);
    }
    pipes_close(&p);
    return rc;
}
