#include "local/remover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "local/descriptors.h"
#include "local/pool.h"
#include "local/slots.h"
#include "local/state.h"
#include "local/trash.h"

#define NAME_SIZE     64 /* of the message: a name in the trash */
#define BUSY_TRIES    200
#define BUSY_PAUSE_MS 10

typedef struct work {
    abx_local *local;
    const char *id;
    int pidfd, slot, orders;
    bool has_network;
} work;

static void wait_for_end(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
}

/* The folder's name in the trash: by order, or because the maker is gone and the sandbox too. False: no folder. */
static bool learn_name(const work *w, char name[NAME_SIZE])
{
    ssize_t n;
    while ((n = read(w->orders, name, NAME_SIZE)) < 0 && errno == EINTR)
        ;
    if (n == NAME_SIZE)
        return true;
    wait_for_end(w->pidfd);
    return abx_trash_move(w->local, w->id, name) == 0;
}

/* The kernel ends the helper with the sandbox; one that slipped away could not be found without the folder. */
static void end_helper(const work *w, const char *name)
{
    ABX_AUTO_STATE state = {0};
    ABX_AUTO_FD fd =
        openat(w->local->trash_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && abx_state_read(fd, &state, NULL) == 0)
        (void)abx_uplink_end(&state.helper, state.boot_id);
}

/* It holds nothing of its maker's but what it works with: no pipe waits for it, no terminal ends it. */
static _Noreturn void remover_main(work *w)
{
    abx_local *local = w->local;
    char name[NAME_SIZE];
    int *const kept[] = {&local->base_fd, &local->sandboxes_fd, &local->trash_fd, &w->pidfd,
                         &w->orders};
    setsid();
    local->log = NULL;
    if (abx_keep_only(kept, ABX_COUNT(kept)) < 0 || !learn_name(w, name))
        _exit(0);
    /* While removers hold this, commands that tidy up leave the trash to them. */
    int lock = openat(local->trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        (void)flock(lock, LOCK_SH | LOCK_NB);
    abx_pool_fill(local); /* before the removal: where the trash is empty, nobody is at work */
    wait_for_end(w->pidfd);
    if (w->has_network)
        end_helper(w, name);
    int rc = abx_trash_remove(local, name, ABX_FOREVER, NULL);
    for (int i = 0; rc == ABX_TRASH_BUSY && i < BUSY_TRIES; i++) {
        (void)poll(NULL, 0, BUSY_PAUSE_MS);
        rc = abx_trash_remove(local, name, ABX_FOREVER, NULL);
    }
    if (rc == 0 && w->slot >= 0)
        abx_slot_free(ABX_SLOTS_DIR, w->slot, local->base, w->id);
    _exit(0);
}

void abx_remover_start(abx_local *local, const char *id, int pidfd, int slot, bool has_network)
{
    int ends[2];
    if (local->remover.orders >= 0 || pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        work w = {local, id, pidfd, slot, ends[0], has_network};
        remover_main(&w);
    }
    abx_close_fd(&ends[0]);
    if (pid < 0) {
        abx_close_fd(&ends[1]);
        return;
    }
    local->remover.orders = ends[1];
    snprintf(local->remover.id, sizeof(local->remover.id), "%s", id);
}

int abx_remover_hand_over(abx_local *local, const char *id, const char name[64])
{
    if (local->remover.orders < 0 || strcmp(local->remover.id, id) != 0)
        return -1;
    ABX_AUTO_FD orders = abx_take_fd(&local->remover.orders);
    return write(orders, name, NAME_SIZE) == NAME_SIZE ? 0
                                                       : -1; /* SIGPIPE is ignored by the program */
}
