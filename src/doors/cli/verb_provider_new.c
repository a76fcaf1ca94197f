/* provider new: a plugin folder to begin with, from the templates in the folder scaffold/LANG that are built into the program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/print.h"
#include "doors/cli/verbs.h"
#include "host/manifest.h"
#include "scaffold.h"

#define PLACEHOLDER "@NAME@"
#define FILES_MAX   32

typedef struct template_file {
    const char *name; /* borrowed, not terminated: name_len */
    size_t name_len;
    const char *text; /* borrowed */
    size_t len;
} template_file;

typedef struct plan {
    const char *id, *lang;
    char *folder; /* owned */
    char *text;   /* owned: all templates */
    template_file files[FILES_MAX];
    size_t count;
} plan;

/* The files of one language. 0, or -1 and INTERNAL. */
static int read_templates(plan *p, abx_error **err)
{
    size_t size = 0, lang_len = strlen(p->lang);
    p->text = abx_scaffold_text(&size);
    const char *at = p->text, *end = at ? at + size : NULL;
    while (at < end) {
        char *rest = NULL;
        const char *line = at, *blank = memchr(at, ' ', (size_t)(end - at));
        if (!blank)
            break;
        size_t len = strtoul(blank + 1, &rest, 10);
        if (*rest != '\n' || len > (size_t)(end - rest - 1))
            break;
        at = rest + 1 + len;
        if (strncmp(line, p->lang, lang_len) != 0 || line[lang_len] != '/' || p->count == FILES_MAX)
            continue;
        line += lang_len + 1;
        p->files[p->count++] = (template_file){line, (size_t)(blank - line), rest + 1, len};
    }
    if (p->count > 0 && at == end)
        return 0;
    return abx_fail(err, ABX_ERR_INTERNAL, "no template for '%s' was built in", p->lang);
}

static int check_name(const char *id, abx_error **err)
{
    if (!abx_is_name(id)) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' is no provider id", id);
        return abx_hint(err,
                        "use up to 63 of a-z, 0-9 and '-', beginning with a letter or a digit");
    }
    if (!abx_is_reserved_id(id))
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "the provider id '%s' is taken: it is built in", id);
    return abx_hint(err, "choose another name");
}

/* --- writing ----------------------------------------------------------------------------------------------- */

static char *path_of(const plan *p, const template_file *file)
{
    return abx_format("%s/%.*s", p->folder, (int)file->name_len, file->name);
}

static int write_file(const plan *p, const template_file *file, abx_error **err)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    const char *at = file->text, *end = at + file->len;
    while (at < end) {
        const char *mark = memmem(at, (size_t)(end - at), PLACEHOLDER, strlen(PLACEHOLDER));
        ABX_CHECK(abx_buf_add(&text, at, (size_t)((mark ? mark : end) - at)) == 0);
        if (!mark)
            break;
        ABX_CHECK(abx_buf_add_str(&text, p->id) == 0);
        at = mark + strlen(PLACEHOLDER);
    }
    bool program = file->len > 2 && memcmp(file->text, "#!", 2) == 0;
    ABX_AUTO_FREE char *path = path_of(p, file);
    return abx_write_atomic(path, text.data, text.len, program ? 0755 : 0644, false, err);
}

/* The folder is new: nothing of anybody is overwritten, and it goes again when it cannot be filled. */
static int write_folder(const plan *p, abx_error **err)
{
    if (mkdir(p->folder, 0777) < 0) {
        int why = errno;
        abx_fail(err, why == EEXIST ? ABX_ERR_CONFLICT : ABX_ERR_FILE, "'%s' cannot be made: %s",
                 p->folder, strerror(why));
        return why == EEXIST ? abx_hint(err, "choose another folder with --dir, or remove it") : -1;
    }
    for (size_t i = 0; i < p->count; i++) {
        if (write_file(p, &p->files[i], err) == 0)
            continue;
        while (i-- > 0) {
            ABX_AUTO_FREE char *path = path_of(p, &p->files[i]);
            unlink(path);
        }
        rmdir(p->folder);
        return -1;
    }
    return 0;
}

/* --- telling ----------------------------------------------------------------------------------------------- */

static const char *build_command(const plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->files[i].name_len == 8 && strncmp(p->files[i].name, "Makefile", 8) == 0)
            return "make -C";
    return NULL;
}

static yyjson_mut_doc *as_json(const plan *p, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "id", p->id);
    abx_mut_str(d, *root, "language", p->lang);
    abx_mut_str(d, *root, "folder", p->folder);
    yyjson_mut_val *files = abx_mut_arr(d, *root, "files");
    for (size_t i = 0; i < p->count; i++)
        yyjson_mut_arr_add_strncpy(d, files, p->files[i].name, p->files[i].name_len);
    return d;
}

static int tell(abx_cli *cli, const plan *p, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = as_json(p, &root);
    if (abx_cli_json(cli))
        return abx_print_json_mut(cli, yyjson_mut_doc_get_root(d), err);
    if (abx_print_line(cli, p->folder, err) < 0)
        return -1;
    const char *build = build_command(p);
    const char *dot = strchr(p->folder, '/') ? "" : "./";
    abx_cli_note(cli, "next: %s%s%s%s%sabx provider test %s%s; its README.md says more",
                 build ? build : "", build ? " " : "", build ? p->folder : "", build ? " && " : "",
                 "", dot, p->folder);
    return 0;
}

int abx_verb_provider_new(abx_cli *cli, abx_error **err)
{
    plan p = {.id = cli->args->words[0],
              .lang = abx_flag_value(cli->args, ABX_FLAG_NEW_LANG, "python")};
    if (check_name(p.id, err) < 0)
        return -1;
    p.folder = abx_strdup(abx_flag_value(cli->args, ABX_FLAG_NEW_DIR, p.id));
    int rc = read_templates(&p, err);
    if (rc == 0 && cli->dry_run) {
        yyjson_mut_val *root = NULL;
        rc = abx_dry_run_add(cli, "provider.new", NULL, as_json(&p, &root), err);
    } else if (rc == 0) {
        rc = write_folder(&p, err);
        if (rc == 0)
            rc = tell(cli, &p, err);
    }
    free(p.folder);
    free(p.text);
    return rc;
}
