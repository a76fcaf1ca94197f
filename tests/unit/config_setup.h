/* A folder of its own for each test of the configuration and the ledger, and short ways to fill it. */
#ifndef CONFIG_SETUP_H
#define CONFIG_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "host/config.h"

/* The folder of the running test: HOME/.abx is its home of state, `project` its working directory. */
static char root_dir[64];
static char home_dir[96];
static char project_dir[96];
static char home_variable[96];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline int setup_folder(void **state)
{
    (void)state;
    strcpy(root_dir, "/tmp/abx-unit-XXXXXX");
    if (!mkdtemp(root_dir))
        return -1;
    snprintf(home_dir, sizeof home_dir, "%s/.abx", root_dir);
    snprintf(project_dir, sizeof project_dir, "%s/project", root_dir);
    snprintf(home_variable, sizeof home_variable, "HOME=%s", root_dir);
    return mkdir(home_dir, 0700) || mkdir(project_dir, 0700);
}

static inline int teardown_folder(void **state)
{
    (void)state;
    return nftw(root_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of something in the test's folder; valid until the eighth next call. */
static inline const char *in_root(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root_dir, name);
    return path;
}

static inline void write_file(const char *name, const char *text, mode_t mode)
{
    assert_int_equal(abx_write_atomic(in_root(name), text, strlen(text), mode, false, NULL), 0);
}

static inline char *read_back(const char *name)
{
    abx_buf text = ABX_BUF(0);
    assert_int_equal(abx_read_file(in_root(name), 1 << 20, &text, NULL), 0);
    return abx_buf_take(&text);
}

/* Open with the test's folders; env: up to 8 variables, NULL at the end. */
static inline int open_with(abx_config **c, abx_error **err, const char *const *env)
{
    static const char *all[10];
    size_t n = 0;
    all[n++] = home_variable;
    for (size_t i = 0; env && env[i]; i++)
        all[n++] = env[i];
    all[n] = NULL;
    abx_config_options o = {
        .home = home_dir, .cwd = project_dir, .system_file = in_root("system.toml"), .env = all};
    return abx_config_open(&o, c, err);
}

static inline abx_config *must_open(const char *const *env)
{
    abx_config *c = NULL;
    abx_error *err = NULL;
    if (open_with(&c, &err, env) < 0)
        fail_msg("%s", abx_error_text(err));
    return c;
}

/* Opening fails, with all of these words in the text; the hint holds `hint` (if not NULL). */
static inline void must_fail(const char *hint, const char *const *words)
{
    abx_config *c = NULL;
    abx_error *err = NULL;
    assert_int_equal(open_with(&c, &err, NULL), -1);
    assert_non_null(err);
    for (size_t i = 0; words[i]; i++)
        if (!strstr(err->message, words[i]))
            fail_msg("'%s' is not in: %s", words[i], err->message);
    if (hint && (!abx_error_hint(err) || !strstr(abx_error_hint(err), hint)))
        fail_msg("'%s' is not in the hint: %s", hint, abx_error_hint(err));
    abx_error_free(err);
}

#define MUST_FAIL(hint, ...) must_fail(hint, (const char *const[]){__VA_ARGS__, NULL})
#define ENV(...)             ((const char *const[]){__VA_ARGS__, NULL})
#define TEST(name)           cmocka_unit_test_setup_teardown(name, setup_folder, teardown_folder)

#endif
