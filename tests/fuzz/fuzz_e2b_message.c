/* Messages of E2B in both encodings: whatever comes is refused or read; what was read can be written, and reads the
 * same again; the short way of data events agrees with the general one. */
#include <string.h>

#include "base/mem.h"
#include "e2b/message.h"

static yyjson_doc *again(abx_e2b_msg msg, abx_e2b_codec codec, yyjson_doc *doc)
{
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_BUF out = ABX_BUF((size_t)64 << 20);
    ABX_CHECK(abx_e2b_encode(msg, codec, yyjson_doc_get_root(doc), &out, &err) == 0);
    yyjson_doc *back =
        abx_e2b_decode(msg, codec, out.len > 0 ? (const char *)out.data : "", out.len, &err);
    ABX_CHECK(back != NULL);
    return back;
}

static void message(abx_e2b_msg msg, abx_e2b_codec codec, const uint8_t *bytes, size_t n)
{
    ABX_AUTO_ERROR err = NULL;
    ABX_AUTO_JSON doc = abx_e2b_decode(msg, codec, bytes, n, &err);
    ABX_CHECK((doc != NULL) != (err != NULL));
    if (!doc)
        return;
    ABX_AUTO_JSON json = again(msg, ABX_E2B_JSON, doc);
    ABX_CHECK(yyjson_equals(yyjson_doc_get_root(doc), yyjson_doc_get_root(json)));
    /* empty lists and maps do not exist in the binary form: compare from there on */
    ABX_AUTO_JSON first = again(msg, ABX_E2B_PROTO, doc);
    ABX_AUTO_JSON second = again(msg, ABX_E2B_PROTO, first);
    ABX_CHECK(yyjson_equals(yyjson_doc_get_root(first), yyjson_doc_get_root(second)));
}

static void event(bool output, abx_e2b_codec codec, const uint8_t *bytes, size_t n)
{
    ABX_AUTO_BUF scratch = ABX_BUF(n + 16);
    ABX_AUTO_BUF out = ABX_BUF(4 * n + 256);
    ABX_AUTO_BUF second = ABX_BUF(4 * n + 256);
    abx_e2b_channel channel = ABX_E2B_STDOUT, channel2 = ABX_E2B_STDOUT;
    const uint8_t *view = NULL, *view2 = NULL;
    size_t len = 0, len2 = 0;
    int rc = (output ? abx_e2b_get_data_event : abx_e2b_get_input_event)(codec, bytes, n, &channel,
                                                                         &view, &len, &scratch);
    if (rc <= 0)
        return;
    for (int i = 0; i < 2; i++) {
        abx_e2b_codec to = (abx_e2b_codec)i;
        abx_buf_reset(&out);
        ABX_CHECK((output ? abx_e2b_put_data_event : abx_e2b_put_input_event)(to, channel, view,
                                                                              len, &out) == 0);
        ABX_CHECK((output ? abx_e2b_get_data_event : abx_e2b_get_input_event)(
                      to, out.data + 5, out.len - 5, &channel2, &view2, &len2, &second) == 1);
        ABX_CHECK(channel == channel2 && len == len2 &&
                  (len == 0 || memcmp(view, view2, len) == 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    abx_e2b_codec codec = data[0] & 1 ? ABX_E2B_PROTO : ABX_E2B_JSON;
    uint8_t *copy = abx_alloc(n - 1); /* exactly as long as it is, so that a byte too far is seen */
    memcpy(copy, data + 2, n - 2);
    message((abx_e2b_msg)(data[1] % ABX_E2B_MSG_COUNT), codec, copy, n - 2);
    event(data[0] & 2, codec, copy, n - 2);
    free(copy);
    return 0;
}
