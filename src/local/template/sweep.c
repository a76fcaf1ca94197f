/* Removing what nothing in the store refers to any more. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "local/template/store.h"
#include "local/template/users.h"

static DIR *list(int folder)
{
    int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

static bool is_digits(const char *name)
{
    return strspn(name, "0123456789abcdef") >= ABX_STORE_ID;
}

/* Layers that nobody needs, and all that is half made: nobody adds anything now. */
static int sweep_layers(abx_store *s, bool dry)
{
    abx_used used = {0};
    int gone = 0;
    abx_used_collect(s, &used);
    DIR *d = list(s->layers);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *name = e->d_name;
        bool half = abx_has_prefix(name, ".new-") || abx_has_suffix(name, ".tmp");
        if (!half && (!is_digits(name) || abx_used_has(&used, name)))
            continue;
        if (dry || abx_store_remove(s->layers, name, NULL) == 0)
            gone +=
                half || strlen(name) == ABX_LAYER_NAME; /* its description is no thing of its own */
    }
    if (d)
        closedir(d);
    abx_used_clear(&used);
    return gone;
}

/* Halves of records and names that lead nowhere. */
static int sweep_records(abx_store *s, bool dry)
{
    const int folders[] = {s->templates, s->snapshots};
    char id[ABX_STORE_ID + 1];
    int gone = 0;
    for (size_t i = 0; i < ABX_COUNT(folders); i++) {
        DIR *d = list(folders[i]);
        for (struct dirent *e; d && (e = readdir(d));)
            if ((abx_has_prefix(e->d_name, ".new-") || abx_has_prefix(e->d_name, ".gone-")) &&
                (dry || abx_remove_tree_at(folders[i], e->d_name, NULL) == 0))
                gone++;
        if (d)
            closedir(d);
    }
    DIR *d = list(s->names);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && abx_store_find(s, e->d_name, id) != 1 &&
            (dry || unlinkat(s->names, e->d_name, 0) == 0))
            gone++;
    if (d)
        closedir(d);
    return gone;
}

int abx_store_sweep(abx_store *s, bool dry)
{
    if (s->layers < 0)
        return 0;
    ABX_AUTO_FD use = abx_store_take(s, ABX_LOCK_USE, true, false, NULL);
    ABX_AUTO_FD layers = use < 0 ? -1 : abx_store_take(s, ABX_LOCK_LAYERS, true, false, NULL);
    if (layers < 0)
        return 0;
    return sweep_layers(s, dry) + sweep_records(s, dry);
}
