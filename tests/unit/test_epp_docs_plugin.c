/* Every exchange of docs/providers/epp.md, played to the plugin's end: the test is the host. */
#include "epp_player.h"

#include "base/text.h"
#include "epp/names.h"
#include "epp/plugin_end.h"
#include "wire/bytes_json.h"

enum { REQUESTS = 16 };

typedef struct rig {
    abx_epp_plugin *plugin;
    abx_buf out;
    abx_epp_request *requests[REQUESTS];
    size_t count;
    yyjson_val *hello; /* how initialize is to be answered */
    bool raw, cancelled;
} rig;

static rig r;

static void on_write(const void *bytes, size_t n, void *data)
{
    (void)data;
    assert_int_equal(abx_buf_add(&r.out, bytes, n), 0);
}

static int on_initialize(yyjson_val *params, yyjson_mut_doc *d, yyjson_mut_val *features,
                         void *data, abx_error **err)
{
    (void)params;
    (void)data;
    yyjson_val *error = yyjson_obj_get(r.hello, "error");
    if (error) {
        yyjson_val *more = yyjson_obj_get(error, "data");
        abx_err_id id = ABX_ERR_BACKEND;
        abx_err_find(abx_json_str(more, "code", ""), &id);
        abx_fail(err, id, "%s", abx_json_str(error, "message", ""));
        return abx_hint(err, "%s", abx_json_str(more, "hint", ""));
    }
    size_t i, n;
    yyjson_val *name;
    yyjson_arr_foreach(yyjson_obj_get(yyjson_obj_get(r.hello, "result"), "features"), i, n, name)
        yyjson_mut_arr_add_strcpy(d, features, yyjson_get_str(name));
    return 0;
}

static void on_request(abx_epp_request *q, yyjson_val *params, void *data)
{
    (void)params;
    (void)data;
    r.requests[r.count++] = q;
}

static void on_input(abx_epp_request *q, const uint8_t *bytes, size_t n, void *data)
{
    (void)bytes;
    (void)data;
    abx_epp_taken(q, n);
}

static void on_cancel(abx_epp_request *q, void *data)
{
    (void)q;
    (void)data;
    r.cancelled = true;
}

static const abx_epp_plugin_handlers handlers = {.write = on_write,
                                                 .initialize = on_initialize,
                                                 .request = on_request,
                                                 .input = on_input,
                                                 .cancel = on_cancel};

static abx_epp_request *find(uint64_t id)
{
    for (size_t i = 0; i < r.count; i++)
        if (r.requests[i] && abx_epp_request_id(r.requests[i]) == id)
            return r.requests[i];
    return NULL;
}

static void notify(const epp_line *l, const epp_line *next)
{
    const char *method = epp_method(l);
    yyjson_val *params = yyjson_obj_get(l->message, "params");
    if (strcmp(method, "log") == 0) {
        abx_epp_log(r.plugin, abx_json_str(params, "level", ""),
                    abx_json_str(params, "message", ""));
        return;
    }
    abx_epp_request *q = find(epp_number(params, "stream"));
    assert_non_null(q);
    abx_epp_event e;
    assert_int_equal(abx_epp_event_read(abx_epp_request_op(q), method, params, &e, NULL), 1);
    if (!e.is_chunk) {
        abx_epp_event_send(q, e.type, abx_epp_event_members(abx_epp_request_op(q), e.type, params));
        return;
    }
    abx_buf bytes = ABX_BUF(1 << 21);
    if (abx_bytes_json_get(params, ABX_ERR_USAGE, &bytes, NULL) == 0)
        assert_int_equal(abx_buf_add(&bytes, next->raw.data, next->raw.len), 0);
    assert_int_equal(abx_epp_bytes_send(q, e.channel, bytes.data, bytes.len, false), 1);
    abx_buf_clear(&bytes);
}

static void answer(const epp_line *l)
{
    uint64_t id = epp_number(l->message, "id");
    abx_epp_request *q = find(id);
    if (!q)
        return; /* answered by the dispatcher itself */
    for (size_t i = 0; i < r.count; i++)
        if (r.requests[i] == q)
            r.requests[i] = NULL;
    yyjson_val *error = yyjson_obj_get(l->message, "error"), *data = yyjson_obj_get(error, "data");
    if (!error) {
        yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
        yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, yyjson_obj_get(l->message, "result")));
        abx_epp_end(q, d);
        return;
    }
    abx_err_id code = ABX_ERR_BACKEND;
    assert_true(abx_err_find(abx_json_str(data, "code", ""), &code));
    abx_error *e = abx_error_new(code, "%s", abx_json_str(error, "message", ""));
    abx_epp_fail(q, e);
    abx_error_free(e);
}

/* Without raw and flow where they are false. */
static yyjson_doc *normal(yyjson_val *message)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, message));
    yyjson_mut_val *result = yyjson_mut_obj_get(yyjson_mut_doc_get_root(d), "result");
    static const char *const names[] = {"raw", "flow"};
    for (size_t i = 0; i < 2; i++)
        if (yyjson_mut_is_false(yyjson_mut_obj_get(result, names[i])))
            yyjson_mut_obj_remove_key(result, names[i]);
    yyjson_doc *out = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    return out;
}

static void expect(const epp_line *l)
{
    uint8_t *end = r.out.len ? memchr(r.out.data, '\n', r.out.len) : NULL;
    if (!end)
        fail_msg("line %d: nothing came", l->number);
    size_t n = (size_t)(end - r.out.data);
    yyjson_doc *got = abx_json_parse(r.out.data, n, ABX_ERR_USAGE, "a line", NULL);
    assert_non_null(got);
    abx_buf_drop(&r.out, n + 1);
    yyjson_doc *same = normal(yyjson_doc_get_root(got));
    epp_assert_equal(l, yyjson_doc_get_root(same));
    yyjson_doc_free(same);
    yyjson_doc_free(got);
}

static void expect_raw(const epp_line *l)
{
    assert_true(r.out.len > l->raw.len);
    assert_memory_equal(r.out.data, l->raw.data, l->raw.len);
    assert_int_equal(r.out.data[l->raw.len], '\n');
    abx_buf_drop(&r.out, l->raw.len + 1);
}

/* Where raw was agreed this end sends nothing else; a host must take the others nevertheless. */
static bool is_sent_raw(const epp_line *l)
{
    yyjson_val *params = yyjson_obj_get(l->message, "params");
    return r.raw && epp_method(l) &&
           (yyjson_obj_get(params, "base64") || yyjson_obj_get(params, "text"));
}

static void play(epp_block *b)
{
    static const char hello[] =
        "{\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol\":\"epp/1\"}}\n";
    memset(&r, 0, sizeof r);
    abx_buf_init(&r.out, (size_t)1 << 24);
    yyjson_val *result = b->greets ? yyjson_obj_get(b->lines[1].message, "result") : NULL;
    r.hello = b->greets ? b->lines[1].message : NULL;
    r.raw = abx_json_bool(result, "raw", false);
    r.plugin = abx_epp_plugin_new(&handlers, NULL, r.raw, abx_json_bool(result, "flow", false));
    if (!b->greets) {
        assert_int_equal(abx_epp_plugin_feed(r.plugin, hello, sizeof hello - 1, NULL), 0);
        abx_buf_reset(&r.out);
    }
    for (size_t i = 0; i < b->count; i++) {
        const epp_line *l = &b->lines[i];
        if (l->by_host) {
            ABX_AUTO_FREE char *text = abx_json_text(l->message);
            assert_int_equal(abx_epp_plugin_feed(r.plugin, text, strlen(text), NULL), 0);
            assert_int_equal(abx_epp_plugin_feed(r.plugin, "\n", 1, NULL), 0);
            if (abx_str_eq(epp_method(l), "cancel"))
                assert_true(r.cancelled);
        } else if (!l->doc) {
            expect_raw(l);
        } else if (!is_sent_raw(l)) {
            if (epp_method(l))
                notify(l, l + 1);
            else
                answer(l);
            expect(l);
        }
    }
    assert_int_equal(r.out.len, 0);
    abx_epp_plugin_free(r.plugin);
    abx_buf_clear(&r.out);
}

static void test_every_exchange(void **state)
{
    (void)state;
    assert_true(epp_each_block(play) >= ABX_OP_COUNT + 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_exchange)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
