/* tar inside a sandbox: which one it is, how it is called, what its failure means. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/copy.h"

#define MAX_WORDS        16
#define MAX_VERSION      8192  /* bytes that a tar may say of itself */
#define VERSION_LIMIT_MS 20000 /* and the time it has for that */

static int open_tar(abx_copy *c, abx_stream *s, const char *sandbox, const char *const *cmd,
                    bool input, const abx_buf *names, int64_t limit_ms, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(sandbox, &root);
    yyjson_mut_val *words = abx_mut_arr(d, root, "cmd");
    for (; *cmd; cmd++)
        yyjson_mut_arr_add_strcpy(d, words, *cmd);
    abx_mut_str(d, root, "user", c->user);
    if (limit_ms)
        abx_mut_int(d, root, "timeoutMs", limit_ms);
    if (input)
        abx_mut_str(d, root, "stdin", "stream");
    if (names)
        abx_mut_strn(d, abx_mut_obj(d, root, "input"), "text", abx_buf_cstr(names), names->len);
    ABX_AUTO_ERROR failed = NULL;
    if (abx_stream_open(s, c->cli, ABX_OP_PROCESS_START, sandbox, d, input, &failed) == 0)
        return 0;
    if (failed->id == ABX_ERR_START_FAILED && failed->sys_errno == ENOENT) {
        abx_fail(err, ABX_ERR_FEATURE_MISSING,
                 "sandbox '%s' has no program 'tar', which copying folders needs", sandbox);
        return abx_hint(err, "install tar in it, or copy single files");
    }
    return abx_error_take(err, ABX_TAKE(failed));
}

/* Its first line tells: "tar (GNU tar) 1.34", "bsdtar 3.6.2 - …". */
static abx_copy_tar kind_of(const char *line)
{
    return strstr(line, "GNU tar")  ? ABX_COPY_TAR_GNU
           : strstr(line, "bsdtar") ? ABX_COPY_TAR_BSD
                                    : ABX_COPY_TAR_PLAIN;
}

/* The beginning of what it says of itself. It is foreign: one that does not end is not waited for. */
static int ask_version(abx_copy *c, const char *sandbox, char *line, size_t size, abx_error **err)
{
    static const char *const cmd[] = {"tar", "--version", NULL};
    abx_stream s;
    const uint8_t *bytes;
    size_t n, total = 0;
    line[0] = 0;
    int rc = open_tar(c, &s, sandbox, cmd, false, NULL, VERSION_LIMIT_MS, err);
    if (rc < 0) {
        abx_stream_close(&s);
        return -1;
    }
    while ((rc = abx_stream_read(&s, &bytes, &n, err)) == 1 && total < MAX_VERSION) {
        if (total == 0)
            snprintf(line, size, "%.*s", (int)(n < size ? n : size), bytes);
        total += n;
    }
    if (rc == 0)
        rc = abx_stream_finish(&s, NULL, err);
    abx_stream_close(&s);
    return rc < 0 ? -1 : 0;
}

int abx_copy_tar_kind(abx_copy *c, const char *sandbox, abx_copy_tar *kind, abx_error **err)
{
    size_t free_row = 0;
    for (size_t i = 0; i < ABX_COUNT(c->tars); i++) {
        if (c->tars[i].sandbox[0] && strcmp(c->tars[i].sandbox, sandbox) == 0) {
            *kind = c->tars[i].kind;
            return 0;
        }
        if (!c->tars[i].sandbox[0])
            free_row = i;
    }
    char line[128];
    if (ask_version(c, sandbox, line, sizeof line, err) < 0)
        return -1;
    *kind = kind_of(line);
    if (strlen(sandbox) < sizeof c->tars[0].sandbox) {
        snprintf(c->tars[free_row].sandbox, sizeof c->tars[0].sandbox, "%s", sandbox);
        c->tars[free_row].kind = *kind;
    }
    return 0;
}

int abx_copy_tar_extract(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                         abx_error **err)
{
    memset(s, 0, sizeof *s);
    s->cli = c->cli;
    abx_copy_tar kind;
    if (abx_copy_tar_kind(c, sandbox, &kind, err) < 0)
        return -1;
    /* Words that it does not know (the coding of names) and times of tomorrow are no worry. */
    const char *const gnu[] = {
        "tar", "-x", "-p", "-o", "--warning=no-unknown-keyword", "--warning=no-timestamp", "-f",
        "-",   "-C", dir,  NULL};
    const char *const other[] = {"tar", "-x", "-p", "-o", "-f", "-", "-C", dir, NULL};
    return open_tar(c, s, sandbox, kind == ABX_COPY_TAR_GNU ? gnu : other, true, NULL, 0, err);
}

/* "tar -c" with what its kind takes, then `more` (NULL at the end). */
static int open_pack(abx_copy *c, abx_stream *s, const char *sandbox, const char *const *more,
                     const abx_buf *names, abx_error **err)
{
    static const char *const gnu[] = {"-S", "--format=posix",
                                      "--pax-option=delete=atime,delete=ctime", NULL};
    static const char *const bsd[] = {"--format=pax", NULL}, *const plain[] = {NULL};
    memset(s, 0, sizeof *s);
    s->cli = c->cli;
    abx_copy_tar kind;
    if (abx_copy_tar_kind(c, sandbox, &kind, err) < 0)
        return -1;
    const char *cmd[MAX_WORDS] = {"tar", "-c", "-f", "-"};
    size_t n = 4;
    const char *const *extra = kind == ABX_COPY_TAR_GNU   ? gnu
                               : kind == ABX_COPY_TAR_BSD ? bsd
                                                          : plain;
    for (; *extra; extra++)
        cmd[n++] = *extra;
    for (; *more; more++)
        cmd[n++] = *more;
    ABX_CHECK(n < MAX_WORDS);
    return open_tar(c, s, sandbox, cmd, false, names, 0, err);
}

int abx_copy_tar_pack(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                      const char *name, abx_error **err)
{
    const char *const more[] = {"-C", dir, "--", name, NULL};
    return open_pack(c, s, sandbox, more, NULL, err);
}

int abx_copy_tar_pack_file(abx_copy *c, abx_stream *s, const abx_copy_place *from, const char *as,
                           abx_error **err)
{
    memset(s, 0, sizeof *s);
    s->cli = c->cli;
    abx_copy_tar kind;
    if (abx_copy_tar_kind(c, from->sandbox, &kind, err) < 0)
        return -1;
    ABX_AUTO_FREE char *dir = abx_path_dir(from->path);
    ABX_AUTO_FREE char *name = abx_format("./%s", abx_path_base(from->path));
    ABX_AUTO_FREE char *rename = kind == ABX_COPY_TAR_GNU ? abx_format("--transform=s,.*,%s,", as)
                                                          : abx_format("-s,.*,%s,", as);
    const char *const more[] = {"-h", rename, "-C", dir, name, NULL};
    return open_pack(c, s, from->sandbox, more, NULL, err);
}

int abx_copy_tar_pack_names(abx_copy *c, abx_stream *s, const char *sandbox, const char *dir,
                            const abx_buf *names, abx_error **err)
{
    const char *const more[] = {"--no-recursion", "-C", dir, "--null", "-T", "-", NULL};
    return open_pack(c, s, sandbox, more, names, err);
}

int abx_copy_tar_finish(abx_stream *s, abx_error **err)
{
    yyjson_val *result = NULL;
    if (abx_stream_finish(s, &result, err) < 0)
        return -1;
    if (abx_json_int(result, "exitCode", -1) == 0)
        return 0;
    const char *notes = abx_stream_notes(s);
    const char *sig = abx_json_str(result, "signal", NULL);
    if (strstr(notes, "No space left on device") || strstr(notes, "Disk quota exceeded"))
        return abx_fail(err, ABX_ERR_NO_SPACE, "no space is left in the sandbox: %s", notes);
    if (sig)
        return abx_fail(err, ABX_ERR_FILE, "tar in the sandbox was ended by %s", sig);
    return abx_fail(err, ABX_ERR_FILE, "tar in the sandbox failed with code %lld: %s",
                    (long long)abx_json_int(result, "exitCode", -1), notes);
}

/* --- a file with holes ----------------------------------------------------------------------------------- */

void abx_copy_as(char out[ABX_COPY_AS_SIZE])
{
    memcpy(out, ".abx-", 5);
    abx_random_id(out + 5, 8);
}

static yyjson_mut_doc *params_of(abx_copy *c, const char *sandbox, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_cli_params(sandbox, root);
    abx_mut_str(d, *root, "user", c->user);
    return d;
}

int abx_copy_holes_begin(abx_copy *c, abx_stream *s, const abx_copy_place *to, const char *path,
                         abx_error **err)
{
    memset(s, 0, sizeof *s);
    s->cli = c->cli;
    abx_copy_tar kind;
    ABX_AUTO_ERROR missing = NULL;
    if (to->is_link || to->special) /* written through, which tar does not do */
        return 0;
    if (path[0] != '/') /* below the home of the user, wherever that is */
        return 0;
    if (abx_copy_tar_kind(c, to->sandbox, &kind, &missing) < 0)
        return missing->id == ABX_ERR_FEATURE_MISSING ? 0 : abx_error_take(err, ABX_TAKE(missing));
    if (kind == ABX_COPY_TAR_PLAIN)
        return 0;
    ABX_AUTO_FREE char *dir = abx_path_dir(path);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = params_of(c, to->sandbox, &root);
    abx_mut_str(d, root, "path", dir);
    ABX_AUTO_JSON made = NULL;
    if (abx_cli_call(c->cli, ABX_OP_FS_MAKE_DIR, d, &made, err) < 0)
        return -1;
    return abx_copy_tar_extract(c, s, to->sandbox, dir, err) < 0 ? -1 : 1;
}

int abx_copy_holes_finish(abx_copy *c, abx_stream *s, const abx_copy_place *to, const char *path,
                          const char *as, int rc, abx_error **err)
{
    if (rc == 0) {
        abx_stream_write_end(s);
        rc = abx_copy_tar_finish(s, err);
    }
    abx_stream_close(s);
    ABX_AUTO_FREE char *dir = abx_path_dir(path);
    ABX_AUTO_FREE char *aside = abx_path_join(dir, as);
    yyjson_mut_val *root = NULL;
    if (rc == 0) {
        yyjson_mut_doc *d = params_of(c, to->sandbox, &root);
        abx_mut_str(d, root, "from", aside);
        abx_mut_str(d, root, "to", path);
        rc = abx_cli_call(c->cli, ABX_OP_FS_RENAME, d, NULL, err);
    }
    if (rc < 0) {
        abx_error *ignored = NULL; /* what went wrong first is told */
        yyjson_mut_doc *d = params_of(c, to->sandbox, &root);
        abx_mut_str(d, root, "path", aside);
        abx_cli_begin_cleanup(c->cli);
        if (abx_cli_call(c->cli, ABX_OP_FS_REMOVE, d, NULL, &ignored) < 0)
            abx_error_free(ignored);
    }
    return rc;
}
