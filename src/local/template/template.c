/* Looking at templates and removing them. */
#include "local/template/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/users.h"

/* --- objects ----------------------------------------------------------------------------------------- */

static void add_host(yyjson_mut_doc *d, yyjson_mut_val *o)
{
    abx_mut_str(d, o, "id", "host");
    abx_mut_str(d, o, "name", "host");
    abx_mut_str(d, o, "kind", "host");
    abx_mut_str(d, o, "source", "the system of this machine, read-only");
    abx_mut_str(d, o, "user", "user");
    abx_mut_str(d, o, "workdir", "/home/user");
}

static void add_record(yyjson_mut_doc *d, yyjson_mut_val *o, const char *name, yyjson_val *r)
{
    static const char *const texts[] = {"kind", "digest", "source"};
    static const char *const members[] = {"platform", "user", "workdir", "env", "command"};
    char when[ABX_RFC3339_SIZE];
    yyjson_val *config = abx_json_get(r, "config");
    abx_mut_str(d, o, "id", abx_json_str(r, "id", ""));
    abx_mut_str(d, o, "name", name);
    for (size_t i = 0; i < ABX_COUNT(texts); i++)
        abx_mut_str(d, o, texts[i], abx_json_str(r, texts[i], NULL));
    abx_format_rfc3339(abx_json_int(r, "createdMs", 0), when);
    abx_mut_str(d, o, "createdAt", when);
    abx_mut_int(d, o, "size", abx_json_int(r, "size", 0));
    abx_mut_int(d, o, "layers", (int64_t)yyjson_arr_size(abx_json_get(r, "layers")));
    for (size_t i = 0; i < ABX_COUNT(members); i++)
        if (abx_json_get(config, members[i]))
            abx_mut_val(d, o, members[i], abx_json_get(config, members[i]));
}

/* The first name, by the alphabet, that leads to id; owned, or NULL. *count: how many do. */
static char *name_of(abx_store *s, const char *id, size_t *count)
{
    int fd = s->names < 0 ? -1 : openat(s->names, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char *best = NULL, found[ABX_STORE_ID + 1];
    *count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!abx_is_template_name(e->d_name) || abx_store_find(s, e->d_name, found) != 1 ||
            strcmp(found, id) != 0)
            continue;
        ++*count;
        if (best && strcmp(best, e->d_name) <= 0)
            continue;
        free(best);
        best = abx_strdup(e->d_name);
    }
    if (d)
        closedir(d);
    return best;
}

static int fail_unknown(const char *word, abx_error **err)
{
    ABX_AUTO_FREE char *safe = abx_printable(word);
    abx_fail(err, ABX_ERR_TEMPLATE_NOT_FOUND, "there is no template '%.80s'", safe);
    return abx_hint(err, "'abx template ls' lists them; 'abx template add NAME SOURCE' adds one");
}

yyjson_mut_val *abx_template_object(abx_store *s, yyjson_mut_doc *d, const char *word,
                                    abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    size_t names;
    yyjson_mut_val *o = yyjson_mut_obj(d);
    if (abx_str_eq(word, "host")) {
        add_host(d, o);
        return o;
    }
    abx_error *why = NULL;
    ABX_AUTO_JSON record = abx_store_find(s, word, id) == 1
                               ? abx_store_read(s->templates, id, "template.json", &why)
                               : NULL;
    if (why)
        abx_error_take(err, why);
    else if (!record)
        fail_unknown(word, err);
    if (!record)
        return NULL;
    ABX_AUTO_FREE char *name = abx_str_eq(word, id) ? name_of(s, id, &names) : abx_strdup(word);
    add_record(d, o, name, yyjson_doc_get_root(record));
    return o;
}

/* --- list -------------------------------------------------------------------------------------------- */

typedef struct words {
    char **items;
    size_t count;
} words;

static void add_word(words *w, const char *word)
{
    w->items = (char **)abx_realloc(w->items, (w->count + 1) * sizeof(char *));
    w->items[w->count++] = abx_strdup(word);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void collect(int folder, words *w)
{
    int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "names") != 0)
            add_word(w, e->d_name);
    if (d)
        closedir(d);
    if (w->count > 1)
        qsort(w->items, w->count, sizeof(char *), compare);
}

static void free_words(words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
}

int abx_template_list(abx_store *s, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err)
{
    yyjson_mut_val *list = abx_mut_arr(d, root, "templates");
    words names = {0}, ids = {0};
    (void)err;
    yyjson_mut_arr_append(list, abx_template_object(s, d, "host", NULL));
    collect(s->names, &names);
    collect(s->templates, &ids);
    for (size_t i = 0; i < names.count; i++) {
        yyjson_mut_val *o = abx_template_object(s, d, names.items[i], NULL);
        if (o)
            yyjson_mut_arr_append(list, o);
    }
    for (size_t i = 0; i < ids.count; i++) {
        size_t count;
        ABX_AUTO_FREE char *name = name_of(s, ids.items[i], &count);
        yyjson_mut_val *o = name ? NULL : abx_template_object(s, d, ids.items[i], NULL);
        if (o)
            yyjson_mut_arr_append(list, o);
    }
    free_words(&names);
    free_words(&ids);
    return 0;
}

/* --- removal ----------------------------------------------------------------------------------------- */

/* Out of its place in one step; what is left of it is nobody's. */
static int remove_record(abx_store *s, const char *id, abx_error **err)
{
    ABX_AUTO_FREE char *gone = abx_format(".gone-%s", id);
    (void)abx_remove_tree_at(s->templates, gone, NULL);
    if (renameat(s->templates, id, s->templates, gone) < 0 && errno != ENOENT)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot remove template '%s'", id);
    return abx_remove_tree_at(s->templates, gone, err);
}

static int remove_locked(abx_store *s, const char *word, abx_error **err)
{
    char id[ABX_STORE_ID + 1];
    size_t names = 0;
    if (abx_store_find(s, word, id) != 1)
        return fail_unknown(word, err);
    ABX_AUTO_FREE char *name = name_of(s, id, &names);
    bool by_id = abx_str_eq(word, id);
    if (!by_id && names > 1) /* the others still lead to it */
        return unlinkat(s->names, word, 0) < 0
                   ? abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot remove '%s'", word)
                   : 0;
    ABX_AUTO_FREE char *user = abx_template_user(s, id);
    if (user) {
        abx_fail(err, ABX_ERR_CONFLICT, "template '%s' is used by %s", word, user);
        return abx_hint(err,
                        "end it first: 'abx kill' for a sandbox, 'abx snapshot rm' for a snapshot");
    }
    if (by_id && name) {
        abx_fail(err, ABX_ERR_CONFLICT, "template '%s' has the name '%s'", word, name);
        return abx_hint(err, "'abx template rm %s'", name);
    }
    if (name && unlinkat(s->names, name, 0) < 0)
        return abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot remove '%s'", word);
    return remove_record(s, id, err);
}

int abx_template_remove(abx_store *s, const char *word, abx_error **err)
{
    if (abx_str_eq(word, "host"))
        return abx_fail(err, ABX_ERR_USAGE, "template 'host' is this machine's own system");
    ABX_AUTO_FD lock = abx_store_take(s, ABX_LOCK_USE, true, true, err);
    if (lock < 0 || remove_locked(s, word, err) < 0)
        return -1;
    abx_close_fd(&lock);
    (void)abx_store_sweep(s, false);
    return 0;
}
