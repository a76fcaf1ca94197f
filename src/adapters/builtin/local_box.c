/* Clients of living sandboxes, one each, kept while the provider is open. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "adapters/builtin/local.h"
#include "base/mem.h"

static int dial(void *data, abx_error **err)
{
    local_box *box = data;
    if (box->first_fd >= 0)
        return abx_take_fd(&box->first_fd);
    return abx_local_dial(box->owner->local, box->id, NULL, err);
}

static int alive(void *data)
{
    local_box *box = data;
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_FD fd = abx_local_dial(box->owner->local, box->id, NULL, &err);
    return fd >= 0 || err->id == ABX_ERR_RATE_LIMIT || err->id == ABX_ERR_QUOTA;
}

local_box *local_box_find(local_provider *p, const char *id)
{
    for (local_box *box = p->boxes; box; box = box->next)
        if (strcmp(box->id, id) == 0)
            return box;
    return NULL;
}

static void free_box(local_box *box)
{
    abx_close_fd(&box->first_fd);
    abx_close_fd(&box->lifeline_fd);
    free(box->id);
    free(box->token);
    free(box);
}

/* box has id, token, first_fd; it is in the list only when this worked. */
static int open_client(local_provider *p, local_box *box, abx_error **err)
{
    abx_envd_client_options options = {.loop = p->loop,
                                       .base_url = "http://envd",
                                       .sandbox_id = box->id,
                                       .token = box->token,
                                       .codec = ABX_E2B_PROTO,
                                       .abx = true,
                                       .dial = dial,
                                       .dial_data = box,
                                       .alive = alive,
                                       .log = p->log};
    if (abx_envd_client_open(&options, &box->client, err) < 0)
        return -1;
    box->next = p->boxes;
    p->boxes = box;
    return 0;
}

static local_box *new_box(local_provider *p, const char *id)
{
    local_box *box = ABX_NEW(local_box);
    box->owner = p;
    box->id = abx_strdup(id);
    box->first_fd = box->lifeline_fd = -1;
    return box;
}

local_box *local_box_get(local_provider *p, const char *id, abx_error **err)
{
    local_box *box = local_box_find(p, id);
    if (box)
        return box;
    box = new_box(p, id);
    box->first_fd = abx_local_dial(p->local, id, &box->token, err);
    if (box->first_fd < 0 || open_client(p, box, err) < 0) {
        free_box(box);
        return NULL;
    }
    return box;
}

static int hold_lifeline(local_box *box, int fd, abx_error **err)
{
    box->lifeline_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (box->lifeline_fd < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno,
                              "cannot keep the sandbox's connection");
    return 0;
}

void local_box_prepare(local_provider *p, const char *id)
{
    local_box *box = new_box(p, id);
    box->token = abx_local_token(p->local, id, NULL);
    if (!box->token || open_client(p, box, NULL) < 0)
        free_box(box);
}

int local_box_adopt(local_provider *p, const char *id, int first_fd, bool tied, abx_error **err)
{
    local_box *box = local_box_find(p, id);
    bool fresh = !box;
    if (fresh)
        box = new_box(p, id);
    box->first_fd = first_fd;
    int rc = tied && first_fd >= 0 ? hold_lifeline(box, first_fd, err) : 0;
    if (!fresh)
        return rc; /* on failure the provider's end closes it */
    if (rc == 0)
        box->token = abx_local_token(p->local, id, err);
    if (rc < 0 || !box->token || open_client(p, box, err) < 0) {
        free_box(box);
        return -1;
    }
    return 0;
}

typedef struct closing {
    local_box *box;
    void (*cb)(void *data);
    void *data;
} closing;

static void on_closed(void *data)
{
    closing c = *(closing *)data;
    free(data);
    free_box(c.box);
    if (c.cb)
        c.cb(c.data);
}

void local_box_close(local_box *box, void (*cb)(void *data), void *data)
{
    for (local_box **at = &box->owner->boxes; *at; at = &(*at)->next) {
        if (*at == box) {
            *at = box->next;
            break;
        }
    }
    closing *c = ABX_NEW(closing);
    *c = (closing){box, cb, data};
    abx_envd_client_close(box->client, on_closed, c);
}
