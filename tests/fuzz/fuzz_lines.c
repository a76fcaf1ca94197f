/* Any bytes as lines (whole and in pieces the same), as base64 and as pieces of UTF-8. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "wire/base64.h"
#include "wire/bytes_json.h"
#include "wire/lines.h"

static int on_line(const char *line, size_t n, void *user)
{
    uint64_t *hash = user;

    for (size_t i = 0; i < n; i++)
        *hash = *hash * 31 + (uint8_t)line[i];
    *hash = *hash * 31 + 7;
    return 0;
}

static int run(const uint8_t *data, size_t size, size_t step, uint64_t *hash)
{
    abx_lines l;
    int rc = 0;

    abx_lines_init(&l, 1000, on_line, hash);
    for (size_t at = 0; rc == 0 && at < size; at += step)
        rc = abx_lines_feed(&l, data + at, size - at < step ? size - at : step, NULL, NULL);
    if (rc == 0)
        rc = abx_lines_end(&l, NULL);
    abx_lines_clear(&l);
    return rc;
}

static void try_base64(const uint8_t *data, size_t size, abx_base64_alphabet alphabet)
{
    size_t len = 0;
    ABX_AUTO_FREE uint8_t *bytes = abx_base64_bytes((const char *)data, size, alphabet, &len);

    if (!bytes)
        return;
    ABX_AUTO_FREE char *text = abx_base64_text(bytes, len, alphabet, size && data[size - 1] == '=');
    ABX_CHECK(strlen(text) == size && memcmp(text, data, size) == 0);
}

static void try_tail(const uint8_t *data, size_t size, size_t step)
{
    abx_utf8_tail tail = {0};
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX), all = ABX_BUF(SIZE_MAX);

    for (size_t at = 0; at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (abx_utf8_tail_join(&tail, data + at, n, at + n == size, &out))
            ABX_CHECK(abx_buf_add(&all, out.data, out.len) == 0);
    }
    ABX_CHECK(all.len == size && (size == 0 || memcmp(all.data, data, size) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = 0, pieces = 0;

    if (size < 1)
        return 0;
    size_t step = data[0] % 16 + 1;
    int a = run(data + 1, size - 1, size, &whole);
    int b = run(data + 1, size - 1, step, &pieces);
    ABX_CHECK(a == b && whole == pieces);
    try_base64(data + 1, size - 1, ABX_BASE64_STANDARD);
    try_base64(data + 1, size - 1, ABX_BASE64_URL);
    try_tail(data + 1, size - 1, step);
    return 0;
}
