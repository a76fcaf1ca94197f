/* Debian's zstd also reads what its versions 0.5 to 0.7 wrote, before there was a format (2015 and 2016). No archive and
 * no image has that, so those three decoders (80 KB) are left out: here they answer as for any unknown data. Linked behind
 * libzstd into everything, with --wrap of each name (left_out.txt). */
#include <stddef.h>

#define UNKNOWN ((size_t)-10) /* ZSTD_error_prefix_unknown */
#define NO_SIZE (0ULL - 2)    /* ZSTD_CONTENTSIZE_ERROR */
static char nothing[1] = {0}; /* a state that is never looked at */

void *abx__zstd_no_state(void);
size_t abx__zstd_end(void *state);
size_t abx__zstd_unknown(void);
void abx__zstd_no_frame(const void *data, size_t size, size_t *packed, unsigned long long *bound);

void *abx__zstd_no_state(void)
{
    return nothing;
}

size_t abx__zstd_end(void *state)
{
    return 0;
}

size_t abx__zstd_unknown(void)
{
    return UNKNOWN;
}

void abx__zstd_no_frame(const void *data, size_t size, size_t *packed, unsigned long long *bound)
{
    *packed = UNKNOWN;
    *bound = NO_SIZE;
}

#define AS(what) __attribute__((alias("abx__zstd_" #what)))
#define OLD(v)                                                                                     \
    void *__wrap_ZBUFF##v##_createDCtx(void) AS(no_state);                                         \
    size_t __wrap_ZBUFF##v##_freeDCtx(void *state) AS(end);                                        \
    size_t __wrap_ZBUFF##v##_decompressInitDictionary(void) AS(unknown);                           \
    size_t __wrap_ZBUFF##v##_decompressContinue(void) AS(unknown);                                 \
    void *__wrap_ZSTD##v##_createDCtx(void) AS(no_state);                                          \
    size_t __wrap_ZSTD##v##_freeDCtx(void *state) AS(end);                                         \
    size_t __wrap_ZSTD##v##_decompress_usingDict(void) AS(unknown);                                \
    size_t __wrap_ZSTD##v##_getFrameParams(void) AS(unknown);                                      \
    void __wrap_ZSTD##v##_findFrameSizeInfoLegacy(const void *data, size_t size, size_t *packed,   \
                                                  unsigned long long *bound) AS(no_frame)
OLD(v05);
OLD(v06);
OLD(v07);
