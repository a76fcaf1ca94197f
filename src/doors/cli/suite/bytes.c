#include "doors/cli/suite/bytes.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/openssl_tables.h"
#include "base/text.h"
#include "doors/cli/suite/match.h"
#include "wire/base64.h"

#define SHOWN 60 /* bytes of a difference that a report shows */

/* --- made ------------------------------------------------------------------------------------------------ */

static int too_long(abx_error **err)
{
    return abx_fail(err, ABX_ERR_USAGE, "the bytes of a case are over %zu", ABX_SUITE_BYTES_MAX);
}

static int add(abx_buf *out, const void *bytes, size_t n, abx_error **err)
{
    return abx_buf_add(out, bytes, n) < 0 ? too_long(err) : 0;
}

/* A block of a linear congruential generator, again and again. */
static int add_pattern(int64_t size, int64_t seed, abx_buf *out, abx_error **err)
{
    uint8_t block[ABX_SUITE_PATTERN];
    uint32_t x = (uint32_t)seed & 0x7fffffff;
    for (size_t i = 0; i < sizeof block; i++) {
        x = (x * 1103515245u + 12345u) & 0x7fffffff;
        block[i] = (uint8_t)(x >> 16);
    }
    while (size > 0) {
        size_t n = size < (int64_t)sizeof block ? (size_t)size : sizeof block;
        if (add(out, block, n, err) < 0)
            return -1;
        size -= (int64_t)n;
    }
    return 0;
}

static int add_repeated(yyjson_val *what, int64_t times, abx_buf *out, abx_error **err)
{
    ABX_AUTO_BUF one = ABX_BUF(ABX_SUITE_BYTES_MAX);
    size_t all;
    if (abx_suite_bytes(what, &one, err) < 0)
        return -1;
    if (times < 0 || !abx_size_mul(one.len, (size_t)times, &all) || all > ABX_SUITE_BYTES_MAX)
        return too_long(err);
    for (int64_t i = 0; i < times; i++)
        if (add(out, one.data, one.len, err) < 0)
            return -1;
    return 0;
}

static int add_base64(const char *text, size_t len, abx_buf *out, abx_error **err)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes = abx_base64_bytes(text, len, ABX_BASE64_STANDARD, &n);
    if (!bytes)
        return abx_fail(err, ABX_ERR_USAGE, "the base64 of a case is broken");
    return add(out, bytes, n, err);
}

static int add_hex(const char *text, size_t len, abx_buf *out, abx_error **err)
{
    for (size_t i = 0; i + 1 < len; i += 2) {
        char two[3] = {text[i], text[i + 1], 0}, *end = NULL;
        uint8_t byte = (uint8_t)strtoul(two, &end, 16);
        if (end != two + 2)
            return abx_fail(err, ABX_ERR_USAGE, "the hex of a case is broken");
        if (add(out, &byte, 1, err) < 0)
            return -1;
    }
    return len % 2 ? abx_fail(err, ABX_ERR_USAGE, "the hex of a case is broken") : 0;
}

int abx_suite_bytes(yyjson_val *spec, abx_buf *out, abx_error **err)
{
    yyjson_val *v;
    if (yyjson_is_str(spec))
        return add(out, yyjson_get_str(spec), yyjson_get_len(spec), err);
    if ((v = yyjson_obj_get(spec, "text")))
        return add(out, yyjson_get_str(v), yyjson_get_len(v), err);
    if ((v = yyjson_obj_get(spec, "base64")))
        return add_base64(yyjson_get_str(v), yyjson_get_len(v), out, err);
    if ((v = yyjson_obj_get(spec, "hex")))
        return add_hex(yyjson_get_str(v), yyjson_get_len(v), out, err);
    if ((v = yyjson_obj_get(spec, "repeat")))
        return add_repeated(v, abx_json_int(spec, "times", -1), out, err);
    if ((v = yyjson_obj_get(spec, "pattern")))
        return add_pattern(yyjson_get_sint(v), abx_json_int(spec, "seed", 0), out, err);
    if ((v = yyjson_obj_get(spec, "join"))) {
        size_t i, n;
        yyjson_val *part;
        yyjson_arr_foreach(v, i, n, part)
        {
            if (abx_suite_bytes(part, out, err) < 0)
                return -1;
        }
        return 0;
    }
    return abx_fail(err, ABX_ERR_USAGE, "these are no bytes: a case is broken");
}

/* --- expected ---------------------------------------------------------------------------------------------- */

static char *show(const uint8_t *bytes, size_t n)
{
    size_t shown = n < SHOWN ? n : SHOWN;
    ABX_AUTO_FREE char *text = abx_strndup((const char *)bytes, shown);
    if (memchr(bytes, 0, shown))
        return abx_format("%zu bytes, binary", n);
    ABX_AUTO_FREE char *safe = abx_printable(text);
    return abx_format("%zu bytes \"%s\"%s", n, safe, shown < n ? "..." : "");
}

static bool differ(const abx_buf *want, const uint8_t *have, size_t n, char **why)
{
    size_t at = 0;
    while (at < want->len && at < n && want->data[at] == have[at])
        at++;
    if (at == want->len && at == n)
        return false;
    ABX_AUTO_FREE char *wanted = show(want->data ? want->data : (const uint8_t *)"", want->len);
    ABX_AUTO_FREE char *got = show(have, n);
    *why = abx_format("wanted %s, got %s, different at byte %zu", wanted, got, at);
    return true;
}

typedef enum bytes_place { PLACE_ANY, PLACE_HEAD, PLACE_TAIL, PLACE_NONE } bytes_place;

static bool holds(const abx_buf *part, bytes_place place, const uint8_t *have, size_t n)
{
    if (part->len == 0)
        return place != PLACE_NONE;
    if (place == PLACE_ANY || place == PLACE_NONE)
        return (memmem(have, n, part->data, part->len) != NULL) == (place == PLACE_ANY);
    if (n < part->len)
        return false;
    return memcmp(place == PLACE_HEAD ? have : have + n - part->len, part->data, part->len) == 0;
}

static bool part_fits(const char *name, bytes_place place, yyjson_val *spec, const uint8_t *have,
                      size_t n, char **why)
{
    ABX_AUTO_BUF part = ABX_BUF(ABX_SUITE_BYTES_MAX);
    ABX_AUTO_ERROR err = NULL;
    if (abx_suite_bytes(spec, &part, &err) < 0) {
        *why = abx_strdup(abx_error_text(err));
        return false;
    }
    if (holds(&part, place, have, n))
        return true;
    ABX_AUTO_FREE char *wanted = show(part.data, part.len);
    ABX_AUTO_FREE char *got = show(have, n);
    *why = abx_format("wanted %s %s, got %s", name, wanted, got);
    return false;
}

static bool digest_fits(const char *want, const uint8_t *have, size_t n, char **why)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    abx_openssl_ready();
    ABX_CHECK(EVP_Digest(have, n, digest, &len, EVP_sha256(), NULL) == 1);
    char text[2 * EVP_MAX_MD_SIZE + 1];
    abx_hex(digest, len, text);
    if (want && strcmp(text, want) == 0)
        return true;
    *why = abx_format("wanted sha256 %s, got %s (%zu bytes)", want ? want : "?", text, n);
    return false;
}

static bool any_fits(yyjson_val *specs, const uint8_t *have, size_t n, char **why)
{
    size_t i, count;
    yyjson_val *spec;
    yyjson_arr_foreach(specs, i, count, spec)
    {
        ABX_AUTO_FREE char *not_this = NULL;
        if (abx_suite_bytes_fit(spec, have, n, &not_this))
            return true;
    }
    ABX_AUTO_FREE char *got = show(have, n);
    *why = abx_format("got %s, none of those that are allowed", got);
    return false;
}

static bool exactly(yyjson_val *spec, const uint8_t *have, size_t n, char **why)
{
    ABX_AUTO_BUF want = ABX_BUF(ABX_SUITE_BYTES_MAX);
    ABX_AUTO_ERROR err = NULL;
    if (abx_suite_bytes(spec, &want, &err) == 0)
        return !differ(&want, have, n, why);
    *why = abx_strdup(abx_error_text(err));
    return false;
}

/* One member of an object that expects something of the bytes. */
static bool member_fits(const char *name, yyjson_val *v, const uint8_t *have, size_t n, char **why)
{
    static const struct {
        const char *name;
        bytes_place place;
    } parts[] = {{"contains", PLACE_ANY},
                 {"startsWith", PLACE_HEAD},
                 {"endsWith", PLACE_TAIL},
                 {"lacks", PLACE_NONE}};
    for (size_t i = 0; i < ABX_COUNT(parts); i++)
        if (strcmp(parts[i].name, name) == 0)
            return part_fits(name, parts[i].place, v, have, n, why);
    if (strcmp(name, "sha256") == 0)
        return digest_fits(yyjson_get_str(v), have, n, why);
    if (strcmp(name, "oneOf") == 0)
        return any_fits(v, have, n, why);
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL); /* length */
    ABX_AUTO_JSON count = yyjson_mut_val_imut_copy(yyjson_mut_uint(d, n), NULL);
    return abx_suite_fits(v, yyjson_doc_get_root(count), "length", why);
}

bool abx_suite_bytes_fit(yyjson_val *spec, const void *have, size_t n, char **why)
{
    static const char *const expectations[] = {"contains", "startsWith", "endsWith", "lacks",
                                               "sha256",   "oneOf",      "length"};
    const uint8_t *bytes = have ? have : (const uint8_t *)"";
    bool found = false;
    for (size_t i = 0; i < ABX_COUNT(expectations); i++) {
        yyjson_val *v = yyjson_is_obj(spec) ? yyjson_obj_get(spec, expectations[i]) : NULL;
        found = found || v;
        if (v && !member_fits(expectations[i], v, bytes, n, why))
            return false;
    }
    return found || exactly(spec, bytes, n, why);
}
