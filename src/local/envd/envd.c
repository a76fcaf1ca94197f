#include "local/envd/guard.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MAX_CONNECTIONS                                                                            \
    16384 /* a stream has one each; only the sandbox's owner reaches the socket */

/* --- open --------------------------------------------------------------------------------------------------- */
static void first_gone(void *data)
{
    abx_envd *e = data;
    if (!e->kept)
        abx__envd_tell_end(e);
}

static char **copy_env(const char *const *env)
{
    size_t n = 0;
    while (env && env[n])
        n++;
    char **list = abx_alloc_array(n + 1, sizeof(*list));
    for (size_t i = 0; i < n; i++)
        list[i] = abx_strdup(env[i]);
    return list;
}

static void take_config(abx_envd *e, const abx_envd_config *config)
{
    struct rlimit files;
    e->id = abx_strdup(config->id ? config->id : "");
    e->default_user = abx_strdup(config->default_user ? config->default_user : "user");
    e->passwd = abx_strdup(config->passwd ? config->passwd : "/etc/passwd");
    e->group = abx_strdup(config->group ? config->group : "/etc/group");
    e->workdir = config->workdir && *config->workdir ? abx_strdup(config->workdir) : NULL;
    e->env = copy_env(config->env);
    e->has_range = config->has_range;
    e->lock_fd = config->lock_fd;
    e->log_fd = config->log_fd;
    e->oom_fd = config->oom_fd > 0 ? config->oom_fd : -1;
    e->commands_fd = config->commands_fd > 0 ? config->commands_fd : -1;
    e->events_fd = config->events_fd > 0 ? config->events_fd : -1;
    e->freeze_fd = config->freeze_fd > 0 ? config->freeze_fd : -1;
    e->frozen_fd = config->frozen_fd > 0 ? config->frozen_fd : -1;
    e->root_ns = -1;
    e->limit_fd = -1;
    e->root_userns = config->root_userns;
    e->root_userns_data = config->root_userns_data;
    e->lock_child = config->lock_child;
    e->lock_child_data = config->lock_child_data;
    e->limit_boot_ms = e->limit_ms = e->left_ms = ABX_FOREVER;
    e->idle_ms = config->idle_ms ? config->idle_ms : ABX_FOREVER;
    e->pause_on_limit = config->pause_on_limit;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        e->nofile_soft = files.rlim_cur < 1024 ? files.rlim_cur : 1024;
}

static void envd_free(abx_envd *e)
{
    abx__strings_free(e->env);
    free(e->id);
    free(e->default_user);
    free(e->passwd);
    free(e->group);
    free(e->workdir);
    free(e->chunk);
    free(e->code);
    abx_close_fd(&e->limit_fd);
    abx_close_fd(&e->oom_fd);
    abx_close_fd(&e->commands_fd);
    abx_close_fd(&e->events_fd);
    abx_close_fd(&e->freeze_fd);
    abx_close_fd(&e->frozen_fd);
    if (e->lock_fd > 2)
        abx_close_fd(&e->lock_fd);
    if (e->log_fd > 2)
        abx_close_fd(&e->log_fd);
    free(e);
}

int abx_envd_open(uv_loop_t *loop, const abx_envd_config *config, void (*on_end)(void *data),
                  void *data, abx_envd **out, abx_error **err)
{
    abx_envd *e = ABX_NEW(abx_envd);
    e->loop = loop;
    e->on_end = on_end;
    e->on_end_data = data;
    abx_link_init(&e->procs);
    abx_link_init(&e->left);
    abx_link_init(&e->hunts);
    abx_link_init(&e->tunnel_list);
    abx_link_init(&e->watchers);
    abx_link_init(&e->polled);
    take_config(e, config);
    e->opened_us = uv_hrtime() / 1000;
    int listen_fd = config->listen_fd, first_fd = config->first_fd;
    abx_e2b_server_options options = {.loop = loop,
                                      .max_connections = MAX_CONNECTIONS,
                                      .token = config->token,
                                      .default_user = e->default_user,
                                      .filling = &abx__envd_filling,
                                      .data = e};
    if (abx_e2b_server_open(&options, &e->server, err) < 0) {
        abx_close_fd(&listen_fd);
        abx_close_fd(&first_fd);
        envd_free(e);
        return -1;
    }
    e->server_open = 1;
    abx__guard_open(e, config);
    *out = e;
    int rc = 0;
    if (listen_fd >= 0)
        rc = abx_e2b_server_listen_fd(e->server, listen_fd, 1024, err);
    if (rc == 0 && first_fd >= 0)
        rc = abx_e2b_server_adopt(e->server, first_fd, config->tied ? first_gone : NULL, e, err);
    if (rc == 0 &&
        abx__envd_set_limit(e, config->timeout_ms ? config->timeout_ms : ABX_FOREVER) < 0)
        rc = abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot set the time limit");
    if (rc == 0 && config->ready)
        config->ready(config->ready_data);
    if (rc < 0) {
        *out = NULL;
        abx_envd_close(e, NULL, NULL); /* the memory goes when the loop turns */
    }
    return rc;
}

int abx_envd_adopt(abx_envd *e, int fd, abx_error **err)
{
    return abx_e2b_server_adopt(e->server, fd, NULL, NULL, err);
}

int abx_envd_listen_tcp(abx_envd *e, const char *ip, int port, int *bound_port, abx_error **err)
{
    return abx_e2b_server_listen_tcp(e->server, ip, port, bound_port, err);
}

/* --- close ------------------------------------------------------------------------------------------------------ */
void abx__envd_released(abx_envd *e)
{
    e->handles--;
    if (!e->closing || e->handles > 0 || e->server_open > 0)
        return;
    void (*closed)(void *data) = e->closed;
    void *data = e->closed_data;
    envd_free(e);
    if (closed)
        closed(data);
}

static void server_closed(void *data)
{
    abx_envd *e = data;
    e->server_open = 0;
    abx__guard_close(e);
    abx__procs_close(e);
    abx__code_close(e);
    abx__hunts_close(e);
    abx__tunnels_close(e);
    abx__pause_close(e);
    abx__polled_close(e);
    abx__watches_close(e);
    abx__envd_released(e); /* the one that abx_envd_close took */
}

static void limit_gone(uv_handle_t *h)
{
    abx__envd_released(h->data);
}

void abx_envd_close(abx_envd *e, void (*cb)(void *data), void *data)
{
    e->closing = true;
    e->closed = cb;
    e->closed_data = data;
    e->handles++;
    if (e->limit_fd >= 0)
        uv_close((uv_handle_t *)&e->limit_poll, limit_gone);
    abx_e2b_server_close(e->server, server_closed, e);
}
