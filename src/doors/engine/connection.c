/* The header X-Abx-Connection: base64url of a JSON object that says with which provider, under which account. Two headers that say the same
 * are one connection, whatever the order of their members. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/engine/engine.h"
#include "wire/base64.h"

#define HEADER      "X-Abx-Connection"
#define MEMBERS_MAX 256

static int fail_header(abx_error **err, const char *text)
{
    abx_fail(err, ABX_ERR_USAGE, "%s: %s", HEADER, text);
    return abx_hint(err, "it is base64url, without padding, of a JSON object "
                         "{\"provider\", \"options\", \"apiKey\", …}");
}

/* It holds keys. */
static void wipe(void *bytes, size_t n)
{
    if (bytes)
        explicit_bzero(bytes, n);
    free(bytes);
}

/* --- one form for all that mean the same ----------------------------------------------------------------------------- */
typedef struct member {
    yyjson_val *key, *value;
} member;

static int by_name(const void *a, const void *b)
{
    return strcmp(yyjson_get_str(((const member *)a)->key),
                  yyjson_get_str(((const member *)b)->key));
}

/* The members by name, null ones left out. How many; -1: a name twice, or too many. */
static int sorted(yyjson_val *object, member out[MEMBERS_MAX])
{
    size_t i, n, count = 0;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (yyjson_is_null(value))
            continue;
        if (count == MEMBERS_MAX)
            return -1;
        out[count++] = (member){key, value};
    }
    qsort(out, count, sizeof *out, by_name);
    for (i = 1; i < count; i++)
        if (by_name(&out[i - 1], &out[i]) == 0)
            return -1;
    return (int)count;
}

static int write_sorted(yyjson_val *object, int depth, abx_buf *out)
{
    member members[MEMBERS_MAX];
    int n = sorted(object, members), rc = abx_buf_add_byte(out, '{');
    if (n < 0)
        return -1;
    for (int i = 0; i < n && rc == 0; i++) {
        rc = abx_json_write(members[i].key, out);
        rc = rc == 0 ? abx_buf_add_byte(out, ':') : rc;
        if (rc == 0)
            rc = depth == 0 && yyjson_is_obj(members[i].value)
                     ? write_sorted(members[i].value, 1, out)
                     : abx_json_write(members[i].value, out);
        rc = rc == 0 ? abx_buf_add_byte(out, ',') : rc;
    }
    return rc == 0 ? abx_buf_add_byte(out, '}') : rc;
}

static int digest_of(const engine *e, yyjson_val *connection, size_t n,
                     uint8_t out[ENGINE_DIGEST_BYTES], abx_error **err)
{
    abx_buf text = ABX_BUF(8 * n + 1024);
    int rc = write_sorted(connection, 0, &text);
    if (rc == 0)
        engine_digest(e, text.data, text.len, NULL, 0, out);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    abx_buf_clear(&text);
    return rc == 0 ? 0 : fail_header(err, "a member is there twice, or there are too many");
}

/* --- reading --------------------------------------------------------------------------------------------------------------- */
static engine_session *open_new(engine *e, yyjson_val *connection, size_t n,
                                const uint8_t header[ENGINE_DIGEST_BYTES], abx_error **err)
{
    uint8_t digest[ENGINE_DIGEST_BYTES];
    abx_config *config;
    if (!yyjson_is_obj(connection)) {
        fail_header(err, "it is no JSON object");
        return NULL;
    }
    if (abx_json_has_nul(connection)) { /* what is behind it would be overlooked */
        fail_header(err, "a text in it holds a NUL");
        return NULL;
    }
    if (digest_of(e, connection, n, digest, err) < 0)
        return NULL;
    engine_session *known = engine_session_by_digest(e, digest, header);
    if (known)
        return known;
    if (abx_config_open_given(e->home, connection, &config, err) < 0)
        return NULL;
    return engine_session_open(e, abx_json_str(connection, "provider", ""), config, digest, header,
                               err);
}

static engine_session *read_header(engine *e, const char *text, size_t n,
                                   const uint8_t header[ENGINE_DIGEST_BYTES], abx_error **err)
{
    size_t len = 0;
    uint8_t *bytes = abx_base64_bytes(text, n, ABX_BASE64_URL, &len);
    if (!bytes) {
        fail_header(err, "it is no base64url");
        return NULL;
    }
    yyjson_doc *doc = abx_json_parse(bytes, len, ABX_ERR_USAGE, HEADER, err);
    wipe(bytes, len);
    engine_session *s = doc ? open_new(e, yyjson_doc_get_root(doc), len, header, err) : NULL;
    abx_json_wipe(doc);
    return s;
}

engine_session *engine_connect(engine *e, const abx_exchange *x, abx_error **err)
{
    uint8_t header[ENGINE_DIGEST_BYTES];
    size_t count;
    const char *text = engine_header(x, HEADER, &count);
    if (count == 0) {
        fail_header(err, "the request has none, and needs a provider");
        return NULL;
    }
    if (count > 1) {
        fail_header(err, "it is there more than once");
        return NULL;
    }
    size_t n = strlen(text);
    engine_digest(e, text, n, NULL, 0, header);
    engine_session *s = engine_session_by_header(e, header);
    return s ? s : read_header(e, text, n, header, err);
}
