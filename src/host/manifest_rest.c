/* [rest] of a manifest: how a service of E2B's shape differs from E2B itself. It is checked here and kept as an object, for the
 * adapter, which puts the user's options in the place of their {names}. */
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

/* The text with "x" for each {word}: what an option may bring is checked when it does. Owned. */
static char *without_words(const char *text)
{
    char *plain = abx_alloc(strlen(text) + 1), *to = plain;
    while (*text) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        *to++ = end ? 'x' : *text;
        text = end ? end + 1 : text + 1;
    }
    return plain;
}

/* An option may be the whole of it. */
static bool is_one_word(const char *text)
{
    return text[0] == '{' && strchr(text, '}') == text + strlen(text) - 1;
}

typedef bool (*check_text)(const char *text);

/* A text that may hold {words}; what stands around them is checked. */
static void take_checked(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to,
                         check_text check, const char *expected)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, TEXT_MAX);
    if (!text)
        return;
    ABX_AUTO_FREE char *plain = without_words(text);
    if (!is_one_word(text) && !check(plain))
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else
        put(to, key, text);
}

/* An address, or a word that is one, and a path behind it. */
static bool is_data_url(const char *plain)
{
    return (plain[0] == 'x' && !strpbrk(plain, " \"<>\\^`{|}")) || abx__mf_is_url(plain);
}

static void take_url(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_checked(r, node, key, to, node->text[0] == '{' ? is_data_url : abx__mf_is_url,
                 "an address that begins with https:// or http://");
}

static bool is_host(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:");
    return n > 0 && s[n] == 0;
}

static void take_domain(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_checked(r, node, key, to, is_host, "a domain such as example.com");
}

static void take_pattern(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char expected[] = "a host with {id}, and {port} and {domain} where they belong";
    if (node->text && !strstr(node->text, "{id}"))
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else
        take_checked(r, node, key, to, is_host, expected);
}

static void take_data_url(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char expected[] =
        "an address with {port}, {id}, {domain} or {api} where they belong";
    bool starts = abx_has_prefix(node->text, "http") || node->text[0] == '{';
    if (!starts)
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else
        take_checked(r, node, key, to, is_data_url, expected);
}

static void take_text(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, TEXT_MAX);
    if (text)
        put(to, key, text);
}

static bool is_token(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return n > 0 && s[n] == 0;
}

static void take_token(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to,
                       const char *expected)
{
    ABX_AUTO_FREE char *text = abx__mf_text(r, node, key, 100);
    if (text && !is_token(text))
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else if (text)
        put(to, key, text);
}

static void take_header(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_token(r, node, key, to, "the name of a header such as X-API-Key");
}

static void take_word(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_token(r, node, key, to, "a word such as Bearer");
}

static void take_name(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_token(r, node, key, to, "the name of an option of type string");
}

static void take_flag(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    (void)r;
    abx_mut_bool(o->doc, o->root, strrchr(key, '.') + 1, node->whole != 0);
}

static void take_number(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to,
                        int64_t max, const char *expected)
{
    reading *o = to;
    if (node->whole < 1 || node->whole > max)
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
    else
        abx_mut_int(o->doc, o->root, strrchr(key, '.') + 1, node->whole);
}

static void take_retry(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_number(r, node, key, to, 60000, "milliseconds: 1 to 60000");
}

static void take_timeout(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    take_number(r, node, key, to, 2592000, "seconds: 1 to 2592000 (30 days)");
}

/* One of these words. */
static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static void take_choice(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to,
                        const char *const *words, const char *expected)
{
    if (is_one_of(node->text, words))
        put(to, key, node->text);
    else
        abx__mf_wrong(r, node, key, NULL, expected, NULL);
}

static void take_create(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char *const words[] = {"v2", "v1", NULL};
    take_choice(r, node, key, to, words, "one of v2, v1");
}

static void take_codec(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char *const words[] = {"binary", "json", NULL};
    take_choice(r, node, key, to, words, "one of binary, json");
}

static void take_upload(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    static const char *const words[] = {"auto", "octets", "form", NULL};
    take_choice(r, node, key, to, words, "one of auto, octets, form");
}

static bool is_connect_route(const char *text)
{
    static const char *const words[] = {"v2", "v1", "resume", NULL};
    return is_one_of(text, words);
}

static void take_connect(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    size_t count = 0;
    char **words =
        abx__mf_texts(r, node, key, 3, 10, "one of v2, v1, resume", is_connect_route, &count);
    if (!words)
        return;
    yyjson_mut_val *list = abx_mut_arr(o->doc, o->root, strrchr(key, '.') + 1);
    for (size_t i = 0; i < count; i++)
        yyjson_mut_arr_add_strcpy(o->doc, list, words[i]);
    abx__mf_free_texts(words);
}

static void take_metadata(abx_mf_reader *r, const abx_toml_node *node, const char *key, void *to)
{
    reading *o = to;
    yyjson_mut_val *labels = abx_mut_obj(o->doc, o->root, "metadata");
    for (size_t i = 0; i < node->count; i++) {
        const abx_toml_node *item = &node->children[i];
        ABX_AUTO_FREE char *shown = abx_printable(item->key);
        ABX_AUTO_FREE char *name = abx_format("%s.\"%s\"", key, shown);
        if (item->type != ABX_TOML_STRING) {
            abx__mf_wrong(r, item, name, NULL, "text", NULL);
            continue;
        }
        ABX_AUTO_FREE char *text = abx__mf_text(r, item, name, 4096);
        if (text)
            abx_mut_str(o->doc, labels, item->key, text);
    }
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

/* --- names of options ------------------------------------------------------------------------------------ */
static void check_word(abx_mf_reader *r, const abx_toml_node *node, const char *key,
                       const char *word)
{
    static const char *const own[] = {"port", "id", "domain", "api", NULL};
    const abx_option *option = abx_manifest_option(r->manifest, word);
    ABX_AUTO_FREE char *text = NULL;
    if (abx_has_prefix(key, "rest.dataPlane") && is_one_of(word, own))
        return;
    if (!option)
        text = abx_format("'%s' holds {%s}, which is the name of no option", key, word);
    else if (option->secret)
        text = abx_format("'%s' holds {%s}, a secret: it would be seen in addresses", key, word);
    if (text)
        abx__mf_problem(r, node, key, false, text, NULL);
}

static void check_words(abx_mf_reader *r, const abx_toml_node *node, const char *key)
{
    for (const char *at = node->text; at && (at = strchr(at, '{'));) {
        size_t n = strcspn(++at, "}");
        ABX_AUTO_FREE char *word = abx_strndup(at, n);
        ABX_AUTO_FREE char *shown = abx_printable(word);
        check_word(r, node, key, shown);
        at += n;
    }
}

void abx__mf_rest_options(abx_mf_reader *r, const abx_toml_node *node)
{
    static const char *const keys[] = {"apiUrl",      "domain",        "defaultTemplate",
                                       "defaultUser", "dataPlaneHost", "dataPlaneUrl",
                                       "connectTo"};
    for (size_t i = 0; i < ABX_COUNT(keys); i++) {
        const abx_toml_node *child = abx_toml_get(node, keys[i]);
        ABX_AUTO_FREE char *key = abx_format("rest.%s", keys[i]);
        if (child && child->type == ABX_TOML_STRING)
            check_words(r, child, key);
    }
    const abx_toml_node *child = abx_toml_get(node, "keyOption");
    if (!child || child->type != ABX_TOML_STRING)
        return;
    const abx_option *option = abx_manifest_option(r->manifest, child->text);
    if (!option || option->type != ABX_OPTION_STRING)
        abx__mf_wrong(r, child, "rest.keyOption", NULL, "the name of an option of type string",
                      NULL);
}
