/* Any bytes as a plugin's archive: the first byte says whether they are a .tar.gz already or a tar stream to be compressed first.
 * Unpacked and hashed, or refused; nothing outside of the folder is touched. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "host/store_inner.h"

/* The bytes in a file of memory. */
static int as_file(const uint8_t *data, size_t n, bool pack)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    ABX_CHECK(fd >= 0);
    if (!pack) {
        ABX_CHECK(abx_write_full(fd, data, n) == 0);
    } else {
        gzFile z = gzdopen(dup(fd), "wb1");
        ABX_CHECK(z && (n == 0 || gzwrite(z, data, (unsigned)n) == (int)n) && gzclose(z) == Z_OK);
    }
    ABX_CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char dir[] = "/dev/shm/abx-fuzz-XXXXXX", hex[65];
    if (n < 1 || n > 1 << 18)
        return 0;
    ABX_CHECK(mkdtemp(dir) != NULL);
    ABX_AUTO_FD top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_CHECK(top >= 0 && mkdirat(top, "in", 0700) == 0 && mkdirat(top, "out", 0700) == 0);
    ABX_AUTO_FD in = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD fd = as_file(data + 1, n - 1, data[0] & 1);
    ABX_AUTO_ERROR err = NULL;
    abx_tree_walk walk = {.strict = true};
    int rc = abx__store_unpack(fd, "fuzz.tar.gz", in, NULL, &err);
    ABX_CHECK((rc == 0) == (err == NULL));
    if (rc == 0)
        (void)abx_tree_digest(in, &walk, hex, &err);
    ABX_CHECK(unlinkat(top, "out", AT_REMOVEDIR) == 0); /* nothing was put beside */
    ABX_CHECK(abx_remove_tree_at(top, "in", NULL) == 0);
    ABX_CHECK(rmdir(dir) == 0);
    return 0;
}
