/* Memory, cleanup attributes and file descriptors.
 * Running out of memory for a small object ends the program (abx_check_failed): every size that comes
 * from outside is checked against a limit first, so what is allocated here is bounded. */
#ifndef ABX_BASE_MEM_H
#define ABX_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/error.h"

void *abx_alloc(size_t size);                 /* zeroed, never NULL */
void *abx_alloc_array(size_t n, size_t size); /* zeroed, overflow checked */
void *abx_realloc(void *p, size_t size);      /* never NULL for size > 0 */
char *abx_strdup(const char *s);              /* NULL gives NULL */
char *abx_strndup(const char *s, size_t n);
char *abx_format(const char *fmt, ...) ABX_PRINTF(1, 2); /* caller frees */
char *abx_vformat(const char *fmt, va_list ap);

#define ABX_NEW(type) ((type *)abx_alloc(sizeof(type)))

static inline void abx_free_auto_(void *p)
{
    free(*(void **)p);
}
#define ABX_AUTO_FREE __attribute__((cleanup(abx_free_auto_)))

/* ABX_DEFINE_AUTO(abx_plan, abx_plan_free), then: ABX_AUTO(abx_plan) plan = NULL; */
#define ABX_DEFINE_AUTO(type, freefn)                                                              \
    static inline void freefn##_auto_(type **p)                                                    \
    {                                                                                              \
        if (*p)                                                                                    \
            freefn(*p);                                                                            \
    }                                                                                              \
    typedef type *type##_auto_t;
#define ABX_AUTO(type, freefn) __attribute__((cleanup(freefn##_auto_))) type *

#define ABX_TAKE(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

/* Descriptors: -1 is empty, 0 is a valid one. */
void abx_fd_auto_(int *fd);
#define ABX_AUTO_FD __attribute__((cleanup(abx_fd_auto_))) int
static inline int abx_take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}
void abx_close_fd(int *fd); /* closes if >= 0 and sets -1; keeps errno */

/* Write or read exactly n bytes on a blocking descriptor, going on after EINTR and short counts.
 * abx_pwrite_full begins at an offset and does not move the file's own. 0, or -1 with errno.
 * abx_read_full returns the count (less than n only at end of file) or -1 with errno. */
int abx_write_full(int fd, const void *data, size_t n) ABX_MUST_CHECK;
int abx_pwrite_full(int fd, const void *data, size_t n, off_t at) ABX_MUST_CHECK;
ssize_t abx_read_full(int fd, void *data, size_t n) ABX_MUST_CHECK;

/* a + b and a * b for sizes from outside: 1 and *out, or 0 on overflow. */
static inline int abx_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline int abx_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#define ABX_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
