#include "local/template/users.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "local/clear.h"
#include "local/state.h"
#include "local/template/base_layer.h"

typedef struct search {
    const char *template_id; /* looked for; or NULL */
    char *found;
    abx_used *used; /* filled; or NULL */
} search;

static void add(abx_used *u, const char *name)
{
    if (u->count == u->room) {
        u->room = u->room ? 2 * u->room : 64;
        u->names = abx_realloc(u->names, u->room * sizeof(*u->names));
    }
    memcpy(u->names[u->count], name, ABX_STORE_ID);
    u->names[u->count++][ABX_STORE_ID] = 0;
}

/* "NAMEk:NAMEk:…" */
static void add_lower(abx_used *u, const char *lower)
{
    for (const char *p = lower; p && *p; p += strcspn(p, ":"), p += *p == ':')
        if (strcspn(p, ":") >= ABX_STORE_ID)
            add(u, p);
}

static void on_sandbox(void *data, const char *id, int folder, bool alive)
{
    search *q = (search *)data;
    ABX_AUTO_STATE state = {0};
    if (!alive || abx_state_read(folder, &state, NULL) != 0)
        return;
    yyjson_val *origin = state.origin ? yyjson_doc_get_root(state.origin) : NULL;
    if (q->used)
        add_lower(q->used, abx_json_str(origin, "lower", NULL));
    if (q->template_id && !q->found &&
        abx_str_eq(abx_json_str(origin, "templateId", NULL), q->template_id))
        q->found = abx_format("sandbox '%s'", id);
}

/* Call fn with each whole record of a folder. */
static void each_record(int folder, const char *file,
                        void (*fn)(search *q, const char *id, yyjson_val *record), search *q)
{
    int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        ABX_AUTO_JSON doc =
            e->d_name[0] == '.' ? NULL : abx_store_read(folder, e->d_name, file, NULL);
        if (doc)
            fn(q, e->d_name, yyjson_doc_get_root(doc));
    }
    if (d)
        closedir(d);
}

static void on_snapshot(search *q, const char *id, yyjson_val *r)
{
    if (q->used)
        add_lower(q->used, abx_json_str(r, "lower", NULL));
    if (q->template_id && !q->found &&
        abx_str_eq(abx_json_str(r, "templateId", NULL), q->template_id))
        q->found = abx_format("snapshot '%s'", id);
}

static void on_template(search *q, const char *id, yyjson_val *r)
{
    abx_sha256 base;
    size_t i, n;
    yyjson_val *layer;
    (void)id;
    yyjson_arr_foreach(abx_json_get(r, "layers"), i, n, layer)
    {
        if (yyjson_get_len(layer) >= ABX_STORE_ID)
            add(q->used, yyjson_get_str(layer));
    }
    abx_base_digest(abx_json_str(r, "digest", ""), base);
    add(q->used, base);
}

char *abx_template_user(abx_store *s, const char *id)
{
    search q = {.template_id = id};
    (void)abx_each_sandbox(s->local, 0, on_sandbox, &q);
    if (!q.found)
        each_record(s->snapshots, "snapshot.json", on_snapshot, &q);
    return q.found;
}

void abx_used_collect(abx_store *s, abx_used *out)
{
    search q = {.used = out};
    (void)abx_each_sandbox(s->local, 0, on_sandbox, &q);
    each_record(s->snapshots, "snapshot.json", on_snapshot, &q);
    each_record(s->templates, "template.json", on_template, &q);
}

bool abx_used_has(const abx_used *u, const char *name)
{
    for (size_t i = 0; i < u->count; i++)
        if (strncmp(u->names[i], name, ABX_STORE_ID) == 0)
            return true;
    return false;
}

void abx_used_clear(abx_used *u)
{
    free(u->names);
    memset(u, 0, sizeof(*u));
}
