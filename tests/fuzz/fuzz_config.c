/* Any bytes as a configuration file: it is parsed or refused, never worse; and a change in place of a file that can
 * be used either fails cleanly or gives a file in which exactly that key has the new value. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"

static const char *const keys[] = {"output", "providers.x.a", "providers.local.ids",
                                   "profiles.p.provider", "profiles.p.providers.x.api_key"};

static int load(abx_config *c, const char *text, size_t n, abx_source source)
{
    abx_config_file file = {"/fuzz/file", source, false, false};
    return abx__config_parse(c, &file, text, n, NULL);
}

/* The value of a key that may begin with "profiles.p.". */
static const char *value_of(const abx_config *c, const char *key)
{
    const char *profile = abx_has_prefix(key, "profiles.p.") ? "p" : NULL;
    const char *rest = profile ? key + strlen("profiles.p.") : key;
    for (size_t i = 0; i < c->files.count; i++)
        if (abx_str_eq(c->files.items[i].key, rest) &&
            (profile ? abx_str_eq(c->files.items[i].profile, profile) : !c->files.items[i].profile))
            return c->files.items[i].text;
    return NULL;
}

static void check_set(const char *text, size_t n, const char *key, size_t values)
{
    ABX_AUTO_BUF out = ABX_BUF(ABX_TOML_MAX);
    const char *value = abx_has_suffix(key, ".ids") ? "range"
                        : abx_str_eq(key, "output") ? "json"
                                                    : "v";
    ABX_AUTO_FREE char *literal = abx_format("\"%s\"", value);
    if (abx__config_edit_set(text, n, key, literal, &out, NULL) < 0)
        return;
    abx_config after = {0};
    if (load(&after, abx_buf_cstr(&out), out.len, ABX_SOURCE_USER) == 0) {
        ABX_CHECK(abx_str_eq(value_of(&after, key), value));
        ABX_CHECK(after.files.count == values || after.files.count == values + 1);
    }
    abx__config_forget_files(&after);
}

static void check_unset(const char *text, size_t n, const char *key, size_t values)
{
    ABX_AUTO_BUF out = ABX_BUF(ABX_TOML_MAX);
    if (abx__config_edit_unset(text, n, key, &out, NULL) < 0)
        return;
    abx_config after = {0};
    if (load(&after, abx_buf_cstr(&out), out.len, ABX_SOURCE_USER) == 0) {
        ABX_CHECK(!value_of(&after, key));
        ABX_CHECK(after.files.count == values || after.files.count + 1 == values);
    }
    abx__config_forget_files(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    abx_config project = {0}, user = {0};
    (void)load(&project, text, size, ABX_SOURCE_PROJECT);
    abx__config_forget_files(&project);
    int usable = load(&user, text, size, ABX_SOURCE_USER) == 0;
    size_t values = user.files.count;
    abx__config_forget_files(&user);
    for (size_t i = 0; usable && i < ABX_COUNT(keys); i++) {
        check_set(text, size, keys[i], values);
        check_unset(text, size, keys[i], values);
    }
    return 0;
}
