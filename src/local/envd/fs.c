/* Stat, MakeDir, Move, Remove. */
#include "local/envd/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* What each of them begins with: user and absolute path. 0; -1: the call was failed. */
static int take_path(abx_envd *e, abx_e2b_call *c, yyjson_val *q, const char *key, const char *what,
                     abx__user *u, char **out)
{
    const char *asked = NULL;
    if (abx__user_of(e, c, u) < 0 || abx__path_member(c, q, key, what, &asked) < 0)
        return -1;
    *out = abx__path_resolve(e, asked, u);
    if (*out)
        return 0;
    abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT, ABX__NO_TILDE, u->name);
    return -1;
}

static void fail(abx_e2b_call *c, abx_e2b_code code, const char *what, const char *path, int err)
{
    char text[96];
    abx_e2b_fail(c, code, "%s %s: %s", what, path, abx__errno_text(err, text));
}

static void answer_entry(abx_envd *e, abx_e2b_call *c, const char *path)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx__entry_put(e, d, abx_mut_obj(d, root, "entry"), path, NULL) == 0)
        abx_e2b_answer(c, root);
    else if (errno == ENOENT)
        fail(c, ABX_E2B_CODE_NOT_FOUND, "file not found: lstat", path, errno);
    else
        fail(c, ABX_E2B_CODE_INTERNAL, "error getting file info: lstat", path, errno);
}

void abx__rpc_stat(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *path = NULL;
    if (take_path(e, c, q, "path", "error getting file info: lstat", &u, &path) < 0)
        return;
    abx__power(e, &u, true);
    answer_entry(e, c, path);
    abx__power(e, &u, false);
}

/* --- MakeDir ------------------------------------------------------------------------------------------- */
static void make_dir(abx_envd *e, abx_e2b_call *c, const abx__user *u, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            abx_e2b_fail(c, ABX_E2B_CODE_ALREADY_EXISTS, "directory already exists: %s", path);
        else
            abx_e2b_fail(c, ABX_E2B_CODE_INVALID_ARGUMENT,
                         "path already exists but it is not a directory: %s", path);
        return;
    }
    if (errno != ENOENT) {
        fail(c, ABX_E2B_CODE_INTERNAL, "error getting file info: stat", path, errno);
        return;
    }
    const char *what = NULL;
    char at[4096], text[96];
    if (abx__make_parents(e, path, true, u, &what, at) == 0) {
        answer_entry(e, c, path);
        return;
    }
    int err = errno;
    if (strcmp(what, "chown") == 0)
        fail(c, ABX_E2B_CODE_INTERNAL, "failed to chown directory: chown", at, err);
    else if (err == ENOSPC || err == EDQUOT)
        fail(c, ABX_E2B_CODE_RESOURCE_EXHAUSTED, "error creating directory: mkdir", at, err);
    else
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error creating directory: mkdir %s: %s", at,
                     abx__errno_text(err, text));
}

void abx__rpc_make_dir(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *path = NULL;
    if (take_path(e, c, q, "path", "error creating directory: mkdir", &u, &path) < 0)
        return;
    abx__power(e, &u, true);
    make_dir(e, c, &u, path);
    abx__power(e, &u, false);
}

/* --- Move ---------------------------------------------------------------------------------------------------- */
static int move_checked(const char *from, const char *to)
{
    struct stat a, b;
    /* rename(2) would replace an empty folder; E2B refuses every folder as destination but the same one */
    if (lstat(to, &b) == 0 && S_ISDIR(b.st_mode) && lstat(from, &a) == 0 &&
        !(a.st_dev == b.st_dev && a.st_ino == b.st_ino)) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static void move(abx_envd *e, abx_e2b_call *c, const abx__user *u, const char *from, const char *to)
{
    const char *what = NULL;
    char at[4096], text[96];
    if (abx__make_parents(e, to, false, u, &what, at) < 0) {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error ensuring directories: %s %s: %s", what, at,
                     abx__errno_text(errno, text));
        return;
    }
    if (move_checked(from, to) == 0) {
        answer_entry(e, c, to);
        return;
    }
    int err = errno;
    struct stat st;
    if (err == ENOENT && lstat(from, &st) < 0 && errno == ENOENT)
        abx_e2b_fail(c, ABX_E2B_CODE_NOT_FOUND, "source file not found: rename %s %s: %s", from, to,
                     abx__errno_text(err, text));
    else
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error renaming: rename %s %s: %s", from, to,
                     abx__errno_text(err, text));
}

void abx__rpc_move(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *from = NULL;
    ABX_AUTO_FREE char *to = NULL;
    if (take_path(e, c, q, "source", "error renaming: rename", &u, &from) < 0 ||
        take_path(e, c, q, "destination", "error renaming: rename", &u, &to) < 0)
        return;
    abx__power(e, &u, true);
    move(e, c, &u, from, to);
    abx__power(e, &u, false);
}

/* --- Remove --------------------------------------------------------------------------------------------------- */
static int remove_path(const char *path, abx_error **err)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISDIR(st.st_mode)) {
        errno = EPERM;
        return -1;
    }
    return abx_remove_tree_at(AT_FDCWD, path, err);
}

void abx__rpc_remove(abx_envd *e, abx_e2b_call *c, yyjson_val *q)
{
    abx__user u;
    ABX_AUTO_FREE char *path = NULL;
    if (take_path(e, c, q, "path", "error removing file or directory: RemoveAll", &u, &path) < 0)
        return;
    size_t n = strlen(path);
    char text[96];
    if (n >= 2 && path[n - 1] == '.' && path[n - 2] == '/') {
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL,
                     "error removing file or directory: RemoveAll %s: invalid argument", path);
        return;
    }
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    ABX_AUTO_ERROR err = NULL;
    abx__power(e, &u, true);
    int rc = remove_path(path, &err);
    int number = err ? err->sys_errno : errno;
    abx__power(e, &u, false);
    if (rc == 0)
        abx_e2b_answer(c, NULL);
    else
        abx_e2b_fail(c, ABX_E2B_CODE_INTERNAL, "error removing file or directory: unlinkat %s: %s",
                     path, abx__errno_text(number, text));
}
