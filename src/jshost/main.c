#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "jshost/jshost.h"
#include "jshost/lock.h"
#include "jshost/session.h"

#define BUNDLE     3
#define FIRST_HEAP (512 * 1024) /* bytes; these two, too */
#define LARGE      (1024 * 1024)

/* The bytes of the bundle stay mapped for the life of the process; its descriptor does not stay. */
static int read_bundle(abx_js_bundle *b, abx_error **err)
{
    struct stat st;
    void *bytes = MAP_FAILED;
    if (fstat(BUNDLE, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, BUNDLE, 0);
    if (bytes == MAP_FAILED)
        return abx_fail(err, ABX_ERR_USAGE, "this verb is called by abx itself only");
    close(BUNDLE);
    return abx_js_bundle_read(b, bytes, (size_t)st.st_size, err);
}

/* What the engine and the kit take in any case, taken at once instead of by a fault for each page. Best effort. Whoever sets
 * one of these values must set them all: libc then no longer fits them to what it sees. */
static void take_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    (void)mallopt(M_TRIM_THRESHOLD, LARGE);
    (void)mallopt(M_TOP_PAD, FIRST_HEAP);
    char *first = malloc(1);
    if (!first)
        return;
    uintptr_t from = ((uintptr_t)first + 4095) & ~(uintptr_t)4095;
    free(first);
    (void)madvise((void *)from, FIRST_HEAP, MADV_POPULATE_WRITE);
    (void)mallopt(M_TOP_PAD, 128 * 1024);
}

int abx_js_host_main(void)
{
    static js_session session;
    static abx_js_bundle bundle;
    static uv_loop_t loop;
    ABX_AUTO_ERROR err = NULL;
    signal(SIGPIPE, SIG_IGN);
    take_memory();
    if (read_bundle(&bundle, &err) < 0 || uv_loop_init(&loop) < 0 ||
        js_session_open(&session, &loop, &bundle, &err) < 0 || abx_js_lock(&err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return err ? abx_err_row_of(err->id)->exit_code : 1;
    }
    js_session_serve(&session);
    if (ABX_JS_SANITIZED) { /* what is not found now has leaked */
        js_session_close(&session);
        ABX_CHECK(uv_loop_close(&loop) == 0);
        abx_js_bundle_clear(&bundle);
    }
    return 0;
}
