#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/store_tree.h"

/* A record of a listing: what is in front of its path, and the path. */
typedef struct record {
    const char *head, *path;
    size_t head_len;
} record;

/* Cut a listing into records, sorted by path. Owned; the texts are the listing's. */
static record *cut(const abx_buf *listing, size_t *count)
{
    size_t room = 16;
    record *all = (record *)abx_alloc_array(room, sizeof(record));
    *count = 0;
    for (size_t at = 0; at < listing->len;) {
        const char *head = (const char *)listing->data + at, *path = head;
        size_t len = strnlen(head, listing->len - at);
        for (int blanks = 0; blanks < 3 && *path; path++)
            blanks += *path == ' ';
        if (*count == room) {
            room *= 2;
            all = (record *)abx_realloc(all, room * sizeof(record));
        }
        all[(*count)++] = (record){head, path, (size_t)(path - head)};
        at += len + 1;
    }
    return all;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const record *)a)->path, ((const record *)b)->path);
}

static void note(char **first, size_t *number, const char *path, const char *what)
{
    ++*number;
    if (*first)
        return;
    ABX_AUTO_FREE char *safe = abx_printable(path);
    *first = abx_format("'%.400s' %s", safe, what);
}

char *abx_tree_difference(const abx_buf *before, const abx_buf *now)
{
    size_t a_count, b_count, a = 0, b = 0, number = 0;
    record *was = cut(before, &a_count), *is = cut(now, &b_count);
    char *first = NULL;
    qsort(was, a_count, sizeof(record), by_path);
    qsort(is, b_count, sizeof(record), by_path);
    while (a < a_count || b < b_count) {
        int order = a == a_count ? 1 : b == b_count ? -1 : by_path(&was[a], &is[b]);
        if (order < 0)
            note(&first, &number, was[a++].path, "is gone");
        else if (order > 0)
            note(&first, &number, is[b++].path, "was added");
        else {
            if (was[a].head_len != is[b].head_len ||
                memcmp(was[a].head, is[b].head, was[a].head_len) != 0)
                note(&first, &number, is[b].path, "was changed");
            a++;
            b++;
        }
    }
    free(was);
    free(is);
    if (number < 2)
        return first;
    char *all = abx_format("%s, and %zu more", first, number - 1);
    free(first);
    return all;
}
