/* POST /files/compose: several files become one, the parts are removed. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"

typedef struct compose {
    abx_envd *envd;
    abx_e2b_call *call;
    abx__user user;
    yyjson_val *sources;
    const char *destination;
    char **paths; /* of the sources */
    char *target, *partial;
    int out;
} compose;

/* 0, or -1: the call was failed. */
static int check_source(compose *m, const char *given, const char *path)
{
    struct stat st;
    char text[96];
    if (strcmp(path, m->target) == 0)
        abx_e2b_refuse(m->call, 400, "source path \"%s\" cannot be the same as destination", given);
    else if (stat(path, &st) < 0 && errno == ENOENT)
        abx_e2b_refuse(m->call, 404, "source file not found: %s", given);
    else if (stat(path, &st) < 0)
        abx_e2b_refuse(m->call, 500, "error checking source file: %s: %s", given,
                       abx__errno_text(errno, text));
    else if (!S_ISREG(st.st_mode))
        abx_e2b_refuse(m->call, 400, "source path is not a regular file: %s", given);
    else
        return 0;
    return -1;
}

static int read_paths(compose *m)
{
    size_t n = yyjson_arr_size(m->sources);
    m->paths = abx_alloc_array(n + 1, sizeof(*m->paths));
    m->target = abx__path_resolve(m->envd, m->destination, &m->user);
    if (!m->target) {
        abx_e2b_refuse(m->call, 400, ABX__NO_TILDE, m->user.name);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const char *given = yyjson_get_str(yyjson_arr_get(m->sources, i));
        m->paths[i] = given ? abx__path_resolve(m->envd, given, &m->user) : NULL;
        if (!m->paths[i]) {
            abx_e2b_refuse(m->call, 400, "invalid source path");
            return -1;
        }
        if (check_source(m, given, m->paths[i]) < 0)
            return -1;
    }
    return 0;
}

static int append(compose *m, const char *path)
{
    ABX_AUTO_FD in = abx__open_user(path, O_RDONLY, 0);
    uint8_t bytes[64 * 1024];
    if (in < 0)
        return -1;
    for (;;) {
        ssize_t n = read(in, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        if (abx_write_full(m->out, bytes, (size_t)n) < 0)
            return -1;
    }
}

static int join(compose *m)
{
    const char *what = NULL;
    char at[4096], name[13];
    if (abx__make_parents(m->envd, m->target, false, &m->user, &what, at) < 0)
        return -1;
    abx_random_id(name, sizeof(name) - 1);
    m->partial = abx_format("%s.%s", m->target, name);
    m->out = open(m->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (m->out < 0 || abx__own_fd(m->envd, m->out, &m->user) < 0)
        return -1;
    for (size_t i = 0; m->paths[i]; i++)
        if (append(m, m->paths[i]) < 0)
            return -1;
    return rename(m->partial, m->target);
}

static void run(compose *m)
{
    char text[96];
    if (read_paths(m) < 0)
        return;
    if (join(m) < 0) {
        int err = errno;
        if (m->out >= 0)
            (void)unlink(m->partial);
        abx_e2b_refuse(m->call, err == ENOSPC || err == EDQUOT ? 507 : 500,
                       "error composing files: %s", abx__errno_text(err, text));
        return;
    }
    for (size_t i = 0; m->paths[i]; i++)
        (void)unlink(m->paths[i]);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "name", abx_path_base(m->target));
    abx_mut_str(d, root, "path", m->target);
    abx_mut_str(d, root, "type", "file");
    abx_e2b_answer(m->call, root);
}

void abx__rpc_compose(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    compose m = {.envd = e, .call = c, .out = -1};
    m.sources = abx_json_get(q, "source_paths");
    m.destination = abx_json_str(q, "destination", "");
    const char *user = abx_json_str(q, "username", e->default_user);
    if (yyjson_arr_size(m.sources) == 0)
        abx_e2b_refuse(c, 400, "source_paths must not be empty");
    else if (!*m.destination)
        abx_e2b_refuse(c, 400, "destination is required");
    else if (abx__user_find(e, user, &m.user) != 1)
        abx_e2b_refuse(c, 401, "error looking up user '%s': user: unknown user %s", user, user);
    else {
        abx__power(e, &m.user, true);
        run(&m);
        abx__power(e, &m.user, false);
    }
    abx_close_fd(&m.out);
    abx__strings_free(m.paths);
    free(m.target);
    free(m.partial);
}
