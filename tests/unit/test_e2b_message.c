/* The messages of E2B's Connect services: worked examples of both encodings, round trips, broken input. */
#include "kit.h"

#include "base/json.h"
#include "e2b/message.h"

static uint8_t *unhex(const char *hex, size_t *n)
{
    uint8_t *out = abx_alloc(strlen(hex) / 2 + 1);
    *n = 0;
    for (; *hex; hex++) {
        if (*hex == ' ')
            continue;
        char two[3] = {hex[0], hex[1], 0};
        out[(*n)++] = (uint8_t)strtoul(two, NULL, 16);
        hex++;
    }
    return out;
}

static char *hex_of(const void *bytes, size_t n)
{
    char *out = abx_alloc(2 * n + 1);
    for (size_t i = 0; i < n; i++)
        sprintf(out + 2 * i, "%02x", ((const uint8_t *)bytes)[i]);
    return out;
}

static yyjson_doc *from_json(abx_e2b_msg msg, const char *json)
{
    abx_error *err = NULL;
    yyjson_doc *doc = abx_e2b_decode(msg, ABX_E2B_JSON, json, strlen(json), &err);
    if (!doc)
        fail_msg("%s", abx_error_text(err));
    return doc;
}

static void assert_tree(yyjson_doc *doc, const char *want)
{
    ABX_AUTO_FREE char *text = abx_json_text(yyjson_doc_get_root(doc));
    assert_string_equal(text, want);
}

static void assert_broken(abx_e2b_msg msg, const char *json, const char *names)
{
    abx_error *err = NULL;
    assert_null(abx_e2b_decode(msg, ABX_E2B_JSON, json, strlen(json), &err));
    assert_non_null(err);
    assert_int_equal(err->id, ABX_ERR_BACKEND_ANSWER);
    if (!strstr(err->message, names))
        fail_msg("'%s' does not name '%s'", err->message, names);
    abx_error_free(err);
}

/* JSON → tree → binary is `hex`; back again it is `json`. */
static void check_both(abx_e2b_msg msg, const char *json, const char *hex)
{
    abx_error *err = NULL;
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *want = unhex(hex, &n);
    ABX_AUTO_JSON tree = from_json(msg, json);
    ABX_AUTO_BUF proto = ABX_BUF(65536);
    ABX_AUTO_BUF text = ABX_BUF(65536);
    assert_int_equal(abx_e2b_encode(msg, ABX_E2B_PROTO, yyjson_doc_get_root(tree), &proto, &err),
                     0);
    ABX_AUTO_FREE char *got = hex_of(proto.data, proto.len);
    ABX_AUTO_FREE char *expected = hex_of(want, n);
    assert_string_equal(got, expected);
    ABX_AUTO_JSON back = abx_e2b_decode(msg, ABX_E2B_PROTO, proto.data, proto.len, &err);
    assert_non_null(back);
    assert_int_equal(abx_e2b_encode(msg, ABX_E2B_JSON, yyjson_doc_get_root(back), &text, &err), 0);
    assert_string_equal(abx_buf_cstr(&text), json);
}

static void worked_examples(void **state)
{
    check_both(ABX_E2B_START_REQUEST,
               "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo "
               "hi\"]},\"stdin\":false}",
               "0a 1c 0a 09 2f62696e2f62617368 12 02 2d6c 12 02 2d63 12 07 6563686f206869 20 00");
    check_both(ABX_E2B_START_RESPONSE, "{\"event\":{\"start\":{\"pid\":42}}}", "0a 04 0a 02 08 2a");
    check_both(ABX_E2B_START_RESPONSE, "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}",
               "0a 07 12 05 0a 03 68690a");
    check_both(ABX_E2B_START_RESPONSE,
               "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}",
               "0a 13 1a 11 10 01 1a 0d 65786974207374617475732030");
    check_both(
        ABX_E2B_START_RESPONSE,
        "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: "
        "killed\"}}}",
        "0a 24 1a 22 08 01 1a 0e 7369676e616c3a206b696c6c6564 22 0e 7369676e616c3a206b696c6c6564");
}

static void every_type_goes_both_ways(void **state)
{
    check_both(
        ABX_E2B_START_REQUEST,
        "{\"process\":{\"cmd\":\"x\",\"args\":[\"\",\"\xc3\xa9\"],\"envs\":{\"A\":\"\",\"B\":\"2\"}"
        ",\"cwd\":\"\"},"
        "\"pty\":{\"size\":{\"cols\":0,\"rows\":4294967295}},\"tag\":\"\",\"stdin\":true,\"abx\":"
        "true,"
        "\"abxTimeoutMs\":\"-9223372036854775808\",\"abxInput\":\"AP8=\"}",
        "0a 1a 0a0178 1200 1202c3a9 1a05 0a0141 1200 1a06 0a0142 120132 2200"
        "12 0a 0a 08 0800 10ffffffff0f 1a00 2001 c03e01 d83e80808080808080808001 e23e02 00ff");
    check_both(
        ABX_E2B_STAT_RESPONSE,
        "{\"entry\":{\"name\":\"a\",\"type\":\"FILE_TYPE_FILE\",\"size\":\"9223372036854775807\","
        "\"mode\":420,"
        "\"modifiedTime\":\"2026-01-01T00:00:00.5Z\",\"metadata\":{\"k\":\"v\"},\"abxMode\":2541}}",
        "0a 2c 0a0161 1001 20ffffffffffffffff7f 28a403 4a0c 0880f2d6ca06 1080cab5ee01 5a06 0a016b "
        "120176 c83eed13");
    check_both(ABX_E2B_SEND_SIGNAL_REQUEST,
               "{\"process\":{\"abxId\":\"p1\"},\"signal\":\"SIGNAL_SIGKILL\",\"abxSignal\":-3}",
               "0a 05 c23e02 7031 1009 c03e fdffffffffffffffff01");
    check_both(ABX_E2B_WATCH_DIR_RESPONSE, "{\"keepalive\":{}}", "1a 00");
    check_both(ABX_E2B_REMOVE_RESPONSE, "{}", "");
    check_both(ABX_E2B_LIST_RESPONSE,
               "{\"processes\":[{\"pid\":1,\"abxExitCode\":-2147483648},{}]}",
               "0a 09 1001 e03e ffffffff0f 0a 00");
}

static void times_keep_their_nanoseconds(void **state)
{
    static const char *const times[] = {"0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z",
                                        "1970-01-01T00:00:00Z", "2024-02-29T12:00:00.000000001Z",
                                        "9999-12-31T23:59:59.123456Z"};
    for (size_t i = 0; i < ABX_COUNT(times); i++) {
        abx_error *err = NULL;
        ABX_AUTO_FREE char *json = abx_format("{\"entry\":{\"modifiedTime\":\"%s\"}}", times[i]);
        ABX_AUTO_JSON tree = from_json(ABX_E2B_STAT_RESPONSE, json);
        ABX_AUTO_BUF proto = ABX_BUF(256);
        assert_int_equal(abx_e2b_encode(ABX_E2B_STAT_RESPONSE, ABX_E2B_PROTO,
                                        yyjson_doc_get_root(tree), &proto, &err),
                         0);
        ABX_AUTO_JSON back =
            abx_e2b_decode(ABX_E2B_STAT_RESPONSE, ABX_E2B_PROTO, proto.data, proto.len, &err);
        assert_tree(back, json);
    }
    ABX_AUTO_JSON zone = from_json(
        ABX_E2B_STAT_RESPONSE, "{\"entry\":{\"modifiedTime\":\"2026-01-01T02:00:00.500+02:00\"}}");
    assert_tree(zone, "{\"entry\":{\"modifiedTime\":\"2026-01-01T00:00:00.5Z\"}}");
}

static void reads_what_others_write(void **state)
{
    ABX_AUTO_JSON depth = from_json(ABX_E2B_LIST_DIR_REQUEST, "{\"path\":\"x\",\"depth\":\"1\"}");
    assert_tree(depth, "{\"path\":\"x\",\"depth\":1}");
    ABX_AUTO_JSON whole =
        from_json(ABX_E2B_LIST_DIR_REQUEST, "{\"depth\":2.0,\"nosuch\":{\"a\":[1]},\"path\":null}");
    assert_tree(whole, "{\"depth\":2}");
    ABX_AUTO_JSON snake = from_json(ABX_E2B_GET_WATCHER_EVENTS_REQUEST, "{\"watcher_id\":\"w1\"}");
    assert_tree(snake, "{\"watcherId\":\"w1\"}");
    ABX_AUTO_JSON url =
        from_json(ABX_E2B_START_RESPONSE, "{\"event\":{\"data\":{\"stdout\":\"-_8\"}}}");
    assert_tree(url, "{\"event\":{\"data\":{\"stdout\":\"+/8=\"}}}");
    ABX_AUTO_JSON name = from_json(ABX_E2B_SEND_SIGNAL_REQUEST, "{\"signal\":\"SIGNAL_SIGINT\"}");
    assert_tree(name, "{\"signal\":\"SIGNAL_UNSPECIFIED\"}");
    ABX_AUTO_JSON number = from_json(ABX_E2B_SEND_SIGNAL_REQUEST, "{\"signal\":15}");
    assert_tree(number, "{\"signal\":\"SIGNAL_SIGTERM\"}");
    ABX_AUTO_JSON unknown = from_json(ABX_E2B_SEND_SIGNAL_REQUEST, "{\"signal\":2}");
    assert_tree(unknown, "{\"signal\":2}");
    ABX_AUTO_JSON size = from_json(ABX_E2B_STAT_RESPONSE, "{\"entry\":{\"size\":\"4\"}}");
    assert_tree(size, "{\"entry\":{\"size\":4}}");
}

static void wrong_types_are_named(void **state)
{
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":{\"cmd\":1}}",
                  "'ProcessConfig.cmd' is not text");
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":[]}", "'StartRequest.process'");
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":{\"args\":\"x\"}}", "'ProcessConfig.args'");
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":{\"args\":[1]}}", "'ProcessConfig.args'");
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":{\"envs\":{\"A\":1}}}",
                  "'ProcessConfig.envs'");
    assert_broken(ABX_E2B_START_REQUEST, "{\"process\":{\"envs\":{\"A\":\"1\",\"A\":\"2\"}}}",
                  "'ProcessConfig.envs' has a member twice");
    assert_broken(ABX_E2B_START_REQUEST, "{\"stdin\":\"true\"}", "'StartRequest.stdin'");
    assert_broken(ABX_E2B_START_RESPONSE, "{\"event\":{\"data\":{\"stdout\":\"!!\"}}}",
                  "DataEvent.stdout");
    assert_broken(ABX_E2B_START_RESPONSE, "{\"event\":{\"start\":{},\"end\":{}}}",
                  "'ProcessEvent.end'");
    assert_broken(ABX_E2B_LIST_DIR_REQUEST, "{\"depth\":-1}", "'ListDirRequest.depth'");
    assert_broken(ABX_E2B_LIST_DIR_REQUEST, "{\"depth\":4294967296}", "'ListDirRequest.depth'");
    assert_broken(ABX_E2B_LIST_DIR_REQUEST, "{\"depth\":1.5}", "'ListDirRequest.depth'");
    assert_broken(ABX_E2B_LIST_DIR_REQUEST, "{\"depth\":\"1x\"}", "'ListDirRequest.depth'");
    assert_broken(ABX_E2B_STAT_RESPONSE, "{\"entry\":{\"size\":\"9223372036854775808\"}}",
                  "'EntryInfo.size'");
    assert_broken(ABX_E2B_STAT_RESPONSE, "{\"entry\":{\"modifiedTime\":\"now\"}}",
                  "'EntryInfo.modifiedTime'");
    assert_broken(ABX_E2B_STAT_RESPONSE, "{\"entry\":{\"type\":true}}", "'EntryInfo.type'");
    assert_broken(ABX_E2B_STAT_RESPONSE, "[]", "StatResponse");
    assert_broken(ABX_E2B_STAT_RESPONSE, "", "StatResponse");
}

static void what_we_send_must_fit(void **state)
{
    static const char *const broken[] = {"{\"process\":{\"command\":\"x\"}}",
                                         "{\"process\":{\"cmd\":5}}", "{\"stdin\":1}"};
    for (size_t i = 0; i < ABX_COUNT(broken); i++) {
        abx_error *err = NULL;
        ABX_AUTO_BUF out = ABX_BUF(1024);
        ABX_AUTO_JSON tree = yyjson_read(broken[i], strlen(broken[i]), 0);
        assert_int_equal(abx_e2b_encode(ABX_E2B_START_REQUEST, ABX_E2B_PROTO,
                                        yyjson_doc_get_root(tree), &out, &err),
                         -1);
        assert_fails(err, INTERNAL);
    }
}

static void deep_nesting_is_refused(void **state)
{
    ABX_AUTO_FREE char *deep = abx_alloc(20001);
    memset(deep, '[', 20000);
    assert_broken(ABX_E2B_STAT_REQUEST, deep, "nested");
}

static const char whole[] =
    "0a 24 1a 22 08 01 1a 0e 7369676e616c3a206b696c6c6564 22 0e 7369676e616c3a206b696c6c6564";

static void a_cut_message_is_refused_at_each_byte(void **state)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes = unhex(whole, &n);
    for (size_t cut = 1; cut < n; cut++) {
        abx_error *err = NULL;
        ABX_AUTO_FREE uint8_t *copy = abx_alloc(cut);
        memcpy(copy, bytes, cut);
        assert_null(abx_e2b_decode(ABX_E2B_START_RESPONSE, ABX_E2B_PROTO, copy, cut, &err));
        assert_fails(err, BACKEND_ANSWER);
    }
}

static void each_changed_byte_is_survived(void **state)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes = unhex(whole, &n);
    for (size_t at = 0; at < n; at++)
        for (unsigned v = 0; v < 256; v++) {
            ABX_AUTO_FREE uint8_t *copy = abx_alloc(n);
            memcpy(copy, bytes, n);
            copy[at] = (uint8_t)v;
            ABX_AUTO_ERROR err = NULL;
            ABX_AUTO_JSON doc =
                abx_e2b_decode(ABX_E2B_START_RESPONSE, ABX_E2B_PROTO, copy, n, &err);
            assert_true((doc != NULL) != (err != NULL));
        }
}

static void assert_proto(abx_e2b_msg msg, const char *hex, const char *want)
{
    size_t n = 0;
    abx_error *err = NULL;
    ABX_AUTO_FREE uint8_t *bytes = unhex(hex, &n);
    ABX_AUTO_JSON doc = abx_e2b_decode(msg, ABX_E2B_PROTO, bytes, n, &err);
    if (want) {
        assert_non_null(doc);
        assert_tree(doc, want);
    } else {
        assert_null(doc);
        assert_fails(err, BACKEND_ANSWER);
    }
}

static void binary_rules(void **state)
{
    /* unknown fields of each kind are skipped */
    assert_proto(ABX_E2B_STAT_REQUEST, "f83f05 f93f0102030405060708 fa3f0161 fd3f01020304 0a0162",
                 "{\"path\":\"b\"}");
    /* the last one counts; messages are merged; of a oneof the last field counts */
    assert_proto(ABX_E2B_STAT_REQUEST, "0a0161 0a0162", "{\"path\":\"b\"}");
    assert_proto(ABX_E2B_STAT_RESPONSE, "0a030a0161 0a021001",
                 "{\"entry\":{\"name\":\"a\",\"type\":\"FILE_TYPE_FILE\"}}");
    assert_proto(ABX_E2B_START_RESPONSE, "0a06 0a02082a 1a00", "{\"event\":{\"end\":{}}}");
    /* of a map as well, also when its message comes in pieces: A=1 B=2 | A=3 */
    assert_proto(ABX_E2B_START_REQUEST,
                 "0a10 1a060a01411201311a060a0142120132 0a08 1a060a0141120133",
                 "{\"process\":{\"envs\":{\"B\":\"2\",\"A\":\"3\"}}}");
    /* broken: field 0, a group, a varint of 11 bytes, a wrong wire type, text that is not UTF-8 */
    assert_proto(ABX_E2B_STAT_REQUEST, "0200", NULL);
    assert_proto(ABX_E2B_STAT_REQUEST, "0b0c", NULL);
    assert_proto(ABX_E2B_LIST_DIR_REQUEST, "10 ffffffffffffffffffff01", NULL);
    assert_proto(ABX_E2B_STAT_REQUEST, "0801", NULL);
    assert_proto(ABX_E2B_STAT_REQUEST, "0a01ff", NULL);
    assert_proto(ABX_E2B_STAT_RESPONSE, "0a0b 4a09 08ffffffffffffffff7f", NULL);
    assert_proto(ABX_E2B_STAT_REQUEST, "0a ffffffff0f", NULL);
}

static void a_list_has_a_limit(void **state)
{
    size_t n = (size_t)2 * 300000;
    ABX_AUTO_FREE uint8_t *bytes = abx_alloc(n);
    for (size_t i = 0; i < n; i += 2)
        bytes[i] = 0x0a;
    abx_error *err = NULL;
    assert_null(abx_e2b_decode(ABX_E2B_LIST_DIR_RESPONSE, ABX_E2B_PROTO, bytes, n, &err));
    assert_fails(err, BACKEND_ANSWER);
}

static void check_hot(abx_e2b_codec codec, bool output, abx_e2b_channel channel, size_t n)
{
    ABX_AUTO_FREE uint8_t *bytes = abx_alloc(n + 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + channel);
    ABX_AUTO_BUF out = ABX_BUF(1 << 20);
    ABX_AUTO_BUF scratch = ABX_BUF(1 << 20);
    assert_int_equal(
        (output ? abx_e2b_put_data_event : abx_e2b_put_input_event)(codec, channel, bytes, n, &out),
        0);
    size_t len = (size_t)out.data[1] << 24 | (size_t)out.data[2] << 16 | (size_t)out.data[3] << 8 |
                 out.data[4];
    assert_int_equal(out.data[0], 0);
    assert_int_equal(len, out.len - 5);
    abx_e2b_channel got = ABX_E2B_STDOUT;
    const uint8_t *view = NULL;
    size_t got_n = 0;
    assert_int_equal((output ? abx_e2b_get_data_event : abx_e2b_get_input_event)(
                         codec, out.data + 5, len, &got, &view, &got_n, &scratch),
                     1);
    assert_int_equal(got, channel);
    assert_int_equal(got_n, n);
    assert_true(n == 0 || memcmp(view, bytes, n) == 0);
    /* the general way reads the same */
    abx_error *err = NULL;
    ABX_AUTO_JSON doc =
        abx_e2b_decode(output ? ABX_E2B_START_RESPONSE : ABX_E2B_STREAM_INPUT_REQUEST, codec,
                       out.data + 5, len, &err);
    assert_non_null(doc);
}

static void bytes_take_the_short_way(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 127, 128, 16383, 16384, 65536};
    for (size_t i = 0; i < ABX_COUNT(sizes); i++)
        for (int codec = 0; codec < 2; codec++) {
            check_hot((abx_e2b_codec)codec, true, ABX_E2B_STDOUT, sizes[i]);
            check_hot((abx_e2b_codec)codec, true, ABX_E2B_STDERR, sizes[i]);
            check_hot((abx_e2b_codec)codec, true, ABX_E2B_PTY, sizes[i]);
            check_hot((abx_e2b_codec)codec, false, ABX_E2B_STDIN, sizes[i]);
            check_hot((abx_e2b_codec)codec, false, ABX_E2B_PTY, sizes[i]);
        }
}

static int get(abx_e2b_codec codec, const void *msg, size_t n, char *text)
{
    ABX_AUTO_BUF scratch = ABX_BUF(4096);
    abx_e2b_channel channel = ABX_E2B_STDOUT;
    const uint8_t *bytes = NULL;
    size_t len = 0;
    int rc = abx_e2b_get_data_event(codec, msg, n, &channel, &bytes, &len, &scratch);
    if (rc == 1)
        sprintf(text, "%d:%.*s", (int)channel, (int)len, bytes ? (const char *)bytes : "");
    return rc;
}

static void data_events_of_any_shape(void **state)
{
    char text[64] = "";
    const char *blanks = "{ \"event\": {\"data\": {\"stderr\" : \"aGkK\"} } , \"later\":1}";
    assert_int_equal(get(ABX_E2B_JSON, blanks, strlen(blanks), text), 1);
    assert_string_equal(text, "1:hi\n");
    const char *start = "{\"event\":{\"start\":{\"pid\":1}}}";
    assert_int_equal(get(ABX_E2B_JSON, start, strlen(start), text), 0);
    const char *broken = "{\"event\":{\"data\":{\"stdout\":\"a\"}}}";
    assert_int_equal(get(ABX_E2B_JSON, broken, strlen(broken), text), -1);
    size_t n = 0;
    /* an unknown field beside the data */
    ABX_AUTO_FREE uint8_t *beside = unhex("0a 0a f83f01 12 05 0a 03 68690a", &n);
    assert_int_equal(get(ABX_E2B_PROTO, beside, n, text), 1);
    assert_string_equal(text, "0:hi\n");
    /* data, then another event: the last one counts */
    ABX_AUTO_FREE uint8_t *last = unhex("0a 09 12 05 0a 03 68690a 1a 00", &n);
    assert_int_equal(get(ABX_E2B_PROTO, last, n, text), 0);
    ABX_AUTO_FREE uint8_t *cut = unhex("0a 07 12 05 0a 04 68690a", &n);
    assert_int_equal(get(ABX_E2B_PROTO, cut, n, text), -1);
    assert_int_equal(get(ABX_E2B_PROTO, cut, 0, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(every_type_goes_both_ways),
        cmocka_unit_test(times_keep_their_nanoseconds),
        cmocka_unit_test(reads_what_others_write),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(what_we_send_must_fit),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_cut_message_is_refused_at_each_byte),
        cmocka_unit_test(each_changed_byte_is_survived),
        cmocka_unit_test(binary_rules),
        cmocka_unit_test(a_list_has_a_limit),
        cmocka_unit_test(bytes_take_the_short_way),
        cmocka_unit_test(data_events_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
