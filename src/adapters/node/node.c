#include "adapters/node/node.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapters/program.h"
#include "base/file.h"
#include "base/mem.h"
#include "host/store_tree.h"
#include "jshost/bundle.h"
#include "jshost/jshost.h"
#include "jshost/lock.h"
#include "local/starter.h"
#include "net/ca.h"

typedef struct node_state {
    char **words; /* that start this program, and the hidden word */
    char **envp;  /* how this machine reaches the network: nothing of the module sees it */
    int bundle_fd;
} node_state;

static void free_state(void *state)
{
    node_state *s = state;
    abx_words_free(s->words);
    abx_words_free(s->envp);
    abx_close_fd(&s->bundle_fd);
    free(s);
}

/* What the process is given: its module's files as they were read when their digest was checked. */
static int write_bundle(int fd, const abx_connection *c, abx_error **err)
{
    const abx_plugin *p = c->plugin;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_BUF out = ABX_BUF(ABX_JS_BUNDLE_MAX);
    ABX_AUTO_JSON features = abx_manifest_features(p->manifest);
    abx_mut_str(d, root, "id", c->provider);
    abx_mut_str(d, root, "entry", p->manifest->entry);
    abx_mut_val(d, root, "features", yyjson_doc_get_root(features));
    int rc = abx_js_bundle_begin(&out, root);
    rc |= abx_js_bundle_add(&out, p->manifest->entry, p->entry_text, p->entry_len);
    for (size_t i = 0; i < p->module_count; i++)
        rc |= abx_js_bundle_add(&out, p->modules[i].path, p->modules[i].text, p->modules[i].len);
    if (rc != 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the modules of provider '%s' are too large",
                        c->provider);
    if (abx_write_full(fd, out.data, out.len) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot hand over the module");
    return 0;
}

static char **make_words(const abx_connection *c, abx_error **err)
{
    char **words = abx_starter_words(c->self, err);
    if (!words)
        return NULL;
    size_t n = 0;
    while (words[n])
        n++;
    words = (char **)abx_realloc(words, (n + 2) * sizeof(*words));
    words[n] = abx_strdup(ABX_JS_HOST_WORD);
    words[n + 1] = NULL;
    return words;
}

static char *variable(const char *name, const char *path)
{
    ABX_AUTO_FREE char *whole =
        realpath(path, NULL); /* the process has another working directory */
    return abx_format("%s=%s", name, whole ? whole : path);
}

/* Proxies as this process has them, and where the certificate authorities are: the module's process does not look for them. */
static char **make_environment(void)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                          "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
    char **list = abx_alloc_array(ABX_COUNT(proxies) + 4, sizeof(char *));
    abx_ca_places places;
    size_t count = 0;
    for (size_t i = 0; i < ABX_COUNT(proxies); i++) {
        const char *value = getenv(proxies[i]);
        if (value && *value)
            list[count++] = abx_format("%s=%s", proxies[i], value);
    }
    abx_ca_places_find_bundle(&places);
    if (places.file && !abx_js_lock_opens_files()) {
        list[count++] = variable(ABX_JS_AUTHORITIES, places.file);
        list[count++] = abx_format("SSL_CERT_FILE=/dev/fd/%d", ABX_JS_AUTHORITIES_FD);
    } else if (places.file) {
        list[count++] = variable("SSL_CERT_FILE", places.file);
    }
    if (places.dir && places.by_environment)
        list[count++] = abx_format("SSL_CERT_DIR=%s", places.dir);
    else if (places.dir)
        list[count++] = variable("SSL_CERT_DIR", places.dir);
    abx_ca_places_clear(&places);
    return list;
}

static void *prepare(const abx_connection *connection, abx_error **err)
{
    node_state *s = ABX_NEW(node_state);
    s->bundle_fd = memfd_create("module", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    s->words = make_words(connection, err);
    s->envp = make_environment();
    if (s->words && s->bundle_fd < 0)
        abx_fail_errno(err, ABX_ERR_PROVIDER_START, errno, "cannot hand over the module");
    if (s->words && s->bundle_fd >= 0 && write_bundle(s->bundle_fd, connection, err) == 0)
        return s;
    free_state(s);
    return NULL;
}

static void fill(void *state, abx_epp_session_options *options)
{
    const node_state *s = state;
    options->path = s->words[0];
    options->argv = s->words;
    options->envp = s->envp;
    options->cwd = "/";
    options->extra_fd = s->bundle_fd;
    options->alone = true; /* its system calls are filtered */
}

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err);

const abx_adapter abx_adapter_node = {
    .kind = "node",
    .id_giver = ABX_GIVER_EITHER,
    .open = open_provider,
    .prepare = abx_program_prepare,
    .start = abx_program_start,
    .close = abx_program_close,
};

static int open_provider(const abx_connection *connection, abx_provider **out, abx_error **err)
{
    static const abx_program_kind kind = {
        .adapter = &abx_adapter_node, .prepare = prepare, .fill = fill, .free = free_state};
    return abx_program_open(&kind, connection, out, err);
}
