/* The parts of EPP/1 that know no I/O: lines and raw chunks, names of events, errors on the wire, last words without secrets. */
#include "kit.h"

#include "base/json.h"
#include "base/secrets.h"
#include "epp/epp.h"
#include "epp/message.h"
#include "epp/names.h"
#include "epp/reader.h"
#include "epp/words.h"

/* --- the reader ----------------------------------------------------------------------------------------- */

typedef struct seen {
    char text[512];
    size_t strays;
} seen;

static int on_message(yyjson_val *message, void *data, abx_error **err)
{
    (void)err;
    seen *s = data;
    strcat(s->text, "m");
    strcat(s->text, abx_json_str(message, "method", "?"));
    return 0;
}

static int on_raw(const uint8_t *bytes, size_t n, size_t left, void *data, abx_error **err)
{
    (void)err;
    seen *s = data;
    strncat(s->text, (const char *)bytes, n);
    if (left == 0)
        strcat(s->text, "|");
    return 0;
}

static int on_stray(const char *line, size_t n, void *data, abx_error **err)
{
    (void)line;
    (void)n;
    ((seen *)data)->strays++;
    return ((seen *)data)->strays > 2 ? abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "too many") : 0;
}

static const abx_epp_reader_handlers handlers = {on_message, on_raw, on_stray};

/* Feed text in pieces of so many bytes. */
static int feed(seen *s, const char *text, size_t step, bool raw, abx_error **err)
{
    abx_epp_reader r;
    int rc = 0;
    memset(s, 0, sizeof *s);
    abx_epp_reader_init(&r, &handlers, s);
    r.raw_agreed = raw;
    for (size_t at = 0, n = strlen(text); rc == 0 && at < n; at += step)
        rc = abx_epp_reader_feed(&r, text + at, n - at < step ? n - at : step, err);
    abx_epp_reader_clear(&r);
    return rc;
}

static void test_lines_and_chunks(void **state)
{
    (void)state;
    static const char text[] =
        "banner\n\n{\"method\":\"a\",\"params\":{\"raw\":5}}\nx{\ny}\n{\"method\":\"b\"}\r\n";
    for (size_t step = 1; step < sizeof text; step++) {
        seen s;
        abx_error *err = NULL;
        assert_int_equal(feed(&s, text, step, true, &err), 0);
        assert_string_equal(s.text, "max{\ny}|mb");
        assert_int_equal(s.strays, 1);
    }
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"method\":\n",
        "{\"method\":\"a\",\"params\":{\"raw\":0}}\n",
        "{\"method\":\"a\",\"params\":{\"raw\":1048577}}\n",
        "{\"method\":\"a\",\"params\":{\"raw\":-1}}\n",
        "{\"method\":\"a\",\"params\":{\"raw\":1.5}}\n",
        "{\"method\":\"a\",\"params\":{\"raw\":2}}\nabc\n",
        "one\ntwo\nthree\n",
        "{} {}\n",
    };
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        seen s;
        abx_error *err = NULL;
        assert_int_equal(feed(&s, bad[i], 4096, true, &err), -1);
        assert_fails(err, PROVIDER_PROTOCOL);
    }
    seen s;
    abx_error *err = NULL;
    assert_int_equal(feed(&s, "{\"method\":\"a\",\"params\":{\"raw\":2}}\n", 64, false, &err), -1);
    assert_fails(err, PROVIDER_PROTOCOL);
}

/* --- names ---------------------------------------------------------------------------------------------- */

/* Each event and channel of the table has a name on the wire, and the way back finds it. */
static void test_every_event_has_a_name(void **state)
{
    (void)state;
    size_t n;
    const abx_op_field *events = abx_op_events(&n);
    for (size_t i = 0; i < n; i++) {
        const abx_op_row *row = abx_op_row_of(events[i].op);
        char method[ABX_EPP_METHOD_SIZE];
        const char *key, *value;
        if (row->id == ABX_OP_CODE_RUN && strcmp(events[i].name, "end") == 0)
            continue; /* the answer */
        abx_epp_event_name(row, events[i].name, method, &key, &value);
        yyjson_mut_val *root = NULL;
        ABX_AUTO_MUT d = abx_mut_new(&root);
        abx_mut_str(d, root, key ? key : "kind", key ? value : "create");
        ABX_AUTO_JSON params = abx_json_freeze(d);
        abx_epp_event e;
        assert_int_equal(abx_epp_event_read(row, method, yyjson_doc_get_root(params), &e, NULL), 1);
        assert_string_equal(e.is_chunk ? abx_channel_name(e.channel) : e.type, events[i].name);
    }
}

/* --- errors --------------------------------------------------------------------------------------------- */

static abx_err_id read_error(const char *text)
{
    ABX_AUTO_JSON d = abx_json_parse(text, strlen(text), ABX_ERR_USAGE, "it", NULL);
    assert_non_null(d);
    abx_error *e = abx_epp_error_read(yyjson_doc_get_root(d), "fs.read");
    abx_err_id id = e->id;
    abx_error_free(e);
    return id;
}

static void test_errors(void **state)
{
    (void)state;
    assert_int_equal(
        read_error("{\"code\":-32000,\"message\":\"m\",\"data\":{\"code\":\"E3002\"}}"),
        ABX_ERR_FILE_NOT_FOUND);
    assert_int_equal(read_error("{\"code\":-32000,\"data\":{\"type\":\"FileNotFoundError\"}}"),
                     ABX_ERR_FILE_NOT_FOUND);
    assert_int_equal(read_error("{\"code\":-32000,\"data\":{\"code\":\"E0000\"}}"),
                     ABX_ERR_BACKEND);
    assert_int_equal(read_error("{\"code\":-32000,\"data\":{\"code\":\"E9001\"}}"),
                     ABX_ERR_BACKEND);
    assert_int_equal(read_error("{\"code\":-32601}"), ABX_ERR_FEATURE_MISSING);
    assert_int_equal(read_error("{\"code\":-32602}"), ABX_ERR_USAGE);
    assert_int_equal(read_error("[1]"), ABX_ERR_PROVIDER_PROTOCOL);
}

/* --- words and secrets ---------------------------------------------------------------------------------- */

static void collect(const char *line, void *data)
{
    abx_buf *b = data;
    assert_int_equal(abx_buf_addf(b, "%s\n", line), 0);
}

static void test_no_secret_in_any_word(void **state)
{
    (void)state;
    static const char *const values[] = {"abc", "sesame", "sesame-open", NULL};
    abx_secrets secrets;
    abx_secrets_init(&secrets, values);
    static const char text[] = "say sesame-open and sesame, abc\nlast";
    for (size_t step = 1; step < sizeof text; step++) {
        abx_buf all = ABX_BUF(1 << 16);
        abx_epp_words w;
        abx_epp_words_init(&w, &secrets, collect, &all);
        for (size_t at = 0, n = sizeof text - 1; at < n; at += step)
            abx_epp_words_feed(&w, text + at, n - at < step ? n - at : step);
        abx_epp_words_end(&w);
        assert_string_equal(abx_buf_cstr(&all), "say *** and ***, abc\nlast\n");
        ABX_AUTO_FREE char *last = abx_epp_words_last(&w);
        assert_string_equal(last, "say *** and ***, abc | last");
        abx_epp_words_clear(&w);
        abx_buf_clear(&all);
    }
    abx_secrets_clear(&secrets);
}

/* A secret that lies where a line without end is cut. */
static void test_a_secret_across_a_cut(void **state)
{
    (void)state;
    static const char *const values[] = {"sesame-open", NULL};
    abx_secrets secrets;
    abx_secrets_init(&secrets, values);
    for (size_t before = 8192 - 12; before < 8192 + 2; before++) {
        abx_buf all = ABX_BUF(1 << 20), text = ABX_BUF(1 << 20);
        for (size_t i = 0; i < before; i++)
            assert_int_equal(abx_buf_add_byte(&text, '.'), 0);
        assert_int_equal(abx_buf_add_str(&text, "sesame-open.\n"), 0);
        abx_epp_words w;
        abx_epp_words_init(&w, &secrets, collect, &all);
        abx_epp_words_feed(&w, text.data, text.len);
        abx_epp_words_end(&w);
        char joined[32768] = "", *to = joined;
        for (const char *c = abx_buf_cstr(&all); *c; c++)
            if (*c != '\n')
                *to++ = *c;
        assert_null(strstr(joined, "sesame-open"));
        abx_epp_words_clear(&w);
        abx_buf_clear(&all);
        abx_buf_clear(&text);
    }
    abx_secrets_clear(&secrets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_chunks),       cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_every_event_has_a_name), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_no_secret_in_any_word),  cmocka_unit_test(test_a_secret_across_a_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
