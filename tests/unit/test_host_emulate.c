/* What the host makes of other operations: features, stat by a command, watching by listing, input by files. */
#include "host_rig.h"

#include "host/emulate_inner.h"

#define OK ABX_ERR_COUNT

static struct {
    abx_buf seen;     /* what reached the adapter: "METHOD PARAMETERS [BODY]\n" */
    const char *stat; /* what the command of fs.stat says */
    size_t stat_len;
    int64_t code;
    const char *file;     /* what fs.read gives, in pieces of four */
    const char *lists[4]; /* answers of fs.list, one after the other, the last again */
    int list;
    abx_err_id write_fails;
    char events[2000]; /* that the door got */
    abx_call *outer;
} play;

static void note(const char *fmt, ...)
{
    char text[4000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_int_equal(abx_buf_add_str(&play.seen, text), 0);
}

static void answer_start(abx_call *call)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", "7");
    abx_call_event(call, "started", d);
    if (play.stat)
        abx_call_chunk(call, ABX_CH_STDOUT, play.stat, play.stat_len);
    d = abx_mut_new(&root);
    abx_mut_int(d, root, "exitCode", play.code);
    abx_call_end(call, d);
}

static int on_body(abx_call *call, const uint8_t *bytes, size_t n, void *state)
{
    note("[%.*s]", (int)n, (const char *)bytes);
    return 1;
}

static void on_body_end(abx_call *call, void *state)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    ABX_AUTO_FREE char *path =
        abx_format("/home/u/%s", abx_json_str(abx_call_params(call), "path", ""));
    abx_mut_str(d, root, "path", path);
    note(" end\n");
    if (play.write_fails) {
        yyjson_mut_doc_free(d);
        abx_call_fail(call, abx_error_new(play.write_fails, "no room"));
        return;
    }
    abx_call_end(call, d);
}

static void answer_read(abx_call *call)
{
    yyjson_mut_val *root;
    size_t size = strlen(play.file);
    for (size_t at = 0; at < size; at += 4)
        abx_call_chunk(call, ABX_CH_BODY, play.file + at, size - at < 4 ? size - at : 4);
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "size", (int64_t)size);
    abx_call_end(call, d);
}

static void answer(backend *b, abx_call *call)
{
    static const abx_call_backend body = {.on_input = on_body, .on_input_end = on_body_end};
    ABX_AUTO_FREE char *params = abx_json_text(abx_call_params(call));
    note("%s %s\n", abx_call_op(call)->method, params);
    switch (abx_call_op(call)->id) {
    case ABX_OP_PROCESS_START: answer_start(call); break;
    case ABX_OP_FS_READ: answer_read(call); break;
    case ABX_OP_FS_WRITE: abx_call_accept(call, &body, NULL); break;
    case ABX_OP_FS_LIST: {
        const char *text = play.lists[play.list];
        if (play.lists[play.list + 1])
            play.list++;
        yyjson_doc *doc = abx_json_parse(text, strlen(text), ABX_ERR_INTERNAL, "list", NULL);
        yyjson_mut_doc *d = yyjson_doc_mut_copy(doc, NULL);
        yyjson_doc_free(doc);
        abx_call_end(call, d);
        break;
    }
    default: fake_answer(b, call); break;
    }
}

static void open_rig(host_rig *r, const char *features)
{
    host_rig_open(r);
    memset(&play, 0, sizeof play);
    abx_buf_init(&play.seen, 100000);
    rig_features(&rig_fake, features);
    put_box(&rig_fake, "aaaabbbbcccc1111");
    rig_fake.answer = answer;
}

static void close_rig(host_rig *r)
{
    abx_buf_clear(&play.seen);
    host_rig_close(r);
}

static abx_err_id call(host_rig *r, abx_op_id op, const char *more)
{
    ABX_AUTO_FREE char *params =
        abx_format("{\"sandboxId\":\"aaaabbbbcccc1111\"%s%s}", *more ? "," : "", more);
    return host_call(r, op, params);
}

#define SEEN(text)   assert_non_null(strstr(abx_buf_cstr(&play.seen), text))
#define UNSEEN(text) assert_null(strstr(abx_buf_cstr(&play.seen), text))

static void check_map(const char *have, const char *want)
{
    yyjson_doc *h = abx_json_parse(have, strlen(have), ABX_ERR_INTERNAL, "have", NULL);
    yyjson_doc *w = abx_json_parse(want, strlen(want), ABX_ERR_INTERNAL, "want", NULL);
    yyjson_doc *got = abx__features_with_emulated(yyjson_doc_get_root(h));
    ABX_AUTO_FREE char *text = abx_json_text(yyjson_doc_get_root(got));
    if (!yyjson_equals(yyjson_doc_get_root(got), yyjson_doc_get_root(w)))
        fail_msg("%s became %s, not %s", have, text, want);
    yyjson_doc_free(h);
    yyjson_doc_free(w);
    yyjson_doc_free(got);
}

static void map_says_what_is_emulated(void **state)
{
    check_map("{}", "{}");
    check_map("{\"process\":\"native\"}", "{\"process\":\"native\"}");
    check_map("{\"filesystem\":\"native\"}",
              "{\"filesystem\":\"native\",\"filesystem.watch\":\"emulated\","
              "\"filesystem.range\":\"emulated\"}");
    check_map("{\"filesystem\":\"native\",\"filesystem.watch\":\"native\","
              "\"filesystem.range\":\"native\"}",
              "{\"filesystem\":\"native\",\"filesystem.watch\":\"native\","
              "\"filesystem.range\":\"native\"}");
    check_map("{\"filesystem\":\"native\",\"fs.list\":\"unsupported\","
              "\"fs.read\":\"unsupported\"}",
              "{\"filesystem\":\"native\",\"fs.list\":\"unsupported\","
              "\"fs.read\":\"unsupported\"}");
    check_map("{\"process\":\"native\",\"filesystem\":\"native\",\"fs.stat\":\"unsupported\","
              "\"process.stdin\":\"unsupported\"}",
              "{\"process\":\"native\",\"filesystem\":\"native\",\"filesystem.watch\":\"emulated\","
              "\"filesystem.range\":\"emulated\",\"fs.stat\":\"emulated\",\"process.stdin\":"
              "\"emulated\"}");
}

static void missing_input_is_refused_before_anything_is_sent(void **state)
{
    host_rig r;
    open_rig(&r, "{\"process\":\"native\"}");
    assert_int_equal(call(&r, ABX_OP_PROCESS_START, "\"cmd\":[\"cat\"],\"stdin\":\"stream\""),
                     ABX_ERR_FEATURE_MISSING);
    assert_non_null(strstr(r.message, "process.stdin"));
    assert_int_equal(call(&r, ABX_OP_PROCESS_START, "\"cmd\":[\"cat\"],\"input\":{\"text\":\"x\"}"),
                     ABX_ERR_FEATURE_MISSING);
    assert_int_equal(play.seen.len, 0);
    assert_int_equal(call(&r, ABX_OP_PROCESS_START, "\"cmd\":[\"cat\"],\"stdin\":\"closed\""), OK);
    close_rig(&r);
}

static void stat_runs_a_command(void **state)
{
    host_rig r;
    open_rig(&r, "{\"process\":\"native\",\"fs.read\":\"native\"}");
    static const char text[] = "a1ff 5 1767225600 root wheel\n//tmp/./a b\0there";
    play.stat = text;
    play.stat_len = sizeof text - 1;
    assert_int_equal(call(&r, ABX_OP_FS_STAT, "\"path\":\"/tmp/a b\",\"user\":\"u\""), OK);
    assert_string_equal(host_result(&r, "path"), "/tmp/a b");
    assert_string_equal(host_result(&r, "name"), "a b");
    assert_string_equal(host_result(&r, "type"), "symlink");
    assert_string_equal(host_result(&r, "target"), "there");
    assert_string_equal(host_result(&r, "owner"), "root");
    assert_string_equal(host_result(&r, "modifiedAt"), "2026-01-01T00:00:00Z");
    SEEN("\"user\":\"u\"");
    play.stat = NULL;
    play.code = 44;
    assert_int_equal(call(&r, ABX_OP_FS_STAT, "\"path\":\"/no\""), ABX_ERR_FILE_NOT_FOUND);
    play.code = 127;
    assert_int_equal(call(&r, ABX_OP_FS_STAT, "\"path\":\"/no\""), ABX_ERR_BACKEND);
    close_rig(&r);
}

static void stat_survives_any_answer(void **state)
{
    static const char *const answers[] = {"",
                                          "\n",
                                          "x",
                                          "81a4 1 2 a b",
                                          "81a4 1 2 a b\n/x",
                                          "81a4 99999999999999999999 2 a b\n/x",
                                          "zz\n\n\n"};
    host_rig r;
    open_rig(&r, "{\"process\":\"native\",\"fs.read\":\"native\"}");
    for (size_t i = 0; i < ABX_COUNT(answers); i++) {
        play.stat = answers[i];
        play.stat_len = strlen(answers[i]);
        assert_int_equal(call(&r, ABX_OP_FS_STAT, "\"path\":\"/x\""), ABX_ERR_BACKEND);
    }
    ABX_AUTO_FREE char *flood = abx_alloc(200000);
    memset(flood, 'x', 199999);
    play.stat = flood;
    play.stat_len = 199999;
    assert_int_not_equal(call(&r, ABX_OP_FS_STAT, "\"path\":\"/x\""), OK);
    close_rig(&r);
}

static void whole_input_is_a_file(void **state)
{
    host_rig r;
    open_rig(&r, "{\"process\":\"native\",\"filesystem\":\"native\"}");
    assert_int_equal(
        call(&r, ABX_OP_PROCESS_START,
             "\"cmd\":[\"wc\",\"-c\"],\"input\":{\"text\":\"hello\"},\"env\":{\"A\":\"b\"}"),
        OK);
    SEEN("fs.write ");
    SEEN("\"size\":5");
    SEEN("[hello] end");
    SEEN("process.start ");
    SEEN("\"sh\",\"wc\",\"-c\"]");
    SEEN("exec <\\\"$d\\\"");
    SEEN("\"env\":{\"A\":\"b\"}");
    UNSEEN("\"input\"");
    /* the same for a line of shell */
    assert_int_equal(call(&r, ABX_OP_PROCESS_START,
                          "\"cmd\":\"wc; wc\",\"shell\":true,\"input\":{\"text\":\"x\"}"),
                     OK);
    SEEN("unset d\\nwc; wc\"");
    close_rig(&r);
}

static void input_that_cannot_be_written_starts_nothing(void **state)
{
    host_rig r;
    open_rig(&r, "{\"process\":\"native\",\"filesystem\":\"native\"}");
    play.write_fails = ABX_ERR_QUOTA;
    assert_int_equal(
        call(&r, ABX_OP_PROCESS_START, "\"cmd\":[\"wc\"],\"input\":{\"text\":\"hello\"}"),
        ABX_ERR_QUOTA);
    UNSEEN("process.start");
    assert_int_equal(call(&r, ABX_OP_PROCESS_STDIN, "\"processId\":\"9\""),
                     ABX_ERR_PROCESS_NOT_FOUND);
    close_rig(&r);
}

static void on_change(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    size_t n = strlen(play.events);
    snprintf(play.events + n, sizeof play.events - n, "%s %s %s\n", type,
             abx_json_str(event, "kind", ""), abx_json_str(event, "name", ""));
    if (strstr(play.events, "write last"))
        abx_call_cancel(c);
}

static void watch_compares_lists(void **state)
{
    static const abx_call_handlers handlers = {.on_event = on_change, .on_end = on_host_end};
    host_rig r;
    open_rig(&r, "{\"filesystem\":\"native\"}");
    play.lists[0] = "{\"files\":[{\"path\":\"/w/a\",\"type\":\"file\",\"size\":1,\"mode\":420},"
                    "{\"path\":\"/w/b\",\"type\":\"file\",\"size\":1},"
                    "{\"path\":\"/w/d\",\"type\":\"dir\",\"size\":1},"
                    "{\"path\":\"/w/d/x\",\"type\":\"file\",\"size\":1},"
                    "{\"path\":\"/w/e\",\"type\":\"file\",\"size\":7}]}";
    play.lists[1] = "{\"files\":[{\"path\":\"/w/a\",\"type\":\"file\",\"size\":1,\"mode\":384},"
                    "{\"path\":\"/w/d\",\"type\":\"dir\",\"size\":2},"
                    "{\"path\":\"/w/d/x\",\"type\":\"file\",\"size\":9},"
                    "{\"path\":\"/w/f\",\"type\":\"file\",\"size\":7},"
                    "{\"path\":\"/w/last\",\"type\":\"file\",\"size\":3}]}";
    static const char params[] =
        "{\"sandboxId\":\"aaaabbbbcccc1111\",\"path\":\"/w\",\"recursive\":true}";
    abx_call *c = abx_call_new(
        &r.loop, ABX_OP_FS_WATCH,
        abx_json_parse(params, sizeof params - 1, ABX_ERR_INTERNAL, "params", NULL), &handlers, &r);
    assert_int_equal(abx_host_start(r.host, c, NULL), 0);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    assert_int_equal(r.end_id, ABX_ERR_CANCELLED);
    assert_string_equal(play.events,
                        "started  \nchange chmod a\n"
                        "change write d/x\nchange remove b\nchange rename e\nchange create f\n"
                        "change create last\nchange write last\n");
    SEEN("\"depth\":64");
    close_rig(&r);
}

static void keep_body(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    size_t have = strlen(play.events);
    assert_true(channel == ABX_CH_BODY && have + n < sizeof play.events);
    memcpy(play.events + have, bytes, n);
}

/* What a door gets of a part of "0123456789". */
static const char *part(host_rig *r, const char *more)
{
    static const abx_call_handlers handlers = {.on_chunk = keep_body, .on_end = on_host_end};
    ABX_AUTO_FREE char *params =
        abx_format("{\"sandboxId\":\"aaaabbbbcccc1111\",\"path\":\"/f\",%s}", more);
    memset(play.events, 0, sizeof play.events);
    abx_buf_reset(&play.seen);
    play.file = "0123456789";
    yyjson_doc_free(r->result);
    r->result = NULL;
    abx_call *c = abx_call_new(
        &r->loop, ABX_OP_FS_READ,
        abx_json_parse(params, strlen(params), ABX_ERR_INTERNAL, "params", NULL), &handlers, r);
    assert_int_equal(abx_host_start(r->host, c, NULL), 0);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(r->end_id, OK);
    assert_int_equal(abx_json_int(yyjson_doc_get_root(r->result), "size", -1), strlen(play.events));
    return play.events;
}

static void a_part_is_cut_out_of_the_whole(void **state)
{
    host_rig r;
    open_rig(&r, "{\"filesystem\":\"native\"}");
    assert_string_equal(part(&r, "\"offset\":3"), "3456789");
    SEEN("fs.read {\"sandboxId\":\"aaaabbbbcccc1111\",\"path\":\"/f\"}");
    assert_string_equal(part(&r, "\"offset\":3,\"limit\":4,\"user\":\"u\""), "3456");
    SEEN("\"user\":\"u\"");
    assert_string_equal(part(&r, "\"limit\":4"), "0123");
    assert_string_equal(part(&r, "\"offset\":4,\"limit\":6"), "456789");
    assert_string_equal(part(&r, "\"limit\":0"), "");
    assert_string_equal(part(&r, "\"offset\":10"), "");
    assert_string_equal(part(&r, "\"offset\":9223372036854775807,\"limit\":9223372036854775807"),
                        "");
    assert_int_equal(call(&r, ABX_OP_FS_READ, "\"path\":\"/f\",\"offset\":-1"), ABX_ERR_USAGE);
    close_rig(&r);
}

static void a_part_is_asked_of_who_has_it(void **state)
{
    host_rig r;
    open_rig(&r, "{\"filesystem\":\"native\",\"filesystem.range\":\"native\"}");
    assert_string_equal(part(&r, "\"offset\":3,\"limit\":4"), "0123456789");
    SEEN("\"path\":\"/f\",\"offset\":3,\"limit\":4}");
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_says_what_is_emulated),
        cmocka_unit_test(missing_input_is_refused_before_anything_is_sent),
        cmocka_unit_test(stat_runs_a_command),
        cmocka_unit_test(stat_survives_any_answer),
        cmocka_unit_test(whole_input_is_a_file),
        cmocka_unit_test(input_that_cannot_be_written_starts_nothing),
        cmocka_unit_test(watch_compares_lists),
        cmocka_unit_test(a_part_is_cut_out_of_the_whole),
        cmocka_unit_test(a_part_is_asked_of_who_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
