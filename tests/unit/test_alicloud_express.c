/* alicloud-express: its addresses, what its failures mean, metadata of new sandboxes. */
#include <string.h>

#include "kit.h"

#include "adapters/builtin/alicloud_express.h"
#include "base/mem.h"

/* --- addresses ------------------------------------------------------------------------------------------ */
typedef struct place_case {
    express_wish wish;
    const char *api_url, *domain, *region; /* what comes of it */
} place_case;

#define FC      "cn-hangzhou.e2b.fc.aliyuncs.com"
#define SANDBOX "cn-hangzhou.sandbox.aliyuncs.com"

static void one_address_gives_the_other(void **state)
{
    (void)state;
    static const place_case cases[] = {
        {{.region = "cn-hangzhou"}, "https://api." FC, FC, "cn-hangzhou"},
        {{.region = "cn-hangzhou", .family = "fc"}, "https://api." FC, FC, "cn-hangzhou"},
        {{.region = "cn-hangzhou", .family = "sandbox"},
         "https://api." SANDBOX,
         SANDBOX,
         "cn-hangzhou"},
        {{.region = "xx-new-9"},
         "https://api.xx-new-9.e2b.fc.aliyuncs.com",
         "xx-new-9.e2b.fc.aliyuncs.com",
         "xx-new-9"},
        {{.region = "cn-hangzhou-vpc"},
         "https://api.cn-hangzhou-vpc.e2b.fc.aliyuncs.com",
         "cn-hangzhou-vpc.e2b.fc.aliyuncs.com",
         "cn-hangzhou-vpc"},
        {{.api_url = "https://api." SANDBOX "/"},
         "https://api." SANDBOX "/",
         SANDBOX,
         "cn-hangzhou"},
        {{.domain = SANDBOX}, "https://api." SANDBOX, SANDBOX, "cn-hangzhou"},
        {{.api_url = "https://api." FC, .domain = FC, .region = "cn-hangzhou", .family = "fc"},
         "https://api." FC,
         FC,
         "cn-hangzhou"},
        {{.api_url = "https://api.example.com"}, "https://api.example.com", "example.com", NULL},
        {{.domain = "example.com", .region = "cn-hangzhou"},
         "https://api.example.com",
         "example.com",
         NULL},
        {{.api_url = "https://api." FC, .domain = "example.com"},
         "https://api." FC,
         "example.com",
         "cn-hangzhou"},
        {{.api_url = "http://127.0.0.1:8080", .domain = "localhost:8080"},
         "http://127.0.0.1:8080",
         "localhost:8080",
         NULL},
    };
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        express_place place;
        abx_error *err = NULL;
        assert_int_equal(express_place_init(&place, &cases[i].wish, &err), 0);
        assert_string_equal(place.api_url, cases[i].api_url);
        assert_string_equal(place.domain, cases[i].domain);
        if (cases[i].region)
            assert_string_equal(place.region, cases[i].region);
        else
            assert_null(place.region);
        express_place_clear(&place);
    }
}

static void addresses_of_two_places_are_refused(void **state)
{
    (void)state;
    static const struct {
        express_wish wish;
        const char *message;
    } cases[] = {
        {{0}, "needs the region of your key"},
        {{.family = "sandbox"}, "needs the region"},
        {{.region = "a.b"}, "'a.b' is no region"},
        {{.region = "evil.com/"}, "is no region"},
        {{.region = ""}, "is no region"},
        {{.region = "-x"}, "is no region"},
        {{.api_url = "https://api." FC, .domain = SANDBOX}, "of two families"},
        {{.api_url = "https://api." FC, .domain = "cn-beijing.e2b.fc.aliyuncs.com"},
         "of two regions"},
        {{.api_url = "https://api." FC, .region = "cn-beijing"}, "region 'cn-beijing' is not that"},
        {{.domain = FC, .family = "sandbox"}, "family 'sandbox' is not that"},
    };
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        express_place place;
        ABX_AUTO_ERROR err = NULL;
        assert_int_equal(express_place_init(&place, &cases[i].wish, &err), -1);
        assert_int_equal(err->id, ABX_ERR_PROVIDER_CONFIG);
        assert_non_null(strstr(err->message, cases[i].message));
        assert_null(place.api_url);
    }
}

/* --- failures ---------------------------------------------------------------------------------------------- */
static char *hint_of(const char *region, const char *key, abx_op_id op, abx_err_id id,
                     const char *message)
{
    express_wish wish = {.region = region};
    express_place place;
    assert_int_equal(express_place_init(&place, &wish, NULL), 0);
    ABX_AUTO_ERROR err = abx_error_new(id, "%s", message);
    express_explain(&place, key, op, err);
    express_place_clear(&place);
    return abx_strdup(err->hint ? err->hint : "");
}

static void a_failure_says_what_it_means_here(void **state)
{
    (void)state;
    static const struct {
        const char *region, *key;
        abx_op_id op;
        abx_err_id id;
        const char *message, *hint;
    } cases[] = {
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_LIST, ABX_ERR_API_KEY, "unauthorized",
         "disabled, reset, expired or of another region than 'cn-hangzhou'"},
        {"cn-hangzhou", "LTAI5t", ABX_OP_SANDBOX_LIST, ABX_ERR_API_KEY, "unauthorized",
         "begin with 'e2b_'"},
        {"cn-hangzho", "e2b_00", ABX_OP_SANDBOX_LIST, ABX_ERR_NETWORK, "could not resolve host",
         "did you mean 'cn-hangzhou'?"},
        {"mars", "e2b_00", ABX_OP_SANDBOX_LIST, ABX_ERR_NETWORK, "could not resolve host",
         "there are: cn-beijing cn-shanghai"},
        {"cn-hangzhou-vpc", "e2b_00", ABX_OP_SANDBOX_LIST, ABX_ERR_NETWORK, "x", ""},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_PAUSE, ABX_ERR_FORBIDDEN, "no",
         "Eco has no pause"},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_PAUSE, ABX_ERR_SANDBOX_NOT_FOUND, "no", ""},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_SET_TIMEOUT, ABX_ERR_USAGE, "too long",
         "24 hours"},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_SNAPSHOT_CREATE, ABX_ERR_FORBIDDEN, "no",
         "accounts on a list"},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_CREATE, ABX_ERR_TIMEOUT, "nothing came",
         "listens on nothing at port 5000"},
        {"cn-hangzhou", "e2b_00", ABX_OP_SANDBOX_CREATE, ABX_ERR_TEMPLATE_NOT_FOUND, "no",
         "one account and one region"},
        {"cn-hangzhou", "e2b_00", ABX_OP_PROCESS_START, ABX_ERR_BACKEND_ANSWER,
         "a web page came instead of an answer (status 404): '404 Not Found openresty'",
         "no proxy on port 5000"},
        {"cn-hangzhou", "e2b_00", ABX_OP_CODE_RUN, ABX_ERR_NETWORK,
         "the server answered with status 502", "interpreter does not run"},
        {"cn-hangzhou", "e2b_00", ABX_OP_PROCESS_START, ABX_ERR_NETWORK,
         "the server answered with status 502", "envd does not run"},
        {"cn-hangzhou", "e2b_00", ABX_OP_CODE_CONTEXT_LIST, ABX_ERR_FEATURE_MISSING, "no route",
         "contexts may not be supported"},
        {"cn-hangzhou", "e2b_00", ABX_OP_PROCESS_START, ABX_ERR_USAGE,
         "invalid character '/' after top-level value", "JSON only"},
        {"cn-hangzhou", "e2b_00", ABX_OP_FS_READ, ABX_ERR_FILE_NOT_FOUND, "no", ""},
    };
    for (size_t i = 0; i < ABX_COUNT(cases); i++) {
        ABX_AUTO_FREE char *hint =
            hint_of(cases[i].region, cases[i].key, cases[i].op, cases[i].id, cases[i].message);
        if (cases[i].hint[0])
            assert_non_null(strstr(hint, cases[i].hint));
        else
            assert_string_equal(hint, "");
        assert_null(strstr(hint, "LTAI")); /* no part of the key */
    }
}

/* --- metadata ------------------------------------------------------------------------------------------------ */
static yyjson_doc *parse(const char *text)
{
    yyjson_doc *d = abx_json_parse(text, strlen(text), ABX_ERR_INTERNAL, "options", NULL);
    assert_non_null(d);
    return d;
}

static void extensions_travel_as_json_texts(void **state)
{
    (void)state;
    ABX_AUTO_JSON options =
        parse("{\"region\":\"x\",\"vpc\":\"{\\\"vpcId\\\":\\\"vpc-1\\\"}\",\"oss\":\"{}\"}");
    yyjson_doc *out = NULL;
    assert_int_equal(express_metadata(yyjson_doc_get_root(options), &out, NULL), 0);
    yyjson_val *root = yyjson_doc_get_root(out);
    assert_int_equal(yyjson_obj_size(root), 2);
    assert_string_equal(abx_json_str(root, "fc.sandbox.network.vpc", ""), "{\"vpcId\":\"vpc-1\"}");
    assert_string_equal(abx_json_str(root, "fc.sandbox.storage.oss", ""), "{}");
    yyjson_doc_free(out);

    ABX_AUTO_JSON none = parse("{}");
    assert_int_equal(express_metadata(yyjson_doc_get_root(none), &out, NULL), 0);
    assert_null(out);

    static const char *const bad[] = {"{\"vpc\":\"{\"}", "{\"oss\":\"[]\"}", "{\"vpc\":\"\"}"};
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        ABX_AUTO_JSON wrong = parse(bad[i]);
        ABX_AUTO_ERROR err = NULL;
        assert_int_equal(express_metadata(yyjson_doc_get_root(wrong), &out, &err), -1);
        assert_int_equal(err->id, ABX_ERR_PROVIDER_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_gives_the_other),
        cmocka_unit_test(addresses_of_two_places_are_refused),
        cmocka_unit_test(a_failure_says_what_it_means_here),
        cmocka_unit_test(extensions_travel_as_json_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
