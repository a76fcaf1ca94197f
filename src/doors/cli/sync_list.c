#include "doors/cli/sync_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void abx_sync_list_clear(abx_sync_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->entries[i].path);
        free(l->entries[i].target);
    }
    free(l->entries);
    *l = (abx_sync_list){0};
}

abx_sync_entry *abx_sync_list_add(abx_sync_list *l, const char *path)
{
    if (l->count == l->_cap) {
        l->_cap = l->_cap ? l->_cap * 2 : 64;
        l->entries = abx_realloc(l->entries, l->_cap * sizeof *l->entries);
    }
    abx_sync_entry *e = &l->entries[l->count++];
    *e = (abx_sync_entry){.path = abx_strdup(path)};
    return e;
}

void abx_sync_list_add_copy(abx_sync_list *l, const abx_sync_entry *e)
{
    abx_sync_entry copy = *e;
    abx_sync_entry *new = abx_sync_list_add(l, e->path);
    copy.path = new->path;
    copy.target = abx_strdup(e->target);
    *new = copy;
}

int abx_sync_path_order(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 2 : 0;
    int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 2 : 0;
    return x - y;
}

static int by_path(const void *a, const void *b)
{
    return abx_sync_path_order(((const abx_sync_entry *)a)->path,
                               ((const abx_sync_entry *)b)->path);
}

void abx_sync_list_sort(abx_sync_list *l)
{
    if (l->count > 1)
        qsort(l->entries, l->count, sizeof *l->entries, by_path);
}

abx_sync_entry *abx_sync_list_find(const abx_sync_list *l, const char *path)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = abx_sync_path_order(path, l->entries[middle].path);
        if (order == 0)
            return &l->entries[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool abx_sync_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

static bool same_content(const abx_sync_entry *a, const abx_sync_entry *b)
{
    if (a->size != b->size)
        return false;
    if (a->has_digest && b->has_digest)
        return memcmp(a->digest, b->digest, sizeof a->digest) == 0;
    return a->seconds == b->seconds && (a->ns == b->ns || a->ns == 0 || b->ns == 0);
}

bool abx_sync_same(const abx_sync_entry *a, const abx_sync_entry *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case ABX_SYNC_FILE: return same_content(a, b) && a->mode == b->mode;
    case ABX_SYNC_DIR: return a->mode == b->mode;
    case ABX_SYNC_LINK: return strcmp(a->target ? a->target : "", b->target ? b->target : "") == 0;
    case ABX_SYNC_NONE: return true;
    }
    return false;
}

const char *abx_sync_type_name(abx_sync_type t)
{
    static const char *const names[] = {"nothing", "file", "folder", "link"};
    return names[t];
}
