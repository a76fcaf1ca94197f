/* Any bytes from a host, to the plugin's end; whole and in pieces it must say the same. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "epp/plugin_end.h"

typedef struct said {
    abx_buf out;
    unsigned requests;
} said;

static void on_write(const void *bytes, size_t n, void *data)
{
    ABX_CHECK(abx_buf_add(&((said *)data)->out, bytes, n) == 0);
}

static int on_initialize(yyjson_val *params, yyjson_mut_doc *d, yyjson_mut_val *features,
                         void *data, abx_error **err)
{
    (void)data;
    if (abx_json_bool(params, "no", false))
        return abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "no");
    yyjson_mut_arr_add_str(d, features, "process");
    return 0;
}

static void on_request(abx_epp_request *r, yyjson_val *params, void *data)
{
    said *s = data;
    (void)params;
    abx_style style = abx_epp_request_op(r)->style;
    if (style == ABX_STYLE_BODY_IN)
        return; /* ends with its input */
    if (abx_epp_request_op(r)->id == ABX_OP_PROCESS_START) {
        abx_epp_event_send(r, "started", NULL);
        if (abx_epp_room(r) >= 3)
            (void)abx_epp_bytes_send(r, ABX_CH_STDOUT, "a\xc3\xff", 3, false);
    }
    if (s->requests++ % 2)
        abx_epp_end(r, NULL);
    else {
        abx_error *e = abx_error_new(ABX_ERR_BACKEND, "no");
        abx_epp_fail(r, e);
        abx_error_free(e);
    }
}

static void on_input(abx_epp_request *r, const uint8_t *bytes, size_t n, void *data)
{
    (void)data;
    abx_epp_taken(r, bytes[0] % 2 ? n : n / 2);
}

static void on_input_end(abx_epp_request *r, void *data)
{
    (void)data;
    abx_epp_end(r, NULL);
}

static void run(const uint8_t *data, size_t size, size_t step, said *s)
{
    static const abx_epp_plugin_handlers handlers = {.write = on_write,
                                                     .initialize = on_initialize,
                                                     .request = on_request,
                                                     .input = on_input,
                                                     .input_end = on_input_end};
    abx_epp_plugin *p = abx_epp_plugin_new(&handlers, s, true, true);
    for (size_t at = 0; at < size; at += step)
        if (abx_epp_plugin_feed(p, data + at, size - at < step ? size - at : step, NULL) < 0)
            break;
    abx_epp_plugin_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    said whole = {.out = ABX_BUF((size_t)1 << 28)}, pieces = {.out = ABX_BUF((size_t)1 << 28)};
    if (size < 2)
        return 0;
    run(data + 1, size - 1, size, &whole);
    run(data + 1, size - 1, 1 + data[0] % 16, &pieces);
    ABX_CHECK(whole.out.len == pieces.out.len &&
              (whole.out.len == 0 || memcmp(whole.out.data, pieces.out.data, whole.out.len) == 0));
    abx_buf_clear(&whole.out);
    abx_buf_clear(&pieces.out);
    return 0;
}
