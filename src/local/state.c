#include "local/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#define STATE_MAX (4u << 20)

void abx_boot_id(char out[40])
{
    ABX_AUTO_BUF b = ABX_BUF(64);
    out[0] = 0;
    if (abx_read_file("/proc/sys/kernel/random/boot_id", b.max, &b, NULL) != 0)
        return;
    snprintf(out, 40, "%.36s", abx_buf_cstr(&b));
}

int abx_process_start(pid_t pid, uint64_t *start, bool *is_zombie)
{
    char path[40], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    /* the name is in parentheses and may hold any character; the state is field 3 */
    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ')
        return -1;
    p += 2;
    *is_zombie = *p == 'Z' || *p == 'X';
    for (int field = 3; field < 22 && p; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return -1;
    *start = strtoull(p, NULL, 10);
    return 0;
}

int abx_state_pidfd(const abx_state *state)
{
    char boot_id[40];
    uint64_t start = 0;
    bool is_zombie = false;
    if (state->pid <= 0)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, state->pid, 0);
    if (fd < 0)
        return -1;
    abx_boot_id(boot_id);
    if (!abx_str_eq(boot_id, state->boot_id) ||
        abx_process_start(state->pid, &start, &is_zombie) < 0 || start != state->start) {
        close(fd);
        return -1;
    }
    return fd;
}

static const char *const ids_names[] = {"single", "range", "slot"};

static void read_members(yyjson_val *v, abx_state *s)
{
    s->id = abx_strdup(abx_json_str(v, "id", NULL));
    s->name = abx_strdup(abx_json_str(v, "name", NULL));
    s->idempotency_key = abx_strdup(abx_json_str(v, "idempotencyKey", NULL));
    s->pid = (pid_t)abx_json_int(v, "pid", 0);
    s->start = (uint64_t)abx_json_int(v, "start", 0);
    snprintf(s->boot_id, sizeof(s->boot_id), "%s", abx_json_str(v, "bootId", ""));
    s->pid_ns = (uint64_t)abx_json_int(v, "pidNs", 0);
    s->uid = (uid_t)abx_json_int(v, "uid", -1);
    s->slot = (int)abx_json_int(v, "slot", -1);
    snprintf(s->skeleton, sizeof(s->skeleton), "%s", abx_json_str(v, "skeleton", ""));
    s->upper = abx_strdup(abx_json_str(v, "upper", NULL));
    s->token = abx_strdup(abx_json_str(v, "token", NULL));
    s->created_wall_ms = abx_json_int(v, "createdMs", 0);
    s->expires_wall_ms = abx_json_int(v, "expiresMs", INT64_MAX);
    s->expires_boot_ms = (uint64_t)abx_json_int(v, "expiresBootMs", -1);
    s->idle_ms = (uint64_t)abx_json_int(v, "idleMs", 0);
    s->pause_on_limit = abx_json_bool(v, "pauseOnLimit", false);
    s->tied = abx_json_bool(v, "tied", false);
    s->copied_root = abx_json_bool(v, "copiedRoot", false);
    s->plain_usr = abx_json_bool(v, "plainUsr", false);
    s->weakened = (uint32_t)abx_json_int(v, "weakened", 0);
    abx_limits_read(abx_json_get(v, "limits"), &s->limits);
    s->freezer = abx_strdup(abx_json_str(v, "freezer", NULL));
    (void)abx_network_parse(abx_json_str(v, "network", NULL), &s->network, NULL);
    yyjson_val *helper = abx_json_get(v, "networkHelper");
    s->helper.name = abx_uplink_name(abx_json_str(helper, "name", NULL));
    s->helper.pid = s->helper.name ? (pid_t)abx_json_int(helper, "pid", 0) : 0;
    s->helper.start = (uint64_t)abx_json_int(helper, "start", 0);
    yyjson_val *metadata = abx_json_get(v, "metadata");
    s->metadata = yyjson_is_obj(metadata) ? abx_json_copy(metadata) : NULL;
    yyjson_val *origin = abx_json_get(v, "origin");
    s->origin = yyjson_is_obj(origin) ? abx_json_copy(origin) : NULL;
    const char *ids = abx_json_str(v, "ids", "");
    s->ids = -1;
    for (size_t i = 0; i < ABX_COUNT(ids_names); i++)
        if (abx_str_eq(ids, ids_names[i]))
            s->ids = (int)i;
}

int abx_state_read(int folder_fd, abx_state *out, abx_error **err)
{
    memset(out, 0, sizeof(*out));
    ABX_AUTO_BUF text = ABX_BUF(STATE_MAX);
    int rc = abx_read_file_at(folder_fd, "state.json", text.max, &text, err);
    if (rc != 0)
        return rc;
    if (text.len == 0)
        return 1;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_LOCAL_STATE, "state.json", err);
    if (!doc)
        return -1;
    read_members(yyjson_doc_get_root(doc), out);
    if (out->id && out->token && out->pid > 0 && out->ids >= 0)
        return 0;
    abx_state_clear(out);
    return abx_fail(err, ABX_ERR_LOCAL_STATE, "a member is missing in 'state.json'");
}

static int state_text(const abx_state *s, abx_buf *text, abx_error **err)
{
    yyjson_mut_val *o;
    ABX_AUTO_MUT d = abx_mut_new(&o);
    abx_mut_str(d, o, "id", s->id);
    abx_mut_str(d, o, "name", s->name);
    abx_mut_str(d, o, "idempotencyKey", s->idempotency_key);
    abx_mut_int(d, o, "pid", s->pid);
    abx_mut_int(d, o, "start", (int64_t)s->start);
    abx_mut_str(d, o, "bootId", s->boot_id);
    abx_mut_int(d, o, "pidNs", (int64_t)s->pid_ns);
    abx_mut_str(d, o, "ids", ids_names[s->ids]);
    abx_mut_int(d, o, "uid", s->uid);
    if (s->slot >= 0)
        abx_mut_int(d, o, "slot", s->slot);
    abx_mut_str(d, o, "skeleton", s->skeleton);
    abx_mut_str(d, o, "upper", s->upper);
    abx_mut_str(d, o, "token", s->token);
    abx_mut_int(d, o, "createdMs", s->created_wall_ms);
    if (s->expires_wall_ms != INT64_MAX) {
        abx_mut_int(d, o, "expiresMs", s->expires_wall_ms);
        abx_mut_int(d, o, "expiresBootMs", (int64_t)s->expires_boot_ms);
    }
    if (s->idle_ms > 0)
        abx_mut_int(d, o, "idleMs", (int64_t)s->idle_ms);
    if (s->pause_on_limit)
        abx_mut_bool(d, o, "pauseOnLimit", true);
    abx_mut_bool(d, o, "tied", s->tied);
    abx_mut_bool(d, o, "copiedRoot", s->copied_root);
    abx_mut_bool(d, o, "plainUsr", s->plain_usr);
    abx_mut_int(d, o, "weakened", s->weakened);
    abx_limits_write(d, o, &s->limits);
    abx_mut_str(d, o, "freezer", s->freezer);
    if (s->network != ABX_NETWORK_NONE)
        abx_mut_str(d, o, "network", abx_network_name(s->network));
    if (s->helper.pid > 0) {
        yyjson_mut_val *helper = abx_mut_obj(d, o, "networkHelper");
        abx_mut_str(d, helper, "name", s->helper.name);
        abx_mut_int(d, helper, "pid", s->helper.pid);
        abx_mut_int(d, helper, "start", (int64_t)s->helper.start);
    }
    if (s->metadata)
        abx_mut_val(d, o, "metadata", yyjson_doc_get_root(s->metadata));
    if (s->origin)
        abx_mut_val(d, o, "origin", yyjson_doc_get_root(s->origin));
    if (abx_json_write_mut(o, text) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the metadata of a sandbox is over 4 MiB");
    return 0;
}

int abx_state_write(int folder_fd, const abx_state *s, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(STATE_MAX);
    if (state_text(s, &text, err) < 0)
        return -1;
    return abx_write_atomic_at(folder_fd, "state.json", text.data, text.len, 0600, false, err);
}

int abx_state_begin(int folder_fd, const abx_state *s, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(STATE_MAX);
    if (state_text(s, &text, err) < 0)
        return -1;
    ABX_AUTO_FD fd =
        openat(folder_fd, "state.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || abx_write_full(fd, text.data, text.len) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot write 'state.json'");
    return 0;
}

void abx_state_add_record(abx_state *s, int folder_fd)
{
    abx_record record;
    if (!abx_record_read(folder_fd, &record))
        return;
    s->paused = record.paused != 0;
    s->pause_way = (abx_pause_way)record.way;
    s->paused_wall_ms = record.paused_wall_ms;
    s->left_ms = record.left_ms;
    s->expires_wall_ms = record.expires_wall_ms;
}

void abx_state_clear(abx_state *s)
{
    free(s->id);
    free(s->name);
    free(s->idempotency_key);
    free(s->upper);
    free(s->freezer);
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    yyjson_doc_free(s->metadata);
    yyjson_doc_free(s->origin);
    memset(s, 0, sizeof(*s));
}
