/* Documents of images: which manifest is taken, what is read from them, what is refused. */
#include "kit.h"

#include "local/template/base_layer.h"
#include "local/template/layer_name.h"
#include "local/template/oci.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* A document from a text with ' for ". */
static yyjson_doc *json(const char *text)
{
    ABX_AUTO_FREE char *copy = abx_strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    ABX_AUTO_ERROR err = NULL;
    yyjson_doc *doc = abx_json_parse(copy, strlen(copy), ABX_ERR_FILE, "test", &err);
    assert_non_null(doc);
    return doc;
}

static void a_digest_is_64_lower_case_hexadecimal_digits(void **state)
{
    static const char *const bad[] = {
        "",
        "sha256:",
        "sha512:" HEX_A,
        "sha256:" HEX_A "a",
        HEX_A,
        "sha256:../../../../../../../../etc/passwd",
        "sha256:AAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    abx_sha256 out;
    (void)state;
    assert_int_equal(abx_oci_digest("sha256:" HEX_A, out, NULL), 0);
    assert_string_equal(out, HEX_A);
    for (size_t i = 0; i < ABX_COUNT(bad); i++)
        assert_int_equal(abx_oci_digest(bad[i], out, NULL), -1);
    assert_int_equal(abx_oci_digest(NULL, out, NULL), -1);
}

static void the_manifest_of_this_machine_is_picked(void **state)
{
    abx_sha256 out;
    bool is_index;
    (void)state;
    ABX_AUTO_FREE char *text =
        abx_format("{'manifests':[{'digest':'sha256:" HEX_A
                   "','platform':{'os':'linux','architecture':'none'}},"
                   "{'digest':'sha256:" HEX_B "','platform':{'os':'linux','architecture':'%s'}}]}",
                   abx_oci_architecture());
    ABX_AUTO_JSON doc = json(text);
    assert_int_equal(abx_oci_pick(yyjson_doc_get_root(doc), out, &is_index, NULL), 0);
    assert_string_equal(out, HEX_B);
    assert_false(is_index);
}

static void an_index_without_a_fitting_manifest_is_refused(void **state)
{
    abx_sha256 out;
    bool is_index;
    ABX_AUTO_ERROR err = NULL;
    (void)state;
    ABX_AUTO_JSON other = json("{'manifests':[{'digest':'sha256:" HEX_A
                               "','platform':{'os':'windows','architecture':'x'}}]}");
    assert_int_equal(abx_oci_pick(yyjson_doc_get_root(other), out, &is_index, &err), -1);
    ABX_AUTO_JSON two =
        json("{'manifests':[{'digest':'sha256:" HEX_A "'},{'digest':'sha256:" HEX_B "'}]}");
    assert_int_equal(abx_oci_pick(yyjson_doc_get_root(two), out, &is_index, NULL), -1);
    ABX_AUTO_JSON none = json("{'manifests':{}}");
    assert_int_equal(abx_oci_pick(yyjson_doc_get_root(none), out, &is_index, NULL), -1);
}

static void a_manifest_names_its_blobs_by_digest(void **state)
{
    abx_oci_image image = {0};
    (void)state;
    ABX_AUTO_JSON doc = json("{'schemaVersion':2,'config':{'digest':'sha256:" HEX_A "'},"
                             "'layers':[{'digest':'sha256:" HEX_B "'}]}");
    assert_int_equal(abx_oci_read_manifest(yyjson_doc_get_root(doc), &image, NULL), 0);
    assert_string_equal(image.config_blob, "blobs/sha256/" HEX_A);
    assert_int_equal(image.layer_count, 1);
    assert_string_equal(image.layers[0].blob, "blobs/sha256/" HEX_B);
    abx_oci_image_clear(&image);
}

static void dockers_manifest_holds_one_image_with_plain_names(void **state)
{
    static const char *const bad[] = {
        "[]",
        "[{},{}]",
        "[{'Config':'/etc/passwd','Layers':[]}]",
        "[{'Config':'../x','Layers':[]}]",
        "[{'Config':'a','Layers':['../../etc/shadow']}]",
        "[{'Config':'a','Layers':[7]}]",
        "{}",
    };
    abx_oci_image image = {0};
    (void)state;
    ABX_AUTO_JSON doc = json("[{'Config':'" HEX_A ".json','Layers':['x/layer.tar']}]");
    assert_int_equal(abx_oci_read_docker(yyjson_doc_get_root(doc), &image, NULL), 0);
    assert_string_equal(image.config_digest, HEX_A);
    assert_string_equal(image.layers[0].digest, "");
    abx_oci_image_clear(&image);
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        ABX_AUTO_JSON d = json(bad[i]);
        assert_int_equal(abx_oci_read_docker(yyjson_doc_get_root(d), &image, NULL), -1);
        abx_oci_image_clear(&image);
    }
}

static abx_oci_image one_layer(void)
{
    abx_oci_image image = {.layers = abx_alloc_array(1, sizeof(abx_oci_layer)), .layer_count = 1};
    return image;
}

static void a_configuration_says_how_the_image_runs(void **state)
{
    abx_oci_image image = one_layer();
    (void)state;
    ABX_AUTO_JSON doc = json(
        "{'os':'linux','rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'Env':['A=1','B=x=y',"
        "'UNSET'],'User':'app:staff','WorkingDir':'/w','Entrypoint':['/e','-x'],'Cmd':['c']}}");
    assert_int_equal(abx_oci_read_config(yyjson_doc_get_root(doc), &image, NULL), 0);
    yyjson_val *c = yyjson_doc_get_root(image.config);
    assert_string_equal(abx_json_str(abx_json_get(c, "env"), "B", ""), "x=y");
    assert_null(abx_json_get(abx_json_get(c, "env"), "UNSET"));
    assert_string_equal(abx_json_str(c, "user", ""), "app:staff");
    assert_int_equal(yyjson_arr_size(abx_json_get(c, "command")), 3);
    assert_string_equal(image.layers[0].diff_id, HEX_A);
    abx_oci_image_clear(&image);
}

static void a_configuration_that_does_not_fit_is_refused(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{'rootfs':{'diff_ids':[]}}",
        "{'rootfs':{'diff_ids':['sha256:x']}}",
        "{'os':'windows','rootfs':{'diff_ids':['sha256:" HEX_A "']}}",
        "{'architecture':'pdp11','rootfs':{'diff_ids':['sha256:" HEX_A "']}}",
        "{'rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'Env':['=x']}}",
        "{'rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'Env':[7]}}",
        "{'rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'Cmd':'sh'}}",
        "{'rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'Cmd':['a\\u0000b']}}",
        "{'rootfs':{'diff_ids':['sha256:" HEX_A "']},'config':{'User':'a\\nroot:x:0'}}",
    };
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        abx_oci_image image = one_layer();
        ABX_AUTO_ERROR err = NULL;
        ABX_AUTO_JSON doc = json(bad[i]);
        assert_int_equal(abx_oci_read_config(yyjson_doc_get_root(doc), &image, &err), -1);
        assert_int_equal(err->id, ABX_ERR_FILE);
        abx_oci_image_clear(&image);
    }
}

/* --- names of entries -------------------------------------------------------------------------------- */

static void names_are_cleaned_and_judged(void **state)
{
    static const struct {
        const char *raw, *clean;
        abx_name_kind kind;
    } rows[] = {
        {"a/b", "a/b", ABX_NAME_PLAIN},
        {"./a//b/", "a/b", ABX_NAME_PLAIN},
        {"/etc/passwd", "etc/passwd", ABX_NAME_PLAIN},
        {"./", "", ABX_NAME_PLAIN},
        {"a/.wh.b", "a/b", ABX_NAME_WHITEOUT},
        {".wh.b", "b", ABX_NAME_WHITEOUT},
        {"a/.wh..wh..opq", "a", ABX_NAME_OPAQUE},
        {".wh..wh..opq", "", ABX_NAME_OPAQUE},
        {".wh..wh.plnk", ".wh..wh.plnk", ABX_NAME_SKIP},
        {"a.wh.b", "a.wh.b", ABX_NAME_PLAIN},
    };
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        abx_name_kind kind;
        ABX_AUTO_FREE char *clean = NULL;
        assert_int_equal(abx_layer_name(rows[i].raw, &kind, &clean, NULL), 0);
        assert_string_equal(clean, rows[i].clean);
        assert_int_equal(kind, rows[i].kind);
    }
}

static void names_with_tricks_are_refused_by_name(void **state)
{
    static const char *const bad[] = {"",         "..",      "a/../b",          "../x",
                                      ".wh.",     ".wh..",   ".wh...",          ".wh..wh.x",
                                      "a/.wh./b", ".wh.a/b", "x/.wh..wh..opq/y"};
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(bad); i++) {
        abx_name_kind kind;
        char *clean = NULL;
        ABX_AUTO_ERROR err = NULL;
        assert_int_equal(abx_layer_name(bad[i], &kind, &clean, &err), -1);
        assert_non_null(strstr(err->message, "is refused"));
        assert_null(clean);
    }
    ABX_AUTO_FREE char *deep = abx_alloc(2 * 300 + 1);
    for (int i = 0; i < 300; i++)
        memcpy(deep + (size_t)2 * (size_t)i, "a/", 2);
    abx_name_kind kind;
    char *clean = NULL;
    assert_int_equal(abx_layer_name(deep, &kind, &clean, NULL), -1);
}

/* --- accounts ---------------------------------------------------------------------------------------- */

static void passwd_gets_the_accounts_that_it_lacks(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(4096);
    (void)state;
    assert_int_equal(abx_passwd_with_user("root:x:0:0:r:/root:/bin/ash\nn:x:1000:1000::/n:/bin/sh",
                                          "/bin/sh", &out),
                     0);
    assert_string_equal(abx_buf_cstr(&out),
                        "root:x:0:0:r:/root:/bin/ash\nn:x:1000:1000::/n:/bin/sh\n"
                        "user:x:1000:1000::/home/user:/bin/sh\n");
}

static void a_user_of_that_name_with_another_number_is_hidden(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(4096);
    (void)state;
    assert_int_equal(abx_passwd_with_user("root:x:0:0:::\nuser:x:5:5:::\n", "/bin/sh", &out), 0);
    assert_string_equal(abx_buf_cstr(&out), "user:x:1000:1000::/home/user:/bin/sh\n"
                                            "root:x:0:0:::\nuser:x:5:5:::\n");
}

static void an_images_user_is_found_by_name_or_number(void **state)
{
    static const char passwd[] = "root:x:0:0:::\nweb:x:33:33:::\nbroken\nuser:x:1000:1000:::\n";
    static const struct {
        const char *user, *name;
        uint32_t uid;
    } rows[] = {{"web", "web", 33},   {"33", "web", 33},
                {"33:44", "web", 33}, {"web:x", "web", 33},
                {"77", "77", 77},     {"nobody", "nobody", UINT32_MAX},
                {"0", "root", 0},     {"broken", "broken", UINT32_MAX}};
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        ABX_AUTO_FREE char *name = NULL;
        uint32_t uid;
        abx_image_user(passwd, rows[i].user, &name, &uid);
        assert_string_equal(name, rows[i].name);
        assert_int_equal(uid, rows[i].uid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_64_lower_case_hexadecimal_digits),
        cmocka_unit_test(the_manifest_of_this_machine_is_picked),
        cmocka_unit_test(an_index_without_a_fitting_manifest_is_refused),
        cmocka_unit_test(a_manifest_names_its_blobs_by_digest),
        cmocka_unit_test(dockers_manifest_holds_one_image_with_plain_names),
        cmocka_unit_test(a_configuration_says_how_the_image_runs),
        cmocka_unit_test(a_configuration_that_does_not_fit_is_refused),
        cmocka_unit_test(names_are_cleaned_and_judged),
        cmocka_unit_test(names_with_tricks_are_refused_by_name),
        cmocka_unit_test(passwd_gets_the_accounts_that_it_lacks),
        cmocka_unit_test(a_user_of_that_name_with_another_number_is_hidden),
        cmocka_unit_test(an_images_user_is_found_by_name_or_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
