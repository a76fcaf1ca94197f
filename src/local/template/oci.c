#include "local/template/oci.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "base/text.h"

#define LIST_MAX 4096 /* words of a command, variables */

static int bad(abx_error **err, const char *what)
{
    return abx_fail(err, ABX_ERR_FILE, "the image is broken: %s", what);
}

void abx_oci_image_clear(abx_oci_image *image)
{
    free(image->config_blob);
    for (size_t i = 0; i < image->layer_count; i++)
        free(image->layers[i].blob);
    free(image->layers);
    yyjson_doc_free(image->config);
    memset(image, 0, sizeof(*image));
}

const char *abx_oci_architecture(void)
{
    static const char *const names[][2] = {
        {"x86_64", "amd64"},    {"aarch64", "arm64"},       {"armv7l", "arm"},
        {"i686", "386"},        {"riscv64", "riscv64"},     {"s390x", "s390x"},
        {"ppc64le", "ppc64le"}, {"loongarch64", "loong64"},
    };
    struct utsname u;
    if (uname(&u) == 0)
        for (size_t i = 0; i < ABX_COUNT(names); i++)
            if (abx_str_eq(u.machine, names[i][0]))
                return names[i][1];
    return "unknown";
}

int abx_oci_digest(const char *text, abx_sha256 out, abx_error **err)
{
    static const char prefix[] = "sha256:";
    ABX_AUTO_FREE char *shown = abx_printable(text ? text : "");
    if (!text || !abx_has_prefix(text, prefix))
        return abx_fail(err, ABX_ERR_FILE, "the image is broken: '%.80s' is no sha256 digest",
                        shown);
    text += sizeof(prefix) - 1;
    if (strlen(text) != ABX_SHA256_HEX || strspn(text, "0123456789abcdef") != ABX_SHA256_HEX)
        return abx_fail(err, ABX_ERR_FILE, "the image is broken: '%.80s' is no sha256 digest",
                        shown);
    memcpy(out, text, ABX_SHA256_HEX + 1);
    return 0;
}

char *abx_oci_blob(const abx_sha256 digest)
{
    return abx_format("blobs/sha256/%s", digest);
}

/* --- index ------------------------------------------------------------------------------------------- */

static bool is_index_type(const char *type)
{
    return abx_str_eq(type, "application/vnd.oci.image.index.v1+json") ||
           abx_str_eq(type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

/* 2: ours, 1: says nothing, 0: another, or no image at all. */
static int fits(yyjson_val *m)
{
    yyjson_val *platform = abx_json_get(m, "platform");
    if (abx_json_get(abx_json_get(m, "annotations"), "vnd.docker.reference.type"))
        return 0; /* an attestation */
    if (!platform)
        return 1;
    return abx_str_eq(abx_json_str(platform, "os", ""), "linux") &&
                   abx_str_eq(abx_json_str(platform, "architecture", ""), abx_oci_architecture())
               ? 2
               : 0;
}

int abx_oci_pick(yyjson_val *index, abx_sha256 out, bool *is_index, abx_error **err)
{
    yyjson_val *list = abx_json_get(index, "manifests"), *m, *best = NULL;
    size_t i, n, silent = 0;
    int best_fit = 0;
    if (!yyjson_is_arr(list))
        return bad(err, "its index has no manifests");
    yyjson_arr_foreach(list, i, n, m)
    {
        int fit = fits(m);
        silent += fit == 1;
        if (fit > best_fit) {
            best = m;
            best_fit = fit;
        }
    }
    if (!best) {
        abx_fail(err, ABX_ERR_FILE, "the image is not made for linux/%s", abx_oci_architecture());
        return abx_hint(err, "save it with --platform linux/%s", abx_oci_architecture());
    }
    if (best_fit == 1 && silent > 1) {
        abx_fail(err, ABX_ERR_FILE, "the source holds %zu images", silent);
        return abx_hint(err, "save one image alone");
    }
    *is_index = is_index_type(abx_json_str(best, "mediaType", ""));
    return abx_oci_digest(abx_json_str(best, "digest", NULL), out, err);
}

/* --- manifests --------------------------------------------------------------------------------------- */

static int make_layers(abx_oci_image *out, size_t n, abx_error **err)
{
    if (n > ABX_OCI_LAYERS_MAX)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the image has %zu layers, at most %d are taken", n,
                        ABX_OCI_LAYERS_MAX);
    out->layers = (abx_oci_layer *)abx_alloc_array(n + 1, sizeof(*out->layers));
    out->layer_count = n;
    return 0;
}

int abx_oci_read_manifest(yyjson_val *manifest, abx_oci_image *out, abx_error **err)
{
    yyjson_val *layers = abx_json_get(manifest, "layers"), *layer;
    size_t i, n;
    if (abx_json_int(manifest, "schemaVersion", 0) != 2 || !yyjson_is_arr(layers))
        return bad(err, "its manifest is none of version 2");
    if (abx_oci_digest(abx_json_str(abx_json_get(manifest, "config"), "digest", NULL),
                       out->config_digest, err) < 0 ||
        make_layers(out, yyjson_arr_size(layers), err) < 0)
        return -1;
    out->config_blob = abx_oci_blob(out->config_digest);
    yyjson_arr_foreach(layers, i, n, layer)
    {
        if (strstr(abx_json_str(layer, "mediaType", ""), "+encrypted"))
            return abx_fail(err, ABX_ERR_FILE, "the image is encrypted");
        if (abx_oci_digest(abx_json_str(layer, "digest", NULL), out->layers[i].digest, err) < 0)
            return -1;
        out->layers[i].blob = abx_oci_blob(out->layers[i].digest);
    }
    return 0;
}

static bool is_plain_name(const char *s)
{
    return s && *s && *s != '/' && strlen(s) < 1024 && !strstr(s, "..") && !strchr(s, '\n');
}

/* A name that says its digest: "blobs/sha256/HEX", "HEX.json". */
static void digest_of_name(const char *name, abx_sha256 out)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    size_t n = strspn(base, "0123456789abcdef");
    bool ends =
        base[n] == 0 ? abx_has_prefix(name, "blobs/sha256/") : abx_str_eq(base + n, ".json");
    if (n == ABX_SHA256_HEX && ends)
        memcpy(out, base, ABX_SHA256_HEX);
}

int abx_oci_read_docker(yyjson_val *manifest, abx_oci_image *out, abx_error **err)
{
    size_t i, n, count = yyjson_arr_size(manifest);
    if (count != 1) {
        abx_fail(err, ABX_ERR_FILE, "the archive holds %zu images", count);
        return abx_hint(err, "save one image alone");
    }
    yyjson_val *one = yyjson_arr_get_first(manifest), *layers = abx_json_get(one, "Layers"), *layer;
    const char *config = abx_json_str(one, "Config", NULL);
    if (!is_plain_name(config) || !yyjson_is_arr(layers))
        return bad(err, "'manifest.json' names no configuration or no layers");
    if (make_layers(out, yyjson_arr_size(layers), err) < 0)
        return -1;
    out->config_blob = abx_strdup(config);
    digest_of_name(config, out->config_digest);
    yyjson_arr_foreach(layers, i, n, layer)
    {
        if (!is_plain_name(yyjson_get_str(layer)))
            return bad(err, "'manifest.json' names a layer that is no name");
        out->layers[i].blob = abx_strdup(yyjson_get_str(layer));
        digest_of_name(out->layers[i].blob, out->layers[i].digest);
    }
    return 0;
}

/* --- configuration ----------------------------------------------------------------------------------- */

static bool has_nul(yyjson_val *text)
{
    return strlen(yyjson_get_str(text)) != yyjson_get_len(text);
}

/* The strings of `list` behind those of `to`. */
static int add_words(yyjson_mut_doc *d, yyjson_mut_val *to, yyjson_val *list, abx_error **err)
{
    size_t i, n;
    yyjson_val *word;
    if (!list)
        return 0;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > LIST_MAX)
        return bad(err, "its command is no list of words");
    yyjson_arr_foreach(list, i, n, word)
    {
        if (!yyjson_is_str(word) || has_nul(word))
            return bad(err, "its command is no list of words");
        yyjson_mut_arr_add_strncpy(d, to, yyjson_get_str(word), yyjson_get_len(word));
    }
    return 0;
}

static int add_env(yyjson_mut_doc *d, yyjson_mut_val *to, yyjson_val *list, abx_error **err)
{
    size_t i, n;
    yyjson_val *pair;
    if (!list)
        return 0;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > LIST_MAX)
        return bad(err, "its environment is no list");
    yyjson_arr_foreach(list, i, n, pair)
    {
        const char *text = yyjson_get_str(pair), *eq = text ? strchr(text, '=') : NULL;
        if (!text || has_nul(pair) || eq == text)
            return bad(err, "a variable of its environment has no name");
        if (!eq)
            continue; /* a variable without a value is unset */
        yyjson_mut_obj_put(to, yyjson_mut_strncpy(d, text, (size_t)(eq - text)),
                           yyjson_mut_strcpy(d, eq + 1));
    }
    return 0;
}

static int add_text(yyjson_mut_doc *d, yyjson_mut_val *to, const char *key, yyjson_val *text,
                    size_t max, abx_error **err)
{
    if (!text || yyjson_get_len(text) == 0)
        return 0;
    if (!yyjson_is_str(text) || has_nul(text) || yyjson_get_len(text) > max ||
        strpbrk(yyjson_get_str(text), "\n\r"))
        return abx_fail(err, ABX_ERR_FILE, "the image is broken: its %s is no name", key);
    abx_mut_str(d, to, key, yyjson_get_str(text));
    return 0;
}

static int read_diff_ids(yyjson_val *config, abx_oci_image *image, abx_error **err)
{
    yyjson_val *ids = abx_json_get(abx_json_get(config, "rootfs"), "diff_ids"), *id;
    size_t i, n;
    if (yyjson_arr_size(ids) != image->layer_count)
        return bad(err, "its configuration does not name each layer");
    yyjson_arr_foreach(ids, i, n, id)
    {
        if (abx_oci_digest(yyjson_get_str(id), image->layers[i].diff_id, err) < 0)
            return -1;
    }
    return 0;
}

static int check_platform(yyjson_val *config, abx_error **err)
{
    const char *os = abx_json_str(config, "os", "linux"), *machine = abx_oci_architecture();
    const char *arch = abx_json_str(config, "architecture", machine);
    if (abx_str_eq(os, "linux") && abx_str_eq(arch, machine))
        return 0;
    ABX_AUTO_FREE char *shown = abx_printable(arch);
    ABX_AUTO_FREE char *shown_os = abx_printable(os);
    abx_fail(err, ABX_ERR_FILE, "the image is made for %.40s/%.40s, this machine is linux/%s",
             shown_os, shown, machine);
    return abx_hint(err, "save it with --platform linux/%s", machine);
}

int abx_oci_read_config(yyjson_val *config, abx_oci_image *image, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (!yyjson_is_obj(config))
        return bad(err, "its configuration is no object");
    if (check_platform(config, err) < 0 || read_diff_ids(config, image, err) < 0)
        return -1;
    yyjson_val *c = abx_json_get(config, "config");
    yyjson_mut_val *command = yyjson_mut_arr(d);
    if (add_env(d, abx_mut_obj(d, root, "env"), abx_json_get(c, "Env"), err) < 0 ||
        add_text(d, root, "user", abx_json_get(c, "User"), 128, err) < 0 ||
        add_text(d, root, "workdir", abx_json_get(c, "WorkingDir"), 4095, err) < 0 ||
        add_words(d, command, abx_json_get(c, "Entrypoint"), err) < 0 ||
        add_words(d, command, abx_json_get(c, "Cmd"), err) < 0)
        return -1;
    if (yyjson_mut_arr_size(command) > 0)
        abx_mut_put(d, root, "command", command);
    ABX_AUTO_FREE char *platform = abx_format("linux/%s", abx_oci_architecture());
    abx_mut_str(d, root, "platform", platform);
    yyjson_doc_free(image->config);
    image->config = abx_json_freeze(d);
    return 0;
}
