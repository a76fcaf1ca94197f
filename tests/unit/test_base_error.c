/* The error object and its table. */
#include "kit.h"

static void first_error_wins(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_fail(&err, ABX_ERR_USAGE, "the %s", "first"), -1);
    assert_int_equal(abx_fail(&err, ABX_ERR_INTERNAL, "the second"), -1);
    assert_int_equal(abx_fail_errno(&err, ABX_ERR_INTERNAL, ENOENT, "the third"), -1);
    assert_int_equal(err->id, ABX_ERR_USAGE);
    assert_string_equal(err->message, "the first");
}

static void null_err_is_allowed(void **state)
{
    assert_int_equal(abx_fail(NULL, ABX_ERR_USAGE, "x"), -1);
    assert_int_equal(abx_fail_errno(NULL, ABX_ERR_USAGE, ENOENT, "x"), -1);
    assert_int_equal(abx_wrap(NULL, "x"), -1);
    assert_int_equal(abx_hint(NULL, "x"), -1);
    assert_int_equal(abx_error_take(NULL, abx_error_new(ABX_ERR_USAGE, "x")), -1);
    abx_error_free(NULL);
}

static void wrap_adds_context_in_front(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_wrap(&err, "nothing to wrap"), -1);
    assert_null(err);
    abx_fail(&err, ABX_ERR_FILE, "no such thing");
    assert_int_equal(abx_wrap(&err, "cannot start '%s'", "sh"), -1);
    assert_string_equal(err->message, "cannot start 'sh': no such thing");
    assert_int_equal(err->id, ABX_ERR_FILE);
}

static void hint_replaces_that_of_the_row(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_hint(&err, "nothing to hint at"), -1);
    assert_null(err);
    abx_fail(&err, ABX_ERR_ISOLATION, "x");
    assert_string_equal(abx_error_hint(err), abx_err_row_of(ABX_ERR_ISOLATION)->hint);
    abx_hint(&err, "first");
    assert_int_equal(abx_hint(&err, "do %d", 2), -1);
    assert_string_equal(abx_error_hint(err), "do 2");
}

static void too_many_open_files_is_a_limit_with_its_own_hint(void **state)
{
    abx_error *err = NULL;
    abx_fail_errno(&err, ABX_ERR_HOME, EMFILE, "cannot open '%s'", "f");
    abx_hint(&err, "use another folder");
    assert_int_equal(err->id, ABX_ERR_QUOTA);
    assert_non_null(strstr(abx_error_hint(err), "ulimit -n"));
    abx_error_free(err);
    err = NULL;
    abx_fail_errno(&err, ABX_ERR_INTERNAL, ENFILE, "x");
    assert_int_equal(err->id, ABX_ERR_QUOTA);
    assert_non_null(strstr(abx_error_hint(err), "fs.file-max"));
    abx_error_free(err);
}

static void a_file_that_may_not_grow_is_a_limit_with_its_own_hint(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    abx_fail_errno(&err, ABX_ERR_HOME, EFBIG, "cannot write '%s'", "f");
    abx_hint(&err, "use another folder");
    assert_int_equal(err->id, ABX_ERR_QUOTA);
    assert_non_null(strstr(abx_error_hint(err), "ulimit -f"));
}

static void errno_text_follows_a_colon(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    abx_fail_errno(&err, ABX_ERR_FILE, ENOENT, "cannot open '%s'", "f");
    assert_string_equal(err->message, "cannot open 'f': No such file or directory");
    assert_int_equal(err->sys_errno, ENOENT);
    assert_int_equal(err->id, ABX_ERR_FILE);
}

static void full_disk_is_no_space(void **state)
{
    abx_error *err = NULL;
    abx_fail_errno(&err, ABX_ERR_FILE, ENOSPC, "x");
    assert_fails(err, NO_SPACE);
    abx_fail_errno(&err, ABX_ERR_LOCAL_STATE, EDQUOT, "x");
    assert_fails(err, NO_SPACE);
}

static void copy_holds_everything(void **state)
{
    ABX_AUTO_ERROR e = abx_error_new(ABX_ERR_BACKEND, "a");
    e->sys_errno = 5;
    e->retryable = ABX_RETRY_YES;
    e->hint = abx_strdup("b");
    e->request_id = abx_strdup("c");
    e->provider = abx_strdup("d");
    e->sandbox = abx_strdup("e");
    ABX_AUTO_ERROR copy = abx_error_copy(e);
    assert_int_equal(copy->id, ABX_ERR_BACKEND);
    assert_int_equal(copy->sys_errno, 5);
    assert_int_equal(copy->retryable, ABX_RETRY_YES);
    assert_string_equal(copy->message, "a");
    assert_string_equal(copy->hint, "b");
    assert_string_equal(copy->request_id, "c");
    assert_string_equal(copy->provider, "d");
    assert_string_equal(copy->sandbox, "e");
    assert_null(abx_error_copy(NULL));
}

static void take_moves_into_the_empty_place_only(void **state)
{
    ABX_AUTO_ERROR err = NULL;
    assert_int_equal(abx_error_take(&err, abx_error_new(ABX_ERR_USAGE, "one")), -1);
    assert_int_equal(abx_error_take(&err, abx_error_new(ABX_ERR_USAGE, "two")), -1);
    assert_string_equal(abx_error_text(err), "one");
    assert_string_equal(abx_error_text(NULL), "unknown error");
}

static void codes_and_names_are_unique(void **state)
{
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        const abx_err_row *a = abx_err_row_of((abx_err_id)i);
        for (int j = i + 1; j < ABX_ERR_COUNT; j++) {
            const abx_err_row *b = abx_err_row_of((abx_err_id)j);
            assert_string_not_equal(a->code, b->code);
            assert_string_not_equal(a->name, b->name);
        }
    }
}

static void each_row_is_whole(void **state)
{
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        const abx_err_row *r = abx_err_row_of((abx_err_id)i);
        assert_int_equal(strlen(r->code), 5);
        assert_int_equal(r->code[0], 'E');
        assert_int_equal(strspn(r->code + 1, "0123456789"), 4);
        assert_true(r->http_status >= 400 && r->http_status < 600);
        assert_true(r->exit_code > 0 && r->exit_code < 256);
        assert_true(strlen(r->meaning) > 0);
        size_t n = strlen(r->type);
        assert_true(n > 5 && strcmp(r->type + n - 5, "Error") == 0);
    }
}

static void codes_are_found(void **state)
{
    for (int i = 0; i < ABX_ERR_COUNT; i++) {
        abx_err_id id = ABX_ERR_COUNT;
        assert_int_equal(abx_err_find(abx_err_row_of((abx_err_id)i)->code, &id), 1);
        assert_int_equal(id, i);
    }
    abx_err_id id = ABX_ERR_USAGE;
    assert_int_equal(abx_err_find("E0000", &id), 0);
    assert_int_equal(abx_err_find("", &id), 0);
    assert_int_equal(id, ABX_ERR_USAGE);
}

static void types_that_people_catch_are_there(void **state)
{
    static const char *const types[] = {
        "InvalidAPIKeyError",     "ProviderConfigError",  "ProviderFeatureNotSupportedError",
        "ProviderIntegrityError", "ProviderKindError",    "ProviderProtocolError",
        "ProviderCrashedError",   "SandboxNotFoundError", "FileNotFoundError",
        "TimeoutError",           "RateLimitError",       "NotEnoughSpaceError",
        "BackendError",           "IsolationError",
    };
    for (size_t i = 0; i < ABX_COUNT(types); i++) {
        bool found = false;
        for (int id = 0; id < ABX_ERR_COUNT; id++)
            found = found || strcmp(abx_err_row_of((abx_err_id)id)->type, types[i]) == 0;
        if (!found)
            fail_msg("no error has the type %s", types[i]);
    }
    assert_string_equal(abx_err_row_of(ABX_ERR_FEATURE_MISSING)->code, "E8004");
    assert_string_equal(abx_err_row_of(ABX_ERR_PROVIDER_INTEGRITY)->code, "E8003");
    assert_string_equal(abx_err_row_of(ABX_ERR_PROVIDER_KIND)->code, "E8002");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins),
        cmocka_unit_test(null_err_is_allowed),
        cmocka_unit_test(wrap_adds_context_in_front),
        cmocka_unit_test(hint_replaces_that_of_the_row),
        cmocka_unit_test(errno_text_follows_a_colon),
        cmocka_unit_test(too_many_open_files_is_a_limit_with_its_own_hint),
        cmocka_unit_test(a_file_that_may_not_grow_is_a_limit_with_its_own_hint),
        cmocka_unit_test(full_disk_is_no_space),
        cmocka_unit_test(copy_holds_everything),
        cmocka_unit_test(take_moves_into_the_empty_place_only),
        cmocka_unit_test(codes_and_names_are_unique),
        cmocka_unit_test(each_row_is_whole),
        cmocka_unit_test(codes_are_found),
        cmocka_unit_test(types_that_people_catch_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
