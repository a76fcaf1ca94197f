/* [rest] of a manifest: how a control plane of E2B's shape differs from E2B's own. It is checked here and kept as an
 * object, for the adapter. */
#include <string.h>

#include "base/text.h"
#include "host/manifest_inner.h"

#define TEXT_MAX 500

typedef struct reading {
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
} reading;

static void put(reading *o, const char *key, const char *text)
{
    const char *last = strrchr(key, '.');
    abx_mut_str(o->doc, o->root, last ? last + 1 : key, text);
}

static void take_url(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, TEXT_MAX);
    if (text && !abx__mf_is_url(text))
        abx__mf_wrong(r, node, key, NULL, "an address that begins with https:// or http://", NULL);
    else if (text)
        put(to, key, text);
}

static bool is_host(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:");
    return n > 0 && s[n] == 0;
}

static void take_domain(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, 255);
    if (text && !is_host(text))
        abx__mf_wrong(r, node, key, NULL, "a domain such as example.com", NULL);
    else if (text)
        put(to, key, text);
}

static void take_header(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, 100);
    if (!text)
        return;
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    if (text[n])
        abx__mf_wrong(r, node, key, NULL, "the name of a header such as X-API-Key", NULL);
    else
        put(to, key, text);
}

static void take_template(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, TEXT_MAX);
    if (text)
        put(to, key, text);
}

/* "{port}-{id}.{domain}": host names and those three words in braces, {id} among them. */
static bool is_pattern(const char *text)
{
    static const char *const words[] = {"{port}", "{id}", "{domain}"};
    ABX_AUTO_BUF plain = ABX_BUF(1024);
    bool has_id = strstr(text, "{id}") != NULL;
    while (*text) {
        size_t skip = 0;
        for (size_t i = 0; i < ABX_COUNT(words); i++)
            if (abx_has_prefix(text, words[i]))
                skip = strlen(words[i]);
        if (abx_buf_add_byte(&plain, skip ? 'x' : (uint8_t)*text) < 0)
            return false;
        text += skip ? skip : 1;
    }
    return has_id && is_host(abx_buf_cstr(&plain));
}

static void take_pattern(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, TEXT_MAX);
    if (text && !is_pattern(text))
        abx__mf_wrong(r, node, key, NULL,
                      "a host with {id}, and {port} and {domain} where they belong", NULL);
    else if (text)
        put(to, key, text);
}

/* "/v2/sandboxes/{id}/connect", with a method and a blank in front where that differs too. */
static bool is_route(const char *text)
{
    static const char *const methods[] = {"GET ", "POST ", "PUT ", "PATCH ", "DELETE "};
    for (size_t i = 0; i < ABX_COUNT(methods); i++)
        if (abx_has_prefix(text, methods[i])) {
            text += strlen(methods[i]);
            break;
        }
    return text[0] == '/' && !strpbrk(text, " \t\"<>\\^`|#");
}

static void take_routes(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    yyjson_mut_val *routes = abx_mut_obj(o->doc, o->root, "routes");
    for (size_t i = 0; i < node->count; i++) {
        const abx_toml_node *item = &node->children[i];
        ABX_AUTO_FREE char *shown = abx_printable(item->key);
        ABX_AUTO_FREE char *name = abx_format("%s.\"%s\"", key, shown);
        if (!abx_op_find(item->key)) {
            ABX_AUTO_FREE char *found = abx_format("'%s'", shown);
            abx__mf_wrong(r, item, name, found,
                          "named by an operation, in quotes, such as \"sandbox.create\"", NULL);
            continue;
        }
        if (item->type != ABX_TOML_STRING || strlen(item->text) != item->len ||
            !is_route(item->text))
            abx__mf_wrong(r, item, name, NULL,
                          "a path such as \"/v2/sandboxes/{id}\", or \"POST /path\"", NULL);
        else
            abx_mut_str(o->doc, routes, item->key, item->text);
    }
}

static const abx_mf_key rest_keys[] = {
#define ABX_MF_REST ABX_MF_ROW
#include "host/manifest.def"
};

void abx__mf_rest(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    (void)to;
    reading o;
    ABX_AUTO_MUT d = abx_mut_new(&o.root);
    o.doc = d;
    abx__mf_table(r, node, key, rest_keys, ABX_COUNT(rest_keys), &o);
    r->manifest->rest = abx_json_freeze(d);
}
