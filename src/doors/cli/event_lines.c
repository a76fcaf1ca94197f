#include "doors/cli/event_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

static void add_line(abx_buf *out, yyjson_mut_val *root)
{
    ABX_CHECK(abx_json_write_mut(root, out) == 0 && abx_buf_add_byte(out, '\n') == 0);
}

typedef struct extra_members {
    void (*add)(yyjson_mut_doc *d, yyjson_mut_val *o, void *data);
    void *data;
} extra_members;

static void add_bytes(abx_buf *out, const char *type, const uint8_t *bytes, size_t n, bool text,
                      const extra_members *extra)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", type);
    if (text) {
        abx_mut_strn(d, root, "text", (const char *)bytes, n);
    } else {
        ABX_AUTO_FREE char *coded = abx_base64_text(bytes, n, ABX_BASE64_STANDARD, true);
        abx_mut_str(d, root, "base64", coded);
    }
    if (extra && extra->add)
        extra->add(d, root, extra->data);
    add_line(out, root);
}

void abx_event_bytes(abx_buf *out, const char *type, const uint8_t *bytes, size_t n,
                     abx_utf8_tail *tail)
{
    abx_event_bytes_with(out, type, bytes, n, tail, NULL, NULL);
}

void abx_event_bytes_with(abx_buf *out, const char *type, const uint8_t *bytes, size_t n,
                          abx_utf8_tail *tail,
                          void (*add)(yyjson_mut_doc *d, yyjson_mut_val *o, void *data), void *data)
{
    extra_members extra = {add, data};
    ABX_AUTO_FREE uint8_t *joined = NULL;
    if (tail->n > 0) {
        joined = abx_alloc(tail->n + n);
        memcpy(joined, tail->bytes, tail->n);
        memcpy(joined + tail->n, bytes, n);
        bytes = joined;
        n += tail->n;
        tail->n = 0;
    }
    size_t whole = abx_utf8_whole(bytes, n);
    if (!abx_utf8_valid(bytes, whole) || n - whole >= sizeof tail->bytes) {
        add_bytes(out, type, bytes, n, false, &extra);
        return;
    }
    if (whole > 0)
        add_bytes(out, type, bytes, whole, true, &extra);
    tail->n = n - whole;
    memcpy(tail->bytes, bytes + whole, tail->n);
}

void abx_event_tail(abx_buf *out, const char *type, abx_utf8_tail *tail)
{
    if (tail->n > 0)
        add_bytes(out, type, tail->bytes, tail->n, false, NULL);
    tail->n = 0;
}

void abx_event_object(abx_buf *out, const char *type, yyjson_val *event,
                      void (*extra)(yyjson_mut_doc *d, yyjson_mut_val *o, void *data), void *data)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", type);
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(event, i, n, key, value)
    {
        if (strcmp(yyjson_get_str(key), "type") != 0)
            abx_mut_val(d, root, yyjson_get_str(key), value);
    }
    if (extra)
        extra(d, root, data);
    add_line(out, root);
}
