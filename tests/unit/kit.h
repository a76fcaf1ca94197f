/* What the unit tests of base, ops and host share: cmocka, a folder of one's own, a child that is an ordinary user. */
#ifndef TESTS_KIT_H
#define TESTS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

/* An error with this id is there; it is freed and the pointer is empty for the next one. */
#define assert_fails(err, want)                                                                    \
    do {                                                                                           \
        assert_non_null(err);                                                                      \
        assert_string_equal(abx_err_row_of((err)->id)->name, #want);                               \
        abx_error_free(err);                                                                       \
        (err) = NULL;                                                                              \
    } while (0)

/* A new empty folder, to be ended by kit_drop. */
static inline char *kit_folder(void)
{
    char *path = abx_strdup("/tmp/abx-unit-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void kit_drop(char *path)
{
    abx_error *err = NULL;
    if (abx_remove_tree_at(AT_FDCWD, path, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    free(path);
}

static inline void kit_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(abx_write_full(fd, text, strlen(text)), 0);
    close(fd);
}

/* The text of a file, owned; fails the test if there is none. */
static inline char *kit_read(const char *path)
{
    abx_buf text = ABX_BUF(0);
    assert_int_equal(abx_read_file(path, (size_t)1 << 20, &text, NULL), 0);
    return abx_buf_take(&text);
}

#define KIT_USER 65534

/* Run fn(arg) in a child that is no root user and owns `folder`; what it returns (0 to 255) comes back. Asserts do not
 * work inside: it answers a number that names the step that failed. */
static inline int kit_as_user(const char *folder, int (*fn)(const char *arg), const char *arg)
{
    bool root = geteuid() == 0;
    if (root && folder)
        assert_int_equal(chown(folder, KIT_USER, KIT_USER), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (root && (setgid(KIT_USER) < 0 || setuid(KIT_USER) < 0))
            _exit(250);
        _exit(fn(arg));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#endif
