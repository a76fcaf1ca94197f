/* fs.write: its parameters, and the texts of its request. */
#include "e2b/client_write.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"

#define MAX_METADATA 4096 /* bytes in all; each entry counts with its key and these: */
#define PREFIX_BYTES 9

static bool is_token(const char *key)
{
    if (!*key)
        return false;
    for (const unsigned char *p = (const unsigned char *)key; *p; p++)
        if (!isalnum(*p) && !strchr("!#$%&'*+-.^_`|~", *p))
            return false;
    return true;
}

static bool is_printable(yyjson_val *text)
{
    const char *s = yyjson_get_str(text);
    for (size_t i = 0; i < yyjson_get_len(text); i++)
        if (s[i] < 0x20 || s[i] > 0x7e)
            return false;
    return true;
}

/* {"author":"x"} → header lines. */
static int read_metadata(abx__envd_job *job, abx_error **err)
{
    abx__writing *w = job->state;
    yyjson_val *map = abx_json_get(abx_call_params(job->call), "metadata"), *key, *value;
    size_t i, n, total = 0;
    if (yyjson_obj_size(map) == 0)
        return 0;
    if (abx__envd_need(job->client, ABX__ENVD_V(0, 6, 2), "metadata of a file", err) < 0)
        return -1;
    w->metadata = abx_alloc_array(yyjson_obj_size(map), sizeof(char *));
    yyjson_obj_foreach(map, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (!is_token(name) || strlen(name) != yyjson_get_len(key))
            return abx_fail(err, ABX_ERR_USAGE, "'%s' cannot be a key of a file's metadata", name);
        if (!is_printable(value))
            return abx_fail(err, ABX_ERR_USAGE,
                            "the metadata '%s' holds what is no printable ASCII", name);
        total += PREFIX_BYTES + yyjson_get_len(key) + yyjson_get_len(value);
        w->metadata[w->metadata_count++] =
            abx_format("X-Metadata-%s: %s", name, yyjson_get_str(value));
    }
    if (total > MAX_METADATA)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the metadata is larger than %d bytes",
                        MAX_METADATA);
    return 0;
}

static int read_time(abx__writing *w, const char *text, abx_error **err)
{
    int64_t seconds = 0;
    long ns = 0;
    if (!text)
        return 0;
    if (abx_parse_rfc3339_ns(text, &seconds, &ns) < 0)
        return abx_fail(err, ABX_ERR_USAGE, "'modifiedAt' is no time");
    w->modified = abx_format("%lld.%09ld", (long long)seconds, ns);
    return 0;
}

static bool by_form(const abx_envd_client *c)
{
    if (c->upload == ABX_ENVD_UPLOAD_BY_VERSION)
        return !abx__envd_has(c, ABX__ENVD_V(0, 5, 7));
    return c->upload == ABX_ENVD_UPLOAD_FORM;
}

int abx__write_params(abx__envd_job *job, abx_error **err)
{
    abx__writing *w = job->state;
    yyjson_val *params = abx_call_params(job->call);
    const char *path = abx__envd_text(params, "path");
    int64_t mode = abx__envd_param_int(job, "mode", -1);
    w->expected = abx__envd_param_int(job, "size", -1);
    w->whole =
        abx_json_bool(params, "whole", job->client->abx); /* a stranger needs more requests */
    w->mode = (int)mode;
    w->form = by_form(job->client);
    abx_buf_init(&w->early, ABX__ENVD_MAX_MESSAGE);
    if (!path || !*path)
        return abx_fail(err, ABX_ERR_USAGE, "'path' cannot be a path");
    if (mode > 07777 || mode < -1)
        return abx_fail(err, ABX_ERR_USAGE, "'mode' has more than permission bits");
    w->to = abx_strdup(path);
    if (w->form) {
        char id[25];
        abx_random_id(id, 24);
        snprintf(w->boundary, sizeof w->boundary, "%s", id);
    }
    if (read_time(w, abx__envd_param(job, "modifiedAt"), err) < 0)
        return -1;
    return read_metadata(job, err);
}

int abx__write_additions(const abx__envd_job *job, abx_buf *path, abx_error **err)
{
    const abx__writing *w = job->state;
    int rc = abx_buf_add_str(path, "&abx=1");
    if (rc == 0 && w->mode >= 0)
        rc = abx_buf_addf(path, "&abx_mode=%o", (unsigned)w->mode);
    if (rc == 0 && w->expected >= 0)
        rc = abx_buf_addf(path, "&abx_size=%lld", (long long)w->expected);
    if (rc == 0 && w->whole)
        rc = abx_buf_add_str(path, "&abx_whole=1");
    if (rc == 0 && w->modified)
        rc = abx_buf_addf(path, "&abx_mtime=%s", w->modified);
    return rc < 0 ? abx_fail(err, ABX_ERR_TOO_LARGE, "the path is too long") : 0;
}

/* As E2B's own clients write it: what would end the text is percent-encoded, all else is there as it is. */
static int add_file_name(const char *name, abx_buf *out)
{
    for (const char *p = name; *p; p++) {
        bool plain = *p != '"' && *p != '\r' && *p != '\n' && *p != '\\';
        if ((plain ? abx_buf_add_byte(out, (uint8_t)*p) : abx_buf_addf(out, "%%%02X", *p)) < 0)
            return -1;
    }
    return 0;
}

int abx__write_form_head(const abx__writing *w, abx_buf *out)
{
    if (abx_buf_addf(out, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"",
                     w->boundary) < 0 ||
        add_file_name(w->to, out) < 0)
        return -1;
    return abx_buf_add_str(out, "\"\r\nContent-Type: application/octet-stream\r\n\r\n");
}

int abx__write_form_tail(const abx__writing *w, abx_buf *out)
{
    return abx_buf_addf(out, "\r\n--%s--\r\n", w->boundary);
}
