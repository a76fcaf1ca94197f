#include "local/range_maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/create.h"
#include "local/ids.h"
#include "net/child.h"

struct abx_range_maps {
    void (*cb)(void *data, const abx_error *err);
    void *data;
    abx_child *children[2];
    int left;
    abx_error *error;
};

static const char *const programs[] = {"newuidmap", "newgidmap"};

/* Runs while the other child may still be at work: the first failure waits for it, so that nobody writes the map of a
 * process that is gone. */
static void on_mapped(abx_child *child, int status, void *data)
{
    abx_range_maps *m = (abx_range_maps *)data;
    int which = m->children[1] == child;
    m->children[which] = NULL;
    if (status != 0 && !m->error) {
        m->error = abx_error_new(ABX_ERR_ISOLATION, "layer 'range' is refused: '%s' failed",
                                 programs[which]);
        abx_error *e = m->error;
        abx_hint(&e,
                 "%s must be set-user-ID root and the range free: "
                 "sudo apt install --reinstall uidmap; 'abx doctor' says more",
                 programs[which]);
    }
    if (--m->left > 0)
        return;
    m->cb(m->data, m->error);
    abx_error_free(m->error);
    free(m);
}

static int start_one(uv_loop_t *loop, abx_range_maps *m, int which, pid_t pid, uint32_t caller,
                     uint32_t sub, uint32_t count, abx_error **err)
{
    static const char environment[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    abx_id_line lines[3];
    char words[10][16];
    char *argv[12] = {(char *)(uintptr_t)programs[which]};
    char *envp[] = {(char *)(uintptr_t)environment, NULL};
    size_t n = abx_id_range_lines(caller, sub, count, lines);
    snprintf(words[0], sizeof(words[0]), "%d", (int)pid);
    argv[1] = words[0];
    for (size_t i = 0; i < n; i++) {
        const uint32_t values[3] = {lines[i].inside, lines[i].outside, lines[i].count};
        for (size_t j = 0; j < 3; j++) {
            char *word = words[1 + 3 * i + j];
            snprintf(word, sizeof(words[0]), "%" PRIu32, values[j]);
            argv[2 + 3 * i + j] = word;
        }
    }
    abx_child_options options = {
        .path = programs[which],
        .argv = argv,
        .envp = envp,
        .stdio = {-1, -1, -1},
        .fd3 = -1,
        .on_exit = on_mapped,
        .data = m,
    };
    ABX_AUTO_ERROR why = NULL;
    if (abx_child_start(loop, &options, &m->children[which], &why) == 0) {
        m->left++;
        return 0;
    }
    if (abx_is_shortage(why->sys_errno))
        return abx_shortage_error(err, why->sys_errno, programs[which]);
    abx_fail(err, ABX_ERR_ISOLATION, "layer 'range' is refused: %s", abx_error_text(why));
    return abx_hint(err, "sudo apt install uidmap; or go on with one id: --allow-weaker range");
}

int abx_range_maps_start(uv_loop_t *loop, pid_t pid, const abx_plan *plan,
                         void (*cb)(void *data, const abx_error *err), void *data,
                         abx_range_maps **out, abx_error **err)
{
    abx_range_maps *m = ABX_NEW(abx_range_maps);
    m->cb = cb;
    m->data = data;
    if (start_one(loop, m, 0, pid, plan->outer_uid, plan->sub_uid, plan->sub_uids, err) < 0 ||
        start_one(loop, m, 1, pid, plan->outer_gid, plan->sub_gid, plan->sub_gids, err) < 0) {
        abx_range_maps_stop(m);
        return -1;
    }
    *out = m;
    return 0;
}

void abx_range_maps_stop(abx_range_maps *m)
{
    if (!m)
        return;
    for (int i = 0; i < 2; i++)
        if (m->children[i])
            abx_child_release(m->children[i]);
    abx_error_free(m->error);
    free(m);
}
