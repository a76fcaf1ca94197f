/* Which project files the user trusts: HOME/trust/SHA256(path) holds SHA256(path, content). A file that changed has
 * another digest and must be trusted again. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "host/config_inner.h"
#include "host/digest.h"

/* HOME/trust/NAME; owned. */
static char *record_path(const char *home, const char *path)
{
    char name[ABX_DIGEST_SIZE];
    abx_digest(path, strlen(path), NULL, 0, name);
    return abx_format("%s/trust/%s", home, name);
}

int abx__trust_check(const char *home, const char *path, const char *text, size_t n,
                     abx_error **err)
{
    char now[ABX_DIGEST_SIZE];
    ABX_AUTO_FREE char *record = record_path(home, path);
    ABX_AUTO_BUF known = ABX_BUF(0);
    int rc = abx_read_file(record, 4096, &known, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    abx_digest(path, strlen(path) + 1, text, n, now);
    return known.len >= 64 && abx_equal_secret(known.data, 64, now, 64) ? 1 : 0;
}

int abx__trust_remember(const char *home, const char *path, const char *text, size_t n,
                        abx_error **err)
{
    char now[ABX_DIGEST_SIZE];
    ABX_AUTO_FREE char *record = record_path(home, path);
    ABX_AUTO_FREE char *folder = abx_path_join(home, "trust");
    if (abx_make_dirs(folder, 0700, err) < 0)
        return -1;
    abx_digest(path, strlen(path) + 1, text, n, now);
    now[64] = '\n';
    return abx_write_atomic(record, now, sizeof now, 0600, true, err);
}

int abx_config_trust(abx_config *c, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(0);
    if (!c->project_path) {
        abx_fail(err, ABX_ERR_CONFIG,
                 "there is no abx.toml to trust: looked in the working directory "
                 "and the folders above it, up to the repository's root or home");
        return abx_hint(err, "go to the project's folder first");
    }
    abx_config_file file = {c->project_path, ABX_SOURCE_PROJECT, true, false};
    if (abx__config_read(&file, &text, NULL, err) < 0)
        return -1;
    /* A file that cannot be used is not worth trust: check it as a trusted one, in a configuration of its own. */
    abx_config probe = {.home = c->home, .project_path = c->project_path, .project_trusted = true};
    int rc = abx__config_parse(&probe, &file, abx_buf_cstr(&text), text.len, err);
    abx__config_forget_files(&probe);
    if (rc < 0 ||
        abx__trust_remember(c->home, c->project_path, abx_buf_cstr(&text), text.len, err) < 0)
        return -1;
    c->project_trusted = true;
    return 0;
}
