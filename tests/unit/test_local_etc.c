/* What of the host's /etc and /usr/local comes into a sandbox. */
#include "kit.h"

#include <sys/xattr.h>

#include "base/text.h"
#include "local/etc_copy.h"
#include "local/etc_text.h"
#include "local/skeleton.h"

#define SECRET(text) abx_looks_secret(text, strlen(text))

static void lines_like_credentials_are_seen(void **state)
{
    assert_true(SECRET("password = hunter2\n"));
    assert_true(SECRET("a=b\n  Password: x\n"));
    assert_true(SECRET("//registry.example/:_authToken=abc"));
    assert_true(SECRET("api_key \"k\" = v"));
    assert_true(SECRET("index-url = https://me:pw@pypi.example/simple\n"));
    assert_true(SECRET("# https://me:pw@host/\n"));
    assert_true(SECRET("<password>x</password>"));
    assert_true(SECRET("client_secret=x"));
    assert_true(SECRET("-----BEGIN RSA PRIVATE KEY-----\n"));
}

static void plain_settings_are_no_credentials(void **state)
{
    assert_false(SECRET(""));
    assert_false(SECRET("# password = the user's own\n"));
    assert_false(SECRET("; token=x\n// secret=x\n"));
    assert_false(SECRET("password =\n"));
    assert_false(SECRET("<password></password>\n"));
    assert_false(SECRET("see http://host:80/path and mail a@b\n"));
    assert_false(SECRET("tokenize the input\n"));
}

static void only_certificates_are_certificates(void **state)
{
    const char *cert = "x\n-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n";
    const char *both = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
    assert_true(abx_is_certificate(cert, strlen(cert)));
    assert_false(abx_is_certificate(both, strlen(both)));
    assert_false(abx_is_certificate("text", 4));
}

static void names_of_keys_are_refused(void **state)
{
    assert_true(abx_name_is_secret("ssh_host_key"));
    assert_true(abx_name_is_secret("server.key"));
    assert_true(abx_name_is_secret("auth.conf.d"));
    assert_true(abx_name_is_secret("private"));
    assert_false(abx_name_is_secret("ca.crt"));
}

static void lines_with_a_password_in_an_address_are_dropped(void **state)
{
    char text[] = "deb http://a/ x\ndeb https://me:pw@b/ x\ndeb http://c/ x";
    size_t n = abx_drop_secret_lines(text, strlen(text));
    text[n] = 0;
    assert_string_equal(text, "deb http://a/ x\ndeb http://c/ x");
}

static void only_system_accounts_are_taken_without_their_details(void **state)
{
    ABX_AUTO_BUF out = ABX_BUF(4096);
    const char *text =
        "root:x:0:0:Big Boss:/root:/bin/zsh\n_apt:x:42:65534:secret:/x:/bin/sh\n"
        "alice:x:1000:1000:Alice:/home/alice:/bin/bash\nbad:x:y:1::\nnobody:x:65534:1::\n"
        "www-data:x:33:33:w:/var/www:/bin/sh";
    assert_int_equal(abx_system_accounts(text, false, &out), 0);
    assert_string_equal(abx_buf_cstr(&out), "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                                            "www-data:x:33:33::/nonexistent:/usr/sbin/nologin\n");
    abx_buf_reset(&out);
    assert_int_equal(
        abx_system_accounts("tty:x:5:\nadm:x:4:alice,bob\nalice:x:1000:\n", true, &out), 0);
    assert_string_equal(abx_buf_cstr(&out), "adm:x:4:\n");
}

/* --- a whole skeleton from a host made for it -------------------------------------------------------- */

typedef struct host {
    char *root, *made;
    int fd;
} host;

static void put(const host *h, const char *path, const char *text, mode_t mode)
{
    ABX_AUTO_FREE char *full = abx_path_join(h->root, path);
    ABX_AUTO_FREE char *dir = abx_path_dir(full);
    assert_int_equal(abx_make_dirs(dir, 0755, NULL), 0);
    kit_write(full, text);
    assert_int_equal(chmod(full, mode), 0);
}

static void link_to(const host *h, const char *path, const char *target)
{
    ABX_AUTO_FREE char *full = abx_path_join(h->root, path);
    ABX_AUTO_FREE char *dir = abx_path_dir(full);
    assert_int_equal(abx_make_dirs(dir, 0755, NULL), 0);
    assert_int_equal(symlink(target, full), 0);
}

static void build(host *h, abx_ids ids)
{
    abx_error *err = NULL;
    mode_t mask = umask(0);
    h->made = kit_folder();
    h->fd = open(h->made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (abx_skeleton_build(h->fd, h->root, ids, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    umask(mask);
}

static char *text_in(const host *h, const char *path)
{
    ABX_AUTO_FREE char *full = abx_format("%s/usr/.abx/%s", h->made, path);
    return kit_read(full);
}

static bool has(const host *h, const char *path)
{
    ABX_AUTO_FREE char *full = abx_format("%s/usr/.abx/%s", h->made, path);
    struct stat st;
    return lstat(full, &st) == 0;
}

static void drop(host *h)
{
    close(h->fd);
    kit_drop(h->made);
    h->made = NULL;
}

#define CERT "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"

static void fill(host *h)
{
    h->root = kit_folder();
    put(h, "etc/passwd",
        "root:x:0:0:Boss:/root:/bin/zsh\n_apt:x:42:65534:a:/x:/bin/sh\nalice:x:1000:1000::/h:/b\n",
        0644);
    put(h, "etc/group", "adm:x:4:alice\n", 0644);
    put(h, "etc/shadow", "root:$6$hash\n", 0644);
    put(h, "etc/npmrc", "_authToken=x\n", 0644);
    put(h, "etc/profile.d/proxy.sh", "http_proxy=http://me:pw@p/\n", 0644);
    put(h, "etc/ssl/certs/good.pem", CERT, 0644);
    put(h, "etc/ssl/certs/mixed.pem", CERT "-----BEGIN PRIVATE KEY-----\n", 0644);
    put(h, "etc/ssl/certs/unreadable.pem", CERT, 0600);
    put(h, "etc/ssl/private/server.pem", CERT, 0644);
    link_to(h, "etc/ssl/certs/hash.0", "good.pem");
    link_to(h, "etc/ssl/certs/out.pem", "/usr/share/ca/x.crt");
    link_to(h, "etc/ssl/certs/escape", "../../shadow");
    put(h, "etc/ld.so.cache", "cache", 0644);
    put(h, "etc/fonts/fonts.conf", "<fontconfig/>\n", 0644);
    put(h, "etc/fonts/secret.conf", "<x/>\n", 0644);
    put(h, "etc/perl/net.cfg", "password = x\n", 0644);
    put(h, "etc/python3.11/site.cfg", "a = b\n", 0644);
    link_to(h, "etc/alternatives/awk", "/usr/bin/mawk");
    put(h, "etc/alternatives/README", "text", 0644);
    link_to(h, "etc/localtime", "/usr/share/zoneinfo/Europe/Berlin");
    put(h, "etc/apt/sources.list", "deb http://a/ x\ndeb https://me:pw@b/ x\n", 0644);
    put(h, "etc/apt/auth.conf.d/a.conf", "machine a\n", 0644);
    put(h, "etc/apt/apt.conf.d/01proxy", "Acquire::http::Proxy \"http://p:1/\";\n", 0644);
    put(h, "usr/bin/bash", "", 0755);
    put(h, "usr/local/bin/tool", "", 0755);
    put(h, "usr/local/etc/npmrc", "token=x\n", 0644);
    put(h, "usr/local/go/bin/go", "", 0755);
    link_to(h, "usr/local/man", "share/man");
    link_to(h, "bin", "usr/bin");
}

static void what_is_not_listed_is_not_there(void **state)
{
    host h;
    fill(&h);
    build(&h, ABX_IDS_SINGLE);
    static const char *const absent[] = {
        "etc/shadow",
        "etc/npmrc",
        "etc/profile.d",
        "etc/ssl/private",
        "etc/ssl/certs/mixed.pem",
        "etc/ssl/certs/unreadable.pem",
        "etc/ssl/certs/escape",
        "etc/fonts/secret.conf",
        "etc/perl/net.cfg",
        "etc/alternatives/README",
        "etc/apt",
        "etc/gshadow",
    };
    for (size_t i = 0; i < ABX_COUNT(absent); i++)
        if (has(&h, absent[i]))
            fail_msg("'%s' is there", absent[i]);
    drop(&h);
    kit_drop(h.root);
}

static void what_is_listed_is_there(void **state)
{
    host h;
    fill(&h);
    build(&h, ABX_IDS_SINGLE);
    static const char *const present[] = {
        "etc/ssl/certs/good.pem",
        "etc/ssl/certs/hash.0",
        "etc/ssl/certs/out.pem",
        "etc/ld.so.cache",
        "etc/fonts/fonts.conf",
        "etc/python3.11/site.cfg",
        "etc/alternatives/awk",
        "home/user",
        "work",
        "dev/null",
        "proc",
        "bin",
        "etc/hosts",
        "var/lib/dbus/machine-id",
    };
    for (size_t i = 0; i < ABX_COUNT(present); i++)
        if (!has(&h, present[i]))
            fail_msg("'%s' is not there", present[i]);
    ABX_AUTO_FREE char *passwd = text_in(&h, "etc/passwd");
    ABX_AUTO_FREE char *zone = text_in(&h, "etc/timezone");
    assert_string_equal(passwd,
                        "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
                        "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n");
    assert_string_equal(zone, "Europe/Berlin\n");
    drop(&h);
    kit_drop(h.root);
}

static void a_range_has_system_accounts_and_apt_without_secrets(void **state)
{
    host h;
    fill(&h);
    build(&h, ABX_IDS_RANGE);
    ABX_AUTO_FREE char *passwd = text_in(&h, "etc/passwd");
    assert_non_null(strstr(passwd, "\n_apt:x:42:"));
    assert_null(strstr(passwd, "alice"));
    assert_true(has(&h, "etc/shadow"));
    ABX_AUTO_FREE char *shadow = text_in(&h, "etc/shadow");
    assert_null(strstr(shadow, "hash"));
    assert_false(has(&h, "etc/apt"));
    drop(&h);
    if (geteuid() == 0) { /* owners can be set by root only */
        build(&h, ABX_IDS_SLOT);
        ABX_AUTO_FREE char *sources = text_in(&h, "etc/apt/sources.list");
        assert_string_equal(sources, "deb http://a/ x\n");
        assert_false(has(&h, "etc/apt/auth.conf.d"));
        assert_false(has(&h, "etc/apt/apt.conf.d/01proxy"));
        drop(&h);
    }
    kit_drop(h.root);
}

static void the_hosts_usr_local_is_covered_but_for_programs(void **state)
{
    host h;
    char value[4];
    struct stat st;
    fill(&h);
    build(&h, ABX_IDS_SINGLE);
    ABX_AUTO_FREE char *etc = abx_path_join(h.made, "usr/local/etc");
    ABX_AUTO_FREE char *go = abx_path_join(h.made, "usr/local/go");
    ABX_AUTO_FREE char *bin = abx_path_join(h.made, "usr/local/bin");
    assert_int_equal(getxattr(etc, "user.overlay.opaque", value, sizeof(value)), 1);
    assert_int_equal(lstat(go, &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    assert_int_equal(lstat(bin, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    drop(&h);
    kit_drop(h.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_like_credentials_are_seen),
        cmocka_unit_test(plain_settings_are_no_credentials),
        cmocka_unit_test(only_certificates_are_certificates),
        cmocka_unit_test(names_of_keys_are_refused),
        cmocka_unit_test(lines_with_a_password_in_an_address_are_dropped),
        cmocka_unit_test(only_system_accounts_are_taken_without_their_details),
        cmocka_unit_test(what_is_not_listed_is_not_there),
        cmocka_unit_test(what_is_listed_is_there),
        cmocka_unit_test(a_range_has_system_accounts_and_apt_without_secrets),
        cmocka_unit_test(the_hosts_usr_local_is_covered_but_for_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
