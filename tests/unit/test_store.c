/* The store of providers: install, load, link, remove, and what is refused. */
#include "store_kit.h"

static void a_folder_is_installed_and_loaded(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_plugin *p = NULL;
    abx_store_entry e;
    (void)state;
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_NEW);
    assert_int_equal(abx_store_load(s.home, "demo", &p, &err), 0);
    assert_string_equal(p->manifest->version, "1.0.0");
    assert_int_equal(p->trust, ABX_TRUST_LOCAL);
    assert_true(p->program_fd >= 0 && p->folder_fd >= 0);
    assert_false(p->consent[ABX_CORE_API_KEY]);
    abx_plugin_free(p);
    assert_int_equal(abx_store_look_up(s.home, "demo", &e, &err), 0);
    assert_string_equal(e.source, s.source);
    assert_int_equal(e.entries, 4);
    abx_store_entry_clear(&e);
    shop_close(&s);
}

static void the_same_again_does_nothing(void **state)
{
    shop s = shop_open();
    struct stat before, after;
    ABX_AUTO_FREE char *place = abx_path_join(s.home, "providers/demo");
    (void)state;
    shop_install(&s, s.source);
    assert_int_equal(stat(place, &before), 0);
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_SAME);
    assert_int_equal(stat(place, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    shop_manifest(&s, "1.1.0");
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_UPGRADE);
    shop_manifest(&s, "1.0.9");
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_DOWNGRADE);
    shop_file(s.source, "lib/part", "another\n", 0644);
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_REPLACE);
    shop_close(&s);
}

static void assert_changed(const shop *s, const char *what)
{
    abx_error *err = NULL;
    abx_plugin *p = NULL;
    assert_int_equal(abx_store_load(s->home, "demo", &p, &err), -1);
    if (!strstr(abx_error_text(err), what))
        fail_msg("'%s' does not say '%s'", abx_error_text(err), what);
    assert_fails(err, PROVIDER_INTEGRITY);
}

static void each_change_is_found(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    ABX_AUTO_FREE char *place = abx_path_join(s.home, "providers/demo");
    ABX_AUTO_FREE char *plugin = abx_path_join(place, "plugin");
    ABX_AUTO_FREE char *extra = abx_path_join(place, "extra");
    (void)state;
    shop_install(&s, s.source);
    shop_file(place, "lib/part", "b part\n", 0644);
    assert_changed(&s, "'lib/part' was changed");
    assert_int_equal(shop_install(&s, s.source),
                     ABX_STORE_REPLACE); /* though the receipt says the same */
    assert_int_equal(chmod(plugin, 0775), 0);
    assert_changed(&s, "'plugin' was changed");
    shop_install(&s, s.source);
    assert_int_equal(mkdir(extra, 0755), 0);
    assert_changed(&s, "'extra' was added");
    assert_int_equal(rmdir(extra), 0);
    assert_int_equal(mkfifo(extra, 0600), 0);
    assert_changed(&s, "it is a fifo");
    shop_install(&s, s.source);
    assert_int_equal(unlink(plugin), 0);
    assert_changed(&s, "'plugin' is gone");
    assert_int_equal(symlink("/bin/true", plugin), 0);
    assert_changed(&s, "'plugin' was changed");
    assert_int_equal(abx_store_uninstall(s.home, "demo", NULL, &err), 0);
    assert_int_equal(abx_store_uninstall(s.home, "demo", NULL, &err), -1);
    assert_fails(err, PROVIDER_NOT_FOUND);
    shop_close(&s);
}

static void a_link_is_what_it_leads_to(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_plugin *p = NULL;
    ABX_AUTO_FREE char *links = abx_path_join(s.home, "providers/.links");
    (void)state;
    abx_store_change *c = abx_store_prepare_link(s.home, s.source, NULL, &err);
    assert_non_null(c);
    assert_true(c->asks[ABX_CORE_API_KEY] && c->asks[ABX_CORE_DOMAIN]);
    c->now.consent[ABX_CORE_DOMAIN] = true;
    assert_int_equal(abx_store_commit(c, &err), 0);
    abx_store_change_free(c);
    shop_manifest(&s, "3.0.0"); /* nothing is compared */
    assert_int_equal(abx_store_load(s.home, "demo", &p, &err), 0);
    assert_int_equal(p->trust, ABX_TRUST_LINK);
    assert_true(p->consent[ABX_CORE_DOMAIN] && !p->consent[ABX_CORE_API_KEY]);
    assert_string_equal(p->manifest->version, "3.0.0");
    abx_plugin_free(p);
    assert_int_equal(shop_install(&s, s.source), ABX_STORE_UPGRADE);
    char **names;
    size_t count;
    ABX_AUTO_FD fd = open(links, O_RDONLY | O_CLOEXEC);
    assert_int_equal(abx_tree_names(fd, &names, &count), 0);
    assert_int_equal(count, 0);
    abx_tree_names_free(names, count);
    shop_close(&s);
}

static void a_module_is_the_bytes_that_were_hashed(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_plugin *p = NULL;
    (void)state;
    shop_file(s.source, ABX_MANIFEST_NAME,
              "schema = 1\nid = \"demo\"\nname = \"Demo\"\nversion = \"1.0.0\"\n[runtime]\n"
              "kind = \"node\"\nprotocol = \"node/1\"\nfeatures = [\"process\"]\n",
              0644);
    shop_file(s.source, "provider.mjs", "export function create() {}\n", 0644);
    shop_install(&s, s.source);
    assert_int_equal(abx_store_load(s.home, "demo", &p, &err), 0);
    assert_int_equal(p->entry_len, 28);
    assert_string_equal(p->entry_text, "export function create() {}\n");
    assert_int_equal(p->program_fd, -1);
    abx_plugin_free(p);
    shop_close(&s);
}

static void a_program_may_be_a_link_inside(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_plugin *p = NULL;
    struct stat st, real;
    ABX_AUTO_FREE char *plugin = abx_path_join(s.source, "plugin");
    ABX_AUTO_FREE char *bin = abx_path_join(s.home, "providers/demo/lib/bin");
    (void)state;
    shop_file(s.source, "lib/bin", "#!/bin/sh\nexit 0\n", 0755);
    assert_int_equal(unlink(plugin), 0);
    assert_int_equal(symlink("lib/bin", plugin), 0);
    shop_install(&s, s.source);
    assert_int_equal(abx_store_load(s.home, "demo", &p, &err), 0);
    assert_int_equal(fstat(p->program_fd, &st), 0);
    assert_int_equal(stat(bin, &real), 0);
    assert_int_equal(st.st_ino, real.st_ino);
    abx_plugin_free(p);
    shop_close(&s);
}

static void a_folder_that_others_can_write_to_is_not_run(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    ABX_AUTO_FREE char *place = abx_path_join(s.home, "providers/demo");
    (void)state;
    shop_install(&s, s.source);
    assert_int_equal(chmod(place, 0775), 0);
    assert_changed(&s, "can be written by others");
    assert_int_equal(chmod(s.source, 0777), 0);
    assert_null(abx_store_prepare_link(s.home, s.source, NULL, &err));
    assert_fails(err, PROVIDER_INTEGRITY);
    shop_close(&s);
}

static void consent_is_for_what_is_asked(void **state)
{
    shop s = shop_open();
    abx_error *err = NULL;
    abx_store_entry e;
    (void)state;
    abx_store_change *c = abx_store_prepare(s.home, s.source, NULL, &err);
    c->now.consent[ABX_CORE_ACCESS_KEY_ID] = true;
    assert_int_equal(abx_store_commit(c, &err), -1);
    assert_fails(err, USAGE);
    c->now.consent[ABX_CORE_ACCESS_KEY_ID] = false;
    c->now.consent[ABX_CORE_API_KEY] = true;
    assert_int_equal(abx_store_commit(c, &err), 0);
    abx_store_change_free(c);
    shop_manifest(&s, "1.0.1");
    shop_install(&s, s.source); /* what was given stays given */
    assert_int_equal(abx_store_look_up(s.home, "demo", &e, &err), 0);
    assert_true(e.consent[ABX_CORE_API_KEY] && !e.consent[ABX_CORE_DOMAIN]);
    abx_store_entry_clear(&e);
    c = abx_store_prepare(s.home, s.source, NULL, &err);
    assert_int_equal(c->step, ABX_STORE_SAME);
    c->now.consent[ABX_CORE_API_KEY] = false; /* only the receipt changes */
    assert_int_equal(abx_store_commit(c, &err), 0);
    abx_store_change_free(c);
    abx_plugin *p = NULL;
    assert_int_equal(abx_store_load(s.home, "demo", &p, &err), 0);
    assert_false(p->consent[ABX_CORE_API_KEY]);
    abx_plugin_free(p);
    shop_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_installed_and_loaded),
        cmocka_unit_test(the_same_again_does_nothing),
        cmocka_unit_test(each_change_is_found),
        cmocka_unit_test(a_link_is_what_it_leads_to),
        cmocka_unit_test(a_module_is_the_bytes_that_were_hashed),
        cmocka_unit_test(a_program_may_be_a_link_inside),
        cmocka_unit_test(a_folder_that_others_can_write_to_is_not_run),
        cmocka_unit_test(consent_is_for_what_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
