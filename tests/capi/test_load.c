/* libabx.so can be linked and loaded, and tells its version. */
#include <abx/abx.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the headers above */
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>

static void linked_version_has_three_numbers(void **state)
{
    (void)state;
    int a, b, c;
    assert_int_equal(sscanf(abx_version(), "%d.%d.%d", &a, &b, &c), 3);
}

static void only_abx_symbols_are_visible(void **state)
{
    (void)state;
    void *self = dlopen("libabx.so.0", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(self);
    assert_non_null(dlsym(self, "abx_version"));
    dlclose(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linked_version_has_three_numbers),
        cmocka_unit_test(only_abx_symbols_are_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
