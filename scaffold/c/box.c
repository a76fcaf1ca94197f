/* sandbox.*: a sandbox is a folder of this machine, known by what lies in it, so that any run of this program finds it. */
#include "box.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIFE_MS 3600000

static char root_path[256];

static const char *root(void)
{
    if (!root_path[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(root_path, sizeof root_path, "%.180s/abx-@NAME@-%u", tmp && tmp[0] ? tmp : "/tmp", (unsigned)getuid());
    }
    return root_path;
}

void box_root(const char *folder)
{
    snprintf(root_path, sizeof root_path, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
}

/* --- small things ------------------------------------------------------------------------------------------------ */

char *read_file(const char *path, size_t *n)
{
    epp_text t = {0};
    char part[16384];
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    epp_add(&t, "", 0);
    while ((got = read(fd, part, sizeof part)) > 0)
        epp_add(&t, part, (size_t)got);
    close(fd);
    if (n)
        *n = t.len;
    return t.data;
}

int write_file(const char *path, const char *text, size_t n)
{
    char fresh[640];
    snprintf(fresh, sizeof fresh, "%s.%d.new", path, (int)getpid());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    bool good = write(fd, text, n) == (ssize_t)n;
    return close(fd) == 0 && good ? rename(fresh, path) : -1;
}

long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void format_time(long long ms, char out[32])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / 1000);
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, 32 - n, ".%03uZ", (unsigned)(ms % 1000) % 1000);
}

static bool has_mark(const char *pid, const char *mark)
{
    char path[64];
    size_t n = 0, want = strlen(mark) + 1;
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    char *all = read_file(path, &n);
    bool found = n >= want && memcmp(all, mark, want) == 0;
    for (size_t i = 0; all && !found && i + 1 + want <= n; i++)
        found = all[i] == 0 && memcmp(all + i + 1, mark, want) == 0;
    free(all);
    return found;
}

void kill_marked(const char *mark, pid_t group)
{
    if (group > 0)
        kill(-group, SIGKILL);
    /* Twice: one that is just becoming another program shows no environment. */
    for (int quiet = 0; quiet < 2; quiet++) {
        struct dirent *e;
        DIR *proc = opendir("/proc");
        while (proc && (e = readdir(proc)))
            if (isdigit((unsigned char)e->d_name[0]) && has_mark(e->d_name, mark) && kill(atoi(e->d_name), SIGKILL) == 0)
                quiet = -1;
        if (proc)
            closedir(proc);
        usleep(5000);
    }
}

/* --- a box ------------------------------------------------------------------------------------------------------------ */

static bool is_id(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");
    return n > 0 && n <= 64 && id[n] == 0;
}

static void box_open(box *b, const char *id)
{
    char path[640];
    size_t n = 0;
    *b = (box){.id = id};
    snprintf(b->folder, sizeof b->folder, "%s/%s", root(), id);
    snprintf(b->home, sizeof b->home, "%s/home", b->folder);
    snprintf(path, sizeof path, "%s/box.json", b->folder);
    char *text = read_file(path, &n);
    b->about = text ? epp_parse(text, n) : NULL;
    free(text);
}

void box_clear(box *b)
{
    epp_free(b->about);
    b->about = NULL;
}

/* First it is not there any more, then what runs in it is ended, then its files go. */
static void box_remove(box *b)
{
    char gone[640], jobs[700], mark[128];
    struct dirent *e;
    snprintf(gone, sizeof gone, "%s/.gone-%s", root(), b->id);
    snprintf(mark, sizeof mark, "ABX_SANDBOX=%s", b->id);
    box_clear(b);
    if (rename(b->folder, gone) < 0)
        return; /* another was faster */
    snprintf(jobs, sizeof jobs, "%s/jobs", gone);
    DIR *d = opendir(jobs);
    while (d && (e = readdir(d))) {
        char ended[1024];
        snprintf(ended, sizeof ended, "%s/%.*s.exit", jobs, (int)strcspn(e->d_name, "."), e->d_name);
        if (strstr(e->d_name, ".json") && access(ended, F_OK) < 0)
            kill(-atoi(e->d_name + 1), SIGKILL);
    }
    if (d)
        closedir(d);
    kill_marked(mark, 0);
    remove_tree(gone);
}

static bool lives(box *b)
{
    long long expires = epp_int(b->about, "expires", 0);
    if (b->about && expires > 0 && expires < now_ms())
        box_remove(b);
    return b->about != NULL;
}

bool box_lives(const char *id)
{
    box b;
    box_open(&b, id);
    bool is = lives(&b);
    box_clear(&b);
    return is;
}

int box_of(epp_call *call, box *b)
{
    const char *id = epp_str(call->params, "sandboxId", "");
    *b = (box){0};
    if (is_id(id)) {
        box_open(b, id);
        if (lives(b))
            return 0;
    }
    return epp_fail(call, "E3001", "there is no sandbox '%s'", id);
}

/* A JSON object of texts, as it came. */
static void add_map(epp_text *t, const char *name, const epp_json *map)
{
    epp_addf(t, ",\"%s\":{", name);
    for (const epp_json *m = map ? map->first : NULL; m; m = m->next) {
        if (m != map->first)
            epp_add(t, ",", 1);
        epp_add_json(t, m->name, strlen(m->name));
        epp_add(t, ":", 1);
        epp_add_json(t, m->text, m->len);
    }
    epp_add(t, "}", 1);
}

/* from: the parameters of create, or what is known already. */
static int box_save(const box *b, const epp_json *from, long long created, long long expires)
{
    char path[640];
    epp_text t = {0};
    epp_add(&t, "{", 1);
    epp_number(&t, "created", created);
    epp_number(&t, "expires", expires);
    epp_member(&t, "name", epp_str(from, "name", NULL));
    add_map(&t, "metadata", epp_get(from, "metadata"));
    add_map(&t, "env", epp_get(from, "env"));
    epp_add(&t, "}", 1);
    snprintf(path, sizeof path, "%s/box.json", b->folder);
    int rc = write_file(path, t.data, t.len);
    free(t.data);
    return rc;
}

static void set_life(box *b, long long ms)
{
    box_save(b, b->about, epp_int(b->about, "created", 0), ms ? now_ms() + ms : 0);
    epp_free(b->about);
    box_open(b, b->id);
}

static void add_expiry(epp_text *t, const box *b)
{
    char at[32];
    long long expires = epp_int(b->about, "expires", 0);
    format_time(expires, at);
    epp_member(t, "expiresAt", expires ? at : NULL);
}

static void describe(epp_text *t, const box *b)
{
    char at[32];
    format_time(epp_int(b->about, "created", 0), at);
    epp_member(t, "id", b->id);
    epp_member(t, "name", epp_str(b->about, "name", NULL));
    epp_member(t, "state", "running");
    epp_member(t, "createdAt", at);
    add_expiry(t, b);
    add_map(t, "metadata", epp_get(b->about, "metadata"));
}

/* --- the methods ------------------------------------------------------------------------------------------------------- */

static void random_id(char out[17])
{
    unsigned char bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort();
    for (int i = 0; i < 8; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
}

int sandbox_create(epp_call *call)
{
    char own[17], jobs[640];
    box b;
    if (epp_accept(call, "id name metadata env timeoutMs idempotencyKey") < 0)
        return -1;
    random_id(own);
    box_open(&b, epp_str(call->params, "id", own));
    box_clear(&b);
    snprintf(jobs, sizeof jobs, "%s/jobs", b.folder);
    mkdir(root(), 0700);
    if (!is_id(b.id) || mkdir(b.folder, 0700) < 0 || mkdir(b.home, 0700) < 0 || mkdir(jobs, 0700) < 0)
        return epp_fail_errno(call, b.folder);
    long long life = epp_int(call->params, "timeoutMs", DEFAULT_LIFE_MS);
    if (box_save(&b, call->params, now_ms(), life ? now_ms() + life : 0) < 0)
        return epp_fail_errno(call, b.folder);
    box_open(&b, b.id);
    describe(&call->result, &b);
    box_clear(&b);
    return 0;
}

int sandbox_info(epp_call *call)
{
    box b;
    if (box_of(call, &b) < 0)
        return -1;
    describe(&call->result, &b);
    box_clear(&b);
    return 0;
}

int sandbox_kill(epp_call *call)
{
    box b;
    if (box_of(call, &b) < 0)
        return -1;
    box_remove(&b);
    return 0;
}

/* Renews the life of a sandbox, never shortens it. */
int sandbox_connect(epp_call *call)
{
    box b;
    if (box_of(call, &b) < 0)
        return -1;
    long long ms = epp_int(call->params, "timeoutMs", -1), expires = epp_int(b.about, "expires", 0);
    if (expires && (ms == 0 || (ms > 0 && now_ms() + ms > expires)))
        set_life(&b, ms);
    describe(&call->result, &b);
    box_clear(&b);
    return 0;
}

static bool has_labels(const box *b, const epp_json *wanted)
{
    const epp_json *have = epp_get(b->about, "metadata");
    for (const epp_json *w = wanted ? wanted->first : NULL; w; w = w->next)
        if (strcmp(epp_str(have, w->name, "\1"), w->text) != 0)
            return false;
    return true;
}

int sandbox_list(epp_call *call)
{
    struct dirent *e;
    DIR *d = opendir(root());
    bool first = true;
    epp_addf(&call->result, "\"sandboxes\":[");
    while (d && (e = readdir(d))) {
        if (!is_id(e->d_name))
            continue;
        box b;
        box_open(&b, e->d_name);
        if (lives(&b) && has_labels(&b, epp_get(call->params, "metadata"))) {
            epp_addf(&call->result, "%s{", first ? "" : ",");
            describe(&call->result, &b);
            epp_add(&call->result, "}", 1);
            first = false;
        }
        box_clear(&b);
    }
    if (d)
        closedir(d);
    epp_add(&call->result, "]", 1);
    return 0;
}

int sandbox_set_timeout(epp_call *call)
{
    box b;
    if (box_of(call, &b) < 0)
        return -1;
    set_life(&b, epp_int(call->params, "timeoutMs", 0));
    add_expiry(&call->result, &b);
    box_clear(&b);
    return 0;
}
