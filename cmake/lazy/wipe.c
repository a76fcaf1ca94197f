/* Memory that is given back, in a process that asked for it (base/wipe.h): overwritten, whoever gives it back. Keys pass through buffers
 * of OpenSSL, curl, ada and glibc, which free them as they are. Linked into static programs, with --wrap of each name (wipe.txt): there
 * the calls of all that is inside come here, and nothing else is in the process. */
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/wipe.h"

/* More than any head of a request, record of TLS or setting: what is longer is what files and programs hold, and most of it was never
 * written to. */
#define LONGEST ((size_t)160 * 1024)

void __real_free(void *);
void __wrap_free(void *);
void __wrap_free(void *p)
{
    if (__builtin_expect(abx__wipes_freed, false) && p) {
        size_t n = malloc_usable_size(p);
        if (n <= LONGEST)
            explicit_bzero(p, n);
    }
    __real_free(p);
}

/* glibc would give an old place back as it is. What is too long to be overwritten may as well be moved by the kernel. */
void *__real_realloc(void *, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_realloc(void *p, size_t n)
{
    if (__builtin_expect(!abx__wipes_freed, true) || !p || n == 0)
        return __real_realloc(p, n);
    size_t had = malloc_usable_size(p);
    if (had > LONGEST)
        return __real_realloc(p, n);
    if (n <= had && n >= had / 2)
        return p;
    void *now = malloc(n);
    if (!now)
        return NULL;
    memcpy(now, p, had < n ? had : n);
    __wrap_free(p);
    return now;
}
