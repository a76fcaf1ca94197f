#include "epp/names.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Length of "process" in "process.start". */
static size_t group_len(const char *method)
{
    return strcspn(method, ".");
}

static bool is_group(const abx_op_row *row, const char *group)
{
    return strlen(group) == group_len(row->method) &&
           strncmp(row->method, group, strlen(group)) == 0;
}

/* Processes and terminals have a notification for each event; the others one for all, with a kind. */
static bool has_own_names(const abx_op_row *row)
{
    return is_group(row, "process") || is_group(row, "pty");
}

static int channel_of(const char *name)
{
    for (int c = 0; c < ABX_CH_COUNT; c++)
        if (strcmp(abx_channel_name((abx_channel)c), name) == 0)
            return c;
    return -1;
}

/* The operation's event with this name, as the table writes it. */
static const char *find_event(const abx_op_row *row, const char *name)
{
    size_t n;
    const abx_op_field *rows = abx_op_events(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == row->id && strcmp(rows[i].name, name) == 0)
            return rows[i].name;
    return NULL;
}

/* The one channel of an operation, -1 when it has none or several. */
static int only_channel(const abx_op_row *row)
{
    size_t n;
    const abx_op_field *rows = abx_op_events(&n);
    int found = -1;
    for (size_t i = 0; i < n; i++) {
        int c = rows[i].op == row->id ? channel_of(rows[i].name) : -1;
        if (c >= 0 && found >= 0)
            return -1;
        if (c >= 0)
            found = c;
    }
    return found;
}

static int fail_member(const char *method, const char *member, yyjson_val *value, abx_error **err)
{
    ABX_AUTO_BUF shown = ABX_BUF(200);
    if (value && abx_json_write(value, &shown) < 0)
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "%s: '%s' is wrong", method, member);
    return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL,
                    value ? "%s: '%s' is wrong: %s" : "%s: '%s' is missing%s", method, member,
                    abx_buf_cstr(&shown));
}

static int read_output(const abx_op_row *row, const char *method, yyjson_val *params,
                       abx_epp_event *out, abx_error **err)
{
    yyjson_val *named = yyjson_obj_get(params, "channel");
    int channel = named ? -1 : only_channel(row);
    if (yyjson_is_str(named) && find_event(row, yyjson_get_str(named)))
        channel = channel_of(yyjson_get_str(named));
    if (channel < 0)
        return fail_member(method, "channel", named, err);
    out->is_chunk = true;
    out->channel = (abx_channel)channel;
    return 1;
}

static int read_kind(const abx_op_row *row, const char *method, yyjson_val *params,
                     abx_epp_event *out, abx_error **err)
{
    const char *kind = abx_json_str(params, "kind", NULL);
    if (!kind)
        return fail_member(method, "kind", yyjson_obj_get(params, "kind"), err);
    out->type = find_event(row, kind);
    if (!out->type)
        out->type = find_event(row, "change"); /* of a file; its kind is what happened */
    if (!out->type)
        return 0;
    int channel = channel_of(out->type);
    out->is_chunk = channel >= 0;
    if (out->is_chunk)
        out->channel = (abx_channel)channel;
    return 1;
}

int abx_epp_event_read(const abx_op_row *row, const char *method, yyjson_val *params,
                       abx_epp_event *out, abx_error **err)
{
    size_t n = group_len(row->method);
    memset(out, 0, sizeof *out);
    if (strncmp(method, row->method, n) != 0 || method[n] != '.')
        return 0;
    const char *name = method + n + 1;
    if (strcmp(name, "output") == 0 && !is_group(row, "code"))
        return read_output(row, method, params, out, err);
    if (!has_own_names(row))
        return strcmp(name, "event") == 0 ? read_kind(row, method, params, out, err) : 0;
    out->type = channel_of(name) < 0 ? find_event(row, name) : NULL;
    return out->type != NULL;
}

yyjson_mut_doc *abx_epp_event_members(const abx_op_row *row, const char *type, yyjson_val *params)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    bool drop_kind = !has_own_names(row) && strcmp(type, "change") != 0;
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(params, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (strcmp(name, "stream") == 0 || (drop_kind && strcmp(name, "kind") == 0))
            continue;
        /* the table's own `stream` of an event is the name of a channel */
        abx_mut_val(d, root, strcmp(name, "channel") == 0 ? "stream" : name, value);
    }
    return d;
}

void abx_epp_event_name(const abx_op_row *row, const char *type, char method[ABX_EPP_METHOD_SIZE],
                        const char **key, const char **value)
{
    int n = (int)group_len(row->method);
    bool chunk = channel_of(type) >= 0;
    *key = NULL;
    *value = type;
    const char *name = "event";
    if (chunk && !is_group(row, "code")) {
        name = "output";
        *key = only_channel(row) < 0 ? "channel" : NULL;
    } else if (has_own_names(row)) {
        name = type;
    } else if (strcmp(type, "change") != 0) {
        *key = "kind";
    }
    (void)snprintf(method, ABX_EPP_METHOD_SIZE, "%.*s.%s", n, row->method, name);
}
