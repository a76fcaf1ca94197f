#include "jshost/bundle.h"

#include <string.h>

#include "base/mem.h"

/* Each part: 4 bytes of length, the bytes, a 0 byte. */
static int put(abx_buf *out, const void *bytes, size_t n)
{
    uint32_t len = (uint32_t)n;
    if (n >= UINT32_MAX || abx_buf_add(out, &len, sizeof(len)) < 0 ||
        abx_buf_add(out, bytes, n) < 0)
        return -1;
    return abx_buf_add_byte(out, 0);
}

int abx_js_bundle_begin(abx_buf *out, yyjson_mut_val *head)
{
    ABX_AUTO_BUF text = ABX_BUF(ABX_JS_BUNDLE_MAX);
    return abx_json_write_mut(head, &text) < 0 ? -1 : put(out, text.data, text.len);
}

int abx_js_bundle_add(abx_buf *out, const char *path, const char *text, size_t n)
{
    return put(out, path, strlen(path)) < 0 ? -1 : put(out, text, n);
}

/* The next part: 1, 0 at the end, -1 when it is cut short. */
static int next(const uint8_t **at, const uint8_t *end, const char **text, size_t *n)
{
    uint32_t len;
    if (*at == end)
        return 0;
    if ((size_t)(end - *at) < sizeof(len) + 1)
        return -1;
    memcpy(&len, *at, sizeof(len));
    *at += sizeof(len);
    if ((size_t)(end - *at) <= len || (*at)[len] != 0)
        return -1;
    *text = (const char *)*at;
    *n = len;
    *at += (size_t)len + 1;
    return 1;
}

int abx_js_bundle_read(abx_js_bundle *b, const void *bytes, size_t n, abx_error **err)
{
    const uint8_t *at = bytes, *end = at + n;
    const char *text;
    size_t len, room = 0;
    memset(b, 0, sizeof *b);
    if (next(&at, end, &text, &len) != 1)
        return abx_fail(err, ABX_ERR_PROVIDER_START, "the module was not handed over whole");
    b->head = abx_json_parse(text, len, ABX_ERR_PROVIDER_START, "the head of the module", err);
    if (!b->head)
        return -1;
    for (int rc; (rc = next(&at, end, &text, &len)) != 0;) {
        abx_js_file f = {.path = text};
        if (rc < 0 || strlen(text) != len || next(&at, end, &f.text, &f.len) != 1) {
            abx_js_bundle_clear(b);
            return abx_fail(err, ABX_ERR_PROVIDER_START, "the module was not handed over whole");
        }
        if (b->count == room) {
            room = room ? 2 * room : 16;
            b->files = (abx_js_file *)abx_realloc(b->files, room * sizeof(*b->files));
        }
        b->files[b->count++] = f;
    }
    return 0;
}

const abx_js_file *abx_js_bundle_find(const abx_js_bundle *b, const char *path)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->files[i].path, path) == 0)
            return &b->files[i];
    return NULL;
}

void abx_js_bundle_clear(abx_js_bundle *b)
{
    yyjson_doc_free(b->head);
    free(b->files);
    memset(b, 0, sizeof *b);
}
