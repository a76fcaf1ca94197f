/* The snapshots, the oldest first. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/template/snapshot.h"

static int by_age(const void *a, const void *b)
{
    yyjson_val *x = yyjson_doc_get_root(*(yyjson_doc *const *)a);
    yyjson_val *y = yyjson_doc_get_root(*(yyjson_doc *const *)b);
    int64_t s = abx_json_int(x, "createdMs", 0), t = abx_json_int(y, "createdMs", 0);
    return (s > t) - (s < t);
}

int abx_snapshot_list(abx_store *s, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err)
{
    (void)err;
    yyjson_mut_val *list = abx_mut_arr(d, root, "snapshots");
    yyjson_doc **docs = NULL;
    size_t n = 0;
    int fd = s->snapshots < 0 ? -1 : openat(s->snapshots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        yyjson_doc *doc = e->d_name[0] == '.'
                              ? NULL
                              : abx_store_read(s->snapshots, e->d_name, "snapshot.json", NULL);
        if (!doc)
            continue;
        docs = (yyjson_doc **)abx_realloc(
            docs, (n + 1) * sizeof(*docs)); /* NOLINT(bugprone-sizeof-expression) */
        docs[n++] = doc;
    }
    if (dir)
        closedir(dir);
    if (n > 1)
        qsort(docs, n, sizeof(*docs), by_age); /* NOLINT(bugprone-sizeof-expression) */
    for (size_t i = 0; i < n; i++) {
        yyjson_mut_arr_append(list, abx_snapshot_object(d, yyjson_doc_get_root(docs[i])));
        yyjson_doc_free(docs[i]);
    }
    free(docs);
    return 0;
}
