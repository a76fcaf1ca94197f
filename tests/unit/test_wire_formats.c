/* base64, Connect envelopes, lines, bytes and chunks in JSON, server-sent events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"
#include "wire/bytes_json.h"
#include "wire/chunk_json.h"
#include "wire/envelope.h"
#include "wire/lines.h"
#include "wire/sse.h"

/* --- base64 ------------------------------------------------------------------------------------- */

static void test_base64_known(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};

    for (size_t i = 0; i < ABX_COUNT(pairs); i++) {
        ABX_AUTO_FREE char *text =
            abx_base64_text(pairs[i][0], strlen(pairs[i][0]), ABX_BASE64_STANDARD, true);
        assert_string_equal(text, pairs[i][1]);
        ABX_AUTO_FREE char *bare =
            abx_base64_text(pairs[i][0], strlen(pairs[i][0]), ABX_BASE64_URL, false);
        size_t len = 0;
        ABX_AUTO_FREE uint8_t *back = abx_base64_bytes(bare, strlen(bare), ABX_BASE64_URL, &len);
        assert_string_equal((char *)back, pairs[i][0]);
        assert_int_equal(len, strlen(pairs[i][0]));
    }
}

static void test_base64_all_lengths(void **state)
{
    (void)state;
    uint8_t data[300], back[ABX_BASE64_BYTES(500)];
    char text[ABX_BASE64_ROOM(300)];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 97 + 251);
    for (size_t n = 0; n <= sizeof data; n++) {
        for (int way = 0; way < 4; way++) {
            size_t len = abx_base64_encode(data, n, text, way & 1, way & 2);
            assert_int_equal(len, strlen(text));
            assert_int_equal(abx_base64_decode(text, len, back, way & 1), n);
            assert_memory_equal(back, data, n);
        }
    }
}

static void test_base64_broken(void **state)
{
    (void)state;
    static const char *const broken[] = {"A",    "A===", "AA=A",  "AAA*",     "====", "=",
                                         "Zh==", "Zm9=", "AA\nA", "Zg==Zg==", "-_-_", "AAAAA"};
    uint8_t out[64];

    for (size_t i = 0; i < ABX_COUNT(broken); i++)
        assert_int_equal(abx_base64_decode(broken[i], strlen(broken[i]), out, ABX_BASE64_STANDARD),
                         -1);
    assert_int_equal(abx_base64_decode("-_-_", 4, out, ABX_BASE64_URL), 3);
    assert_int_equal(abx_base64_decode("+/+/", 4, out, ABX_BASE64_URL), -1);
}

/* --- envelopes ---------------------------------------------------------------------------------- */

typedef struct seen {
    char text[512];
    int stop_at, count;
} seen;

static int note_message(uint8_t flags, const uint8_t *bytes, size_t n, void *user)
{
    seen *s = user;
    size_t used = strlen(s->text);

    snprintf(s->text + used, sizeof s->text - used, "%d:%.*s;", flags, (int)n, (const char *)bytes);
    return ++s->count == s->stop_at;
}

static const char stream[] = "\0\0\0\0\5hello\1\0\0\0\0\0\0\0\0\2hi\2\0\0\0\2{}";
enum { STREAM = sizeof stream - 1 };
#define STREAM_EVENTS "0:hello;1:;0:hi;2:{};"

static void test_envelope_pieces(void **state)
{
    (void)state;
    for (size_t step = 1; step <= STREAM; step++) {
        abx_envelope_decoder d;
        seen s = {0};
        abx_envelope_decoder_init(&d, 5, note_message, &s);
        for (size_t at = 0; at < STREAM; at += step) {
            size_t n = STREAM - at < step ? STREAM - at : step, used = 99;
            char *copy = abx_strndup("", 0);
            copy = abx_realloc(copy, n);
            memcpy(copy, stream + at, n);
            assert_int_equal(abx_envelope_decoder_feed(&d, copy, n, &used, NULL), 0);
            assert_int_equal(used, n);
            free(copy);
        }
        assert_string_equal(s.text, STREAM_EVENTS);
        assert_true(abx_envelope_decoder_is_clean(&d));
        abx_envelope_decoder_clear(&d);
    }
}

static void test_envelope_stop_and_limit(void **state)
{
    (void)state;
    abx_envelope_decoder d;
    seen s = {.stop_at = 2};
    size_t used = 0;
    ABX_AUTO_ERROR err = NULL;

    abx_envelope_decoder_init(&d, 5, note_message, &s);
    assert_int_equal(abx_envelope_decoder_feed(&d, stream, STREAM, &used, NULL), 1);
    assert_int_equal(used, 15);
    assert_int_equal(abx_envelope_decoder_feed(&d, stream + used, STREAM - used, &used, NULL), 0);
    assert_string_equal(s.text, STREAM_EVENTS);
    abx_envelope_decoder_clear(&d);

    abx_envelope_decoder_init(&d, 4, note_message, &s);
    assert_int_equal(abx_envelope_decoder_feed(&d, stream, STREAM, NULL, &err), -1);
    assert_int_equal(err->id, ABX_ERR_TOO_LARGE);
    assert_int_equal(abx_envelope_decoder_feed(&d, stream, STREAM, NULL, NULL), -1); /* it sticks */
    abx_envelope_decoder_clear(&d);

    abx_envelope_decoder_init(&d, 5, note_message, &s);
    assert_int_equal(abx_envelope_decoder_feed(&d, stream, 7, NULL, NULL), 0);
    assert_false(abx_envelope_decoder_is_clean(&d));
    abx_envelope_decoder_clear(&d);
    uint8_t head[ABX_ENVELOPE_HEAD];
    abx_envelope_head(head, ABX_ENVELOPE_END, 0x01020304);
    assert_memory_equal(head, "\2\1\2\3\4", 5);
}

/* --- lines -------------------------------------------------------------------------------------- */

static int note_line(const char *line, size_t n, void *user)
{
    seen *s = user;
    size_t used = strlen(s->text);

    snprintf(s->text + used, sizeof s->text - used, "[%.*s]", (int)n, line);
    return ++s->count == s->stop_at;
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "one\ntwo\r\n\n\r\nfive\rsix\nlast";

    for (size_t step = 1; step < sizeof text; step++) {
        abx_lines l;
        seen s = {0};
        abx_lines_init(&l, 100, note_line, &s);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t left = sizeof text - 1 - at;
            assert_int_equal(abx_lines_feed(&l, text + at, left < step ? left : step, NULL, NULL),
                             0);
        }
        assert_int_equal(abx_lines_end(&l, NULL), 0);
        assert_string_equal(s.text, "[one][two][][][five\rsix][last]");
        abx_lines_clear(&l);
    }
}

static void test_lines_limit(void **state)
{
    (void)state;
    abx_lines l;
    seen s = {.stop_at = 1};
    size_t used = 0;
    ABX_AUTO_ERROR err = NULL;

    abx_lines_init(&l, 4, note_line, &s);
    assert_int_equal(abx_lines_feed(&l, "1234\n12345\n", 11, &used, NULL), 1);
    assert_int_equal(used, 5);
    assert_int_equal(abx_lines_feed(&l, "12345\n", 6, NULL, &err), -1);
    assert_int_equal(err->id, ABX_ERR_TOO_LARGE);
    assert_int_equal(abx_lines_feed(&l, "1\n", 2, NULL, NULL), -1);
    assert_string_equal(s.text, "[1234]");
    abx_lines_clear(&l);
}

/* --- bytes in JSON ------------------------------------------------------------------------------ */

static void put_get(const void *bytes, size_t n, const char *json)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_BUF text = ABX_BUF(1000), back = ABX_BUF(100);

    abx_bytes_json_put(d, root, bytes, n);
    assert_int_equal(abx_json_write_mut(root, &text), 0);
    assert_string_equal(abx_buf_cstr(&text), json);
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_USAGE, "test", NULL);
    assert_int_equal(abx_bytes_json_get(yyjson_doc_get_root(doc), ABX_ERR_USAGE, &back, NULL), 1);
    assert_int_equal(back.len, n);
    if (n)
        assert_memory_equal(back.data, bytes, n);
}

static void get_fails(const char *json, abx_err_id id)
{
    ABX_AUTO_JSON doc = abx_json_parse(json, strlen(json), ABX_ERR_USAGE, "test", NULL);
    ABX_AUTO_BUF back = ABX_BUF(4);
    ABX_AUTO_ERROR err = NULL;

    assert_int_equal(abx_bytes_json_get(yyjson_doc_get_root(doc), ABX_ERR_USAGE, &back, &err), -1);
    assert_int_equal(err->id, id);
}

static void test_bytes_json(void **state)
{
    (void)state;
    put_get("", 0, "{\"text\":\"\"}");
    put_get("h\xc3\xa9\0\n", 5, "{\"text\":\"h\xc3\xa9\\u0000\\n\"}");
    put_get("\xff\xfe", 2, "{\"base64\":\"//4=\"}");
    put_get("ab\xc3", 3, "{\"base64\":\"YWLD\"}");
    get_fails("{\"base64\":\"*\"}", ABX_ERR_USAGE);
    get_fails("{\"text\":1}", ABX_ERR_USAGE);
    get_fails("{\"text\":\"\",\"base64\":\"\"}", ABX_ERR_USAGE);
    get_fails("{\"text\":\"12345\"}", ABX_ERR_TOO_LARGE);
    get_fails("{\"base64\":\"AAAAAAA=\"}", ABX_ERR_TOO_LARGE);
}

static void test_utf8_tail(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xff\x80 \xe2\x82";

    for (size_t step = 1; step < sizeof text; step++) {
        abx_utf8_tail tail = {0};
        ABX_AUTO_BUF out = ABX_BUF(100), all = ABX_BUF(100);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t left = sizeof text - 1 - at;
            bool last = left <= step;
            if (abx_utf8_tail_join(&tail, text + at, last ? left : step, last, &out)) {
                assert_int_equal(abx_buf_add(&all, out.data, out.len), 0);
                if (at + step < 12) /* before the broken part each piece is text of its own */
                    assert_true(abx_utf8_valid(out.data, out.len));
            }
        }
        assert_int_equal(all.len, sizeof text - 1);
        assert_memory_equal(all.data, text, all.len);
    }
}

/* --- server-sent events ------------------------------------------------------------------------- */

static void note_event(const abx_sse_event *e, void *user)
{
    seen *s = user;
    size_t used = strlen(s->text);

    snprintf(s->text + used, sizeof s->text - used, "%s/%s/%s/%d;", e->event, e->id, e->data,
             (int)e->retry_ms);
}

static void test_sse_parse(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf: hello\ndata: one\n\nevent: two\r\nid: 7\r\ndata: a\r\ndata:b\r\n"
        "\r\nretry: 10\rdata\r\rignored: x\nevent: none\n\ndata:  z\nid\n\ndata: cut";

    for (size_t step = 1; step < sizeof text; step++) {
        abx_sse_parser p;
        seen s = {0};
        abx_sse_parser_init(&p, 100, note_event, &s);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t left = sizeof text - 1 - at;
            assert_int_equal(abx_sse_parser_feed(&p, text + at, left < step ? left : step, NULL),
                             0);
        }
        assert_string_equal(s.text, "message//one/-1;two/7/a\nb/-1;message/7//10;message// z/-1;");
        abx_sse_parser_clear(&p);
    }
}

static void test_sse_format(void **state)
{
    (void)state;
    ABX_AUTO_BUF out = ABX_BUF(1000);
    abx_sse_parser p;
    seen s = {0};

    abx_sse_format(&out, "ev\nil: x", "1\r2", "a\r\nb\rc\n", 7);
    assert_string_equal(abx_buf_cstr(&out),
                        "event: ev\nid: 1\ndata: a\ndata: b\ndata: c\ndata: \n\n");
    abx_sse_format_comment(&out, " x\ndata: y");
    abx_sse_format(&out, NULL, NULL, NULL, 0);
    abx_sse_parser_init(&p, 100, note_event, &s);
    assert_int_equal(abx_sse_parser_feed(&p, out.data, out.len, NULL), 0);
    assert_string_equal(s.text, "ev/1/a\nb\nc\n/-1;message/1//-1;");
    abx_sse_parser_clear(&p);
}

static void test_sse_limit(void **state)
{
    (void)state;
    abx_sse_parser p;
    seen s = {0};
    ABX_AUTO_ERROR err = NULL;

    abx_sse_parser_init(&p, 10, note_event, &s);
    assert_int_equal(abx_sse_parser_feed(&p, "data: 1234\n\n", 12, NULL), 0);
    assert_int_equal(abx_sse_parser_feed(&p, "data: 12345\n\n", 13, &err), -1);
    assert_int_equal(err->id, ABX_ERR_TOO_LARGE);
    assert_int_equal(abx_sse_parser_feed(&p, "\n", 1, NULL), -1);
    abx_sse_parser_clear(&p);
}

/* Each byte value, as text and as base64, comes back through a JSON parser as it was. */
static void test_chunk_json(void **state)
{
    (void)state;
    uint8_t bytes[256 * 3];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / 3);

    for (size_t n = 0; n <= sizeof bytes; n += n < 200 ? 1 : 37) {
        ABX_AUTO_BUF out = ABX_BUF(8192), back = ABX_BUF(8192);
        bool text = abx_utf8_valid(bytes, n);
        assert_int_equal(abx_chunk_json(&out, "stdout", bytes, n, text), 0);
        assert_null(memchr(out.data, '\n', out.len));
        ABX_AUTO_JSON doc = abx_json_parse(out.data, out.len, ABX_ERR_INTERNAL, "a chunk", NULL);
        assert_non_null(doc);
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert_string_equal(abx_json_str(root, "type", ""), "stdout");
        assert_int_equal(yyjson_obj_size(root), 2);
        assert_int_equal(abx_json_get(root, "text") != NULL, text);
        assert_int_equal(abx_bytes_json_get(root, ABX_ERR_INTERNAL, &back, NULL), 1);
        assert_int_equal(back.len, n);
        assert_memory_equal(abx_buf_cstr(&back), bytes, n);
    }
    ABX_AUTO_BUF small = ABX_BUF(30);
    assert_int_equal(abx_chunk_json(&small, "stdout", bytes, 100, true), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64_known),
        cmocka_unit_test(test_base64_all_lengths),
        cmocka_unit_test(test_base64_broken),
        cmocka_unit_test(test_envelope_pieces),
        cmocka_unit_test(test_envelope_stop_and_limit),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_limit),
        cmocka_unit_test(test_bytes_json),
        cmocka_unit_test(test_utf8_tail),
        cmocka_unit_test(test_chunk_json),
        cmocka_unit_test(test_sse_parse),
        cmocka_unit_test(test_sse_format),
        cmocka_unit_test(test_sse_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
