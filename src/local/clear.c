#include "local/clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "local/cgroup.h"
#include "local/folder.h"
#include "local/pool.h"
#include "local/skeleton.h"
#include "local/slots.h"
#include "local/state.h"
#include "local/template/store.h"
#include "local/trash.h"

#define MAKING_S   10   /* a maker writes down what it made some milliseconds after */
#define TIDY_LOOKS 256u /* sandboxes looked at by one command */
#define TIDY_MS    3u   /* spent on removing by one command */

static char **read_ids(abx_local *local, size_t *n)
{
    char **ids = NULL;
    size_t room = 0;
    *n = 0;
    int fd = openat(local->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        abx_close_fd(&fd);
        return NULL;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!abx_is_id(e->d_name))
            continue;
        if (*n == room) {
            room = room ? 2 * room : 16;
            ids = (char **)abx_realloc(ids, room * sizeof(*ids));
        }
        ids[(*n)++] = abx_strdup(e->d_name);
    }
    closedir(d);
    return ids ? ids : (char **)abx_alloc(sizeof(*ids));
}

int abx_each_sandbox(abx_local *local, size_t limit,
                     void (*fn)(void *data, const char *id, int folder, bool alive), void *data)
{
    size_t n, start = 0;
    abx_local_look(local);
    if (local->sandboxes_fd < 0)
        return 0;
    char **ids = read_ids(local, &n);
    if (!ids)
        return -1;
    if (limit && n > limit) {
        uint32_t random;
        abx_random_bytes(&random, sizeof(random));
        start = random % n;
    }
    for (size_t i = 0; i < n && (!limit || i < limit); i++) {
        const char *id = ids[(start + i) % n];
        ABX_AUTO_FD folder = abx_folder_open(local, id);
        if (folder >= 0)
            fn(data, id, folder, abx_folder_alive(folder));
    }
    for (size_t i = 0; i < n; i++)
        free(ids[i]);
    free(ids);
    return 0;
}

bool abx_clear_dead(abx_local *local, const char *id, int folder)
{
    char name[64];
    ABX_AUTO_FD lock = openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return false;
    /* The lock is free: no process of it lives, or the maker has not got so far; then it finds its folder gone and
     * makes another. */
    ABX_AUTO_STATE state = {0};
    if (abx_state_read(folder, &state, NULL) == 0)
        (void)abx_uplink_end(&state.helper, state.boot_id);
    return abx_trash_move(local, id, name) == 0;
}

void abx_clear_unborn(int folder)
{
    struct stat st;
    abx_state s;
    if (fstat(folder, &st) < 0 || time(NULL) - st.st_mtime < MAKING_S)
        return;
    pid_t pid = abx_folder_peer(folder);
    if (pid <= 1)
        return; /* it does not serve: it ends by itself when its maker is gone */
    ABX_AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* again, now that the process is held: it is that one, and still nobody wrote down what it is */
    if (pidfd < 0 || abx_folder_peer(folder) != pid)
        return;
    if (abx_state_read(folder, &s, NULL) == 1)
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    else
        abx_state_clear(&s);
}

/* --- gc ---------------------------------------------------------------------------------------------- */

typedef struct sweep {
    abx_local *local;
    yyjson_mut_doc *d; /* NULL: nobody asks */
    yyjson_mut_val *removed;
    bool dry;
    size_t dead;
    char **used; /* skeletons of the living */
    size_t used_count;
} sweep;

static void note(sweep *s, const char *id, const char *what)
{
    if (!s->d)
        return;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(s->d, s->removed);
    abx_mut_str(s->d, o, "id", id);
    abx_mut_str(s->d, o, "what", what);
}

static void on_sandbox(void *data, const char *id, int folder, bool alive)
{
    sweep *s = (sweep *)data;
    if (!alive) {
        if (s->dry || abx_clear_dead(s->local, id, folder)) {
            s->dead++;
            note(s, id, "dead sandbox");
        }
        return;
    }
    ABX_AUTO_STATE state = {0};
    int rc = s->d ? abx_state_read(folder, &state, NULL) : -1;
    if (rc == 1 && !s->dry)
        abx_clear_unborn(folder);
    if (rc != 0)
        return;
    s->used = (char **)abx_realloc(s->used, (s->used_count + 1) * sizeof(*s->used));
    s->used[s->used_count++] = abx_strdup(state.skeleton);
}

static size_t count_trash(abx_local *local)
{
    int fd =
        local->trash_fd < 0 ? -1 : openat(local->trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

yyjson_doc *abx_local_gc(abx_local *local, bool dry, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    sweep s = {.local = local, .d = d, .removed = abx_mut_arr(d, root, "removed"), .dry = dry};
    abx_local_look(local);
    size_t trash = count_trash(local);
    if (abx_each_sandbox(local, 0, on_sandbox, &s) < 0)
        abx_logf(local->log, ABX_LOG_WARN, "cannot read '%s/sandboxes': %s", local->base,
                 strerror(errno));
    if (trash > 0)
        note(&s, "trash", "rest of an ended sandbox");
    if (!dry) {
        (void)abx_trash_empty(local, 0);
        abx_pool_sweep(local);
    }
    abx_cgroup_map map;
    abx_cgroup_map_read(&map);
    for (int i = abx_cgroup_sweep(&map, dry); i > 0; i--)
        note(&s, "cgroup", "control group of a sandbox that is gone");
    abx_cgroup_map_clear(&map);
    abx_store store;
    if (abx_store_open(local, false, &store, NULL) == 0) {
        for (int i = abx_store_sweep(&store, dry); i > 0; i--)
            note(&s, "layer", "layer or template that nothing uses");
        abx_store_close(&store);
    }
    int skeletons = abx_skeleton_sweep(local, s.used, s.used_count, dry);
    for (int i = 0; i < skeletons; i++)
        note(&s, "skeleton", "skeleton of an older state of the host");
    if (!dry && geteuid() == 0)
        for (int i = abx_slot_sweep(ABX_SLOTS_DIR); i > 0; i--)
            note(&s, "slot", "id slot of a sandbox that is gone");
    for (size_t i = 0; i < s.used_count; i++)
        free(s.used[i]);
    free(s.used);
    return abx_json_freeze(d);
}

void abx_local_tidy(abx_local *local)
{
    sweep s = {.local = local};
    abx_local_look(local);
    (void)abx_each_sandbox(local, TIDY_LOOKS, on_sandbox, &s);
    (void)abx_trash_empty(local, TIDY_MS);
}
