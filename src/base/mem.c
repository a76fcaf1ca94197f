#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *abx_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    ABX_CHECK(p != NULL);
    return p;
}

void *abx_alloc_array(size_t n, size_t size)
{
    size_t total;
    ABX_CHECK(abx_size_mul(n, size, &total));
    return abx_alloc(total);
}

void *abx_realloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    ABX_CHECK(q != NULL);
    return q;
}

char *abx_strdup(const char *s)
{
    return s ? abx_strndup(s, strlen(s)) : NULL;
}

char *abx_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = abx_alloc(len + 1);
    memcpy(copy, s, len);
    return copy;
}

char *abx_vformat(const char *fmt, va_list ap)
{
    char *text = NULL;
    ABX_CHECK(vasprintf(&text, fmt, ap) >= 0);
    return text;
}

char *abx_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = abx_vformat(fmt, ap);
    va_end(ap);
    return text;
}

void abx_close_fd(int *fd)
{
    if (*fd >= 0) {
        int keep = errno;
        close(*fd);
        errno = keep;
    }
    *fd = -1;
}

void abx_fd_auto_(int *fd)
{
    abx_close_fd(fd);
}

int abx_write_full(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t did = write(fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return -1;
        p += did;
        n -= (size_t)did;
    }
    return 0;
}

int abx_pwrite_full(int fd, const void *data, size_t n, off_t at)
{
    const char *p = data;
    while (n > 0) {
        ssize_t did = pwrite(fd, p, n, at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0) {
            errno = did < 0 ? errno : EIO;
            return -1;
        }
        p += did;
        at += did;
        n -= (size_t)did;
    }
    return 0;
}

ssize_t abx_read_full(int fd, void *data, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = read(fd, (char *)data + have, n - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}
