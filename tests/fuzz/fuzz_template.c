/* Any bytes as a layer of an image, plain or compressed, and as its documents: unpacked or refused, and nothing outside of the
 * folder that they are unpacked into. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "local/template/base_layer.h"
#include "local/template/layer_unpack.h"
#include "local/template/oci.h"

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static ssize_t read_input(void *data, const void **bytes, abx_error **err)
{
    input *in = data;
    size_t n = in->left > 700 ? 700 : in->left;
    (void)err;
    *bytes = in->at;
    in->at += n;
    in->left -= n;
    return (ssize_t)n;
}

/* DIR/in is unpacked into; DIR/out must stay empty. */
static int outside(char *dir)
{
    (void)snprintf(dir, 64, "/dev/shm/abx-fuzz-XXXXXX");
    ABX_CHECK(mkdtemp(dir) != NULL);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_CHECK(fd >= 0 && mkdirat(fd, "in", 0700) == 0 && mkdirat(fd, "out", 0700) == 0);
    return fd;
}

static void fuzz_layer(const uint8_t *data, size_t n)
{
    char dir[64], blob_hex[65], diff_hex[65];
    input in = {data, n};
    abx_blob blob = {read_input, &in};
    ABX_AUTO_FD top = outside(dir);
    ABX_AUTO_FD fd = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_BUF owners = ABX_BUF(1 << 16);
    ABX_AUTO_ERROR err = NULL;
    abx_unpack u = {.dirfd = fd, .bytes = 1 << 20, .entries = 200, .owners = &owners};
    abx_layer_stream *s = abx_layer_stream_open(&blob, 4 << 20, &err);
    if (s && abx_layer_unpack(s, &u, &err) == 0)
        (void)abx_layer_stream_finish(s, blob_hex, diff_hex, &err);
    abx_layer_stream_close(s);
    ABX_CHECK(unlinkat(top, "out", AT_REMOVEDIR) == 0);
    ABX_CHECK(abx_remove_tree_at(top, "in", NULL) == 0);
    ABX_CHECK(rmdir(dir) == 0);
}

static void fuzz_documents(const uint8_t *data, size_t n)
{
    abx_oci_image image = {0};
    abx_sha256 digest;
    bool is_index;
    ABX_AUTO_JSON doc = abx_json_parse(data, n, ABX_ERR_FILE, "fuzz", NULL);
    if (doc) {
        yyjson_val *v = yyjson_doc_get_root(doc);
        (void)abx_oci_pick(v, digest, &is_index, NULL);
        if (abx_oci_read_manifest(v, &image, NULL) == 0)
            (void)abx_oci_read_config(v, &image, NULL);
        abx_oci_image_clear(&image);
        (void)abx_oci_read_docker(v, &image, NULL);
        (void)abx_oci_read_config(v, &image, NULL);
        abx_oci_image_clear(&image);
    }
    ABX_AUTO_FREE char *text = abx_strndup((const char *)data, n);
    ABX_AUTO_FREE char *name = NULL;
    uint32_t uid;
    ABX_AUTO_BUF out = ABX_BUF(1 << 20);
    (void)abx_passwd_with_user(text, "/bin/sh", &out);
    abx_image_user(text, "user", &name, &uid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    if (data[0] == '{' || data[0] == '[' || data[0] == 'r')
        fuzz_documents(data, n);
    else
        fuzz_layer(data, n);
    return 0;
}
