#include "base/secrets.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

static int by_length(const void *a, const void *b)
{
    size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

void abx_secrets_init(abx_secrets *s, const char *const *values)
{
    size_t n = 0, count = 0;
    while (values && values[n])
        n++;
    s->values = abx_alloc_array(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++)
        if (strlen(values[i]) >= ABX_SECRET_MIN)
            s->values[count++] = abx_strdup(values[i]);
    qsort(s->values, count, sizeof(char *), by_length);
}

void abx_secrets_clear(abx_secrets *s)
{
    for (char **v = s->values; v && *v; v++) {
        explicit_bzero(*v, strlen(*v));
        free(*v);
    }
    free(s->values);
    s->values = NULL;
}

static const char *find(const char *text, size_t n, const char *what, size_t len)
{
    return memmem(text, n, what, len);
}

char *abx_secrets_blank(const abx_secrets *s, const char *text, size_t n)
{
    char *now = abx_strndup(text, n);
    for (char **v = s->values; v && *v; v++) {
        size_t len = strlen(*v), have = strlen(now);
        if (!find(now, have, *v, len))
            continue;
        abx_buf out = ABX_BUF(SIZE_MAX / 2);
        const char *at = now, *end = now + have;
        for (const char *hit; (hit = find(at, (size_t)(end - at), *v, len)); at = hit + len)
            ABX_CHECK(abx_buf_add(&out, at, (size_t)(hit - at)) == 0 &&
                      abx_buf_add_str(&out, ABX_SECRET_BLANK) == 0);
        ABX_CHECK(abx_buf_add(&out, at, (size_t)(end - at)) == 0);
        free(now);
        now = abx_buf_take(&out);
    }
    return now;
}
