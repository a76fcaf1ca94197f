/* The words of a manifest, its versions, and questions about one that was read. */
#include <string.h>

#include "base/text.h"
#include "host/manifest.h"

const char *abx_kind_name(abx_provider_kind kind)
{
    static const char *const names[] = {"rest", "exec", "node"};
    return names[kind];
}

const char *abx_kind_protocol(abx_provider_kind kind)
{
    static const char *const protocols[] = {"e2b-rest/1", "epp/1", "node/1"};
    return protocols[kind];
}

const char *abx_option_type_name(abx_option_type type)
{
    static const char *const names[] = {"string", "int", "bool", "url", "enum"};
    return names[type];
}

const char *abx_core_key_name(abx_core_key key)
{
    static const char *const names[] = {"apiKey", "apiUrl", "domain", "accessKeyId",
                                        "accessKeySecret"};
    return names[key];
}

const char *abx_core_key_setting(abx_core_key key)
{
    static const char *const names[] = {"api_key", "api_url", "domain", "access_key_id",
                                        "access_key_secret"};
    return names[key];
}

bool abx_core_key_is_secret(abx_core_key key)
{
    return key != ABX_CORE_API_URL && key != ABX_CORE_DOMAIN;
}

int abx_core_key_find(const char *name, abx_core_key *key)
{
    for (int i = 0; i < ABX_CORE_COUNT; i++)
        if (abx_str_eq(abx_core_key_name((abx_core_key)i), name)) {
            *key = (abx_core_key)i;
            return 1;
        }
    return 0;
}

bool abx_is_reserved_id(const char *id)
{
    return abx_str_eq(id, "local") || abx_str_eq(id, "alicloud-express");
}

/* --- versions ------------------------------------------------------------------------------------------ */

static bool is_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return n > 0;
}

/* A number without a zero in front. */
static bool is_number(const char *s, size_t n)
{
    return is_digits(s, n) && (n == 1 || s[0] != '0') && n <= 18;
}

/* Words of letters, digits and '-' between dots; numbers without a zero in front where `strict`. */
static bool is_words(const char *s, size_t n, bool strict)
{
    while (true) {
        size_t len = 0;
        while (len < n && s[len] != '.')
            len++;
        if (len == 0 ||
            strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") < len ||
            (strict && is_digits(s, len) && !is_number(s, len)))
            return false;
        if (len == n)
            return true;
        s += len + 1;
        n -= len + 1;
    }
}

bool abx_is_version(const char *text)
{
    size_t core = strcspn(text, "-+"), at = 0;
    for (int part = 0; part < 3; part++) {
        size_t len = 0;
        while (at + len < core && text[at + len] != '.')
            len++;
        if (!is_number(text + at, len) || (part < 2) != (at + len < core))
            return false;
        at += len + 1;
    }
    text += core;
    if (*text == '-') {
        size_t n = strcspn(text + 1, "+");
        if (!is_words(text + 1, n, true))
            return false;
        text += 1 + n;
    }
    return *text == 0 || is_words(text + 1, strlen(text + 1), false);
}

static int compare_words(const char *a, size_t a_len, const char *b, size_t b_len)
{
    bool a_number = is_digits(a, a_len), b_number = is_digits(b, b_len);
    if (a_number != b_number)
        return a_number ? -1 : 1;
    if (a_number && a_len != b_len)
        return a_len < b_len ? -1 : 1;
    int rc = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (rc != 0 || a_len == b_len)
        return rc;
    return a_len < b_len ? -1 : 1;
}

/* Dotted lists word by word; the one that ends first is the lower one. */
static int compare_lists(const char *a, size_t a_len, const char *b, size_t b_len)
{
    while (true) {
        size_t i = 0, k = 0;
        while (i < a_len && a[i] != '.')
            i++;
        while (k < b_len && b[k] != '.')
            k++;
        int rc = compare_words(a, i, b, k);
        if (rc != 0)
            return rc;
        if (i == a_len || k == b_len)
            return (i < a_len) - (k < b_len);
        a += i + 1;
        a_len -= i + 1;
        b += k + 1;
        b_len -= k + 1;
    }
}

int abx_version_compare(const char *a, const char *b)
{
    size_t a_core = strcspn(a, "-+"), b_core = strcspn(b, "-+");
    int rc = compare_lists(a, a_core, b, b_core);
    if (rc != 0)
        return rc;
    a += a_core;
    b += b_core;
    if (*a != '-' || *b != '-')
        return (*a != '-') - (*b != '-'); /* what has no -PRE is the release */
    return compare_lists(a + 1, strcspn(a + 1, "+"), b + 1, strcspn(b + 1, "+"));
}

/* --- what a manifest declares ---------------------------------------------------------------------------- */

yyjson_doc *abx_manifest_features(const abx_manifest *m)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    for (int i = 0; i < ABX_FEATURE_COUNT; i++)
        abx_mut_str(d, root, abx_feature_name((abx_feature)i),
                    m->features[i] ? "native" : "unsupported");
    for (int i = 0; i < ABX_OP_COUNT; i++) {
        const abx_op_row *op = abx_op_row_of((abx_op_id)i);
        if (m->ops[i] && !m->features[op->feature])
            abx_mut_str(d, root, op->method, "native");
    }
    return abx_json_freeze(d);
}

bool abx_manifest_has_op(const abx_manifest *m, abx_op_id op)
{
    return m->ops[op] || m->features[abx_op_row_of(op)->feature];
}

const abx_option *abx_manifest_option(const abx_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->option_count; i++)
        if (strcmp(m->options[i].name, name) == 0)
            return &m->options[i];
    return NULL;
}
