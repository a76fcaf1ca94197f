#include "epp/plugin_end.h"

#include <string.h>

#include "base/mem.h"
#include "epp/epp.h"
#include "epp/message.h"
#include "epp/names.h"
#include "epp/reader.h"
#include "wire/bytes_json.h"

/* A stream.write whose bytes were not all taken. */
typedef struct owed {
    struct owed *next;
    uint64_t id;
    size_t left;
} owed;

struct abx_epp_request {
    abx_epp_request *next;
    abx_epp_plugin *plugin;
    uint64_t id;
    const abx_op_row *row;
    yyjson_doc *params;
    uint64_t window; /* with flow */
    bool holds;      /* waits for a window */
    owed *owed, **owed_end;
    abx_utf8_tail tails[ABX_CH_COUNT];
    void *data;
};

struct abx_epp_plugin {
    const abx_epp_plugin_handlers *handlers;
    void *data;
    bool want_raw, want_flow, raw, flow;
    bool greeted;
    uint64_t hello_id;
    abx_epp_reader reader;
    abx_epp_request *requests;
    abx_buf out;
    abx_buf raw_bytes; /* of the chunk that is being read */
    uint64_t raw_write, raw_stream;
};

/* --- sending -------------------------------------------------------------------------------------------- */

static void flush(abx_epp_plugin *p)
{
    if (p->out.len)
        p->handlers->write(p->out.data, p->out.len, p->data);
    abx_buf_reset(&p->out);
}

static void send_message(abx_epp_plugin *p, yyjson_mut_doc *message)
{
    ABX_CHECK(abx_epp_put(message, &p->out) == 0);
    flush(p);
}

static void answer_error(abx_epp_plugin *p, uint64_t id, int64_t code, const char *message)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(id, NULL, &root);
    yyjson_mut_val *error = abx_mut_obj(d, root, "error");
    abx_mut_int(d, error, "code", code);
    abx_mut_str(d, error, "message", message);
    send_message(p, d);
}

static void answer_empty(abx_epp_plugin *p, uint64_t id)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(id, NULL, &root);
    abx_mut_obj(d, root, "result");
    send_message(p, d);
}

void abx_epp_log(abx_epp_plugin *p, const char *level, const char *message)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(0, "log", &root);
    yyjson_mut_val *params = abx_mut_obj(d, root, "params");
    abx_mut_str(d, params, "level", level);
    abx_mut_str(d, params, "message", message);
    send_message(p, d);
}

void abx_epp_retire(abx_epp_plugin *p, const char *reason)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(0, "retire", &root);
    abx_mut_str(d, abx_mut_obj(d, root, "params"), "reason", reason);
    send_message(p, d);
}

void abx_epp_event_send(abx_epp_request *r, const char *type, yyjson_mut_doc *doc)
{
    char method[ABX_EPP_METHOD_SIZE];
    const char *key, *value;
    abx_epp_event_name(r->row, type, method, &key, &value);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(0, method, &root);
    yyjson_mut_val *params = abx_mut_obj(d, root, "params");
    abx_mut_int(d, params, "stream", (int64_t)r->id);
    abx_mut_str(d, params, key ? key : "kind", key ? value : NULL);
    size_t i, n;
    yyjson_mut_val *name, *member;
    if (!doc)
        doc = abx_mut_new(NULL);
    yyjson_mut_obj_foreach(yyjson_mut_doc_get_root(doc), i, n, name, member)
    {
        const char *word = yyjson_mut_get_str(name);
        abx_mut_put(d, params, strcmp(word, "stream") == 0 ? "channel" : word,
                    yyjson_mut_val_mut_copy(d, member));
    }
    yyjson_mut_doc_free(doc);
    send_message(r->plugin, d);
}

size_t abx_epp_room(const abx_epp_request *r)
{
    return r->plugin->flow ? (size_t)r->window : SIZE_MAX;
}

int abx_epp_bytes_send(abx_epp_request *r, abx_channel channel, const void *bytes, size_t n,
                       bool last)
{
    abx_epp_plugin *p = r->plugin;
    char method[ABX_EPP_METHOD_SIZE];
    abx_epp_bytes m = {.stream = r->id, .method = method, .raw = p->raw, .bytes = bytes, .n = n};
    ABX_AUTO_BUF whole = ABX_BUF(ABX_EPP_CHUNK_MAX + sizeof r->tails[channel].bytes);
    ABX_CHECK(n <= ABX_EPP_CHUNK_MAX && n <= abx_epp_room(r));
    r->window -= p->flow ? n : 0;
    abx_epp_event_name(r->row, abx_channel_name(channel), method, &m.key, &m.value);
    if (!p->raw) {
        if (!abx_utf8_tail_join(&r->tails[channel], bytes, n, last, &whole))
            return 1;
        m.bytes = whole.data;
        m.n = whole.len;
    }
    if (m.n > 0 && p->raw && p->handlers->write_pieces) {
        abx_epp_put_raw_head(&m, &p->out);
        const abx_epp_piece pieces[] = {{p->out.data, p->out.len}, {bytes, n}, {"\n", 1}};
        p->handlers->write_pieces(pieces, ABX_COUNT(pieces), p->data);
        abx_buf_reset(&p->out);
    } else if (m.n > 0) {
        abx_epp_put_bytes(&m, &p->out);
        flush(p);
    }
    r->holds = p->flow && r->window == 0;
    return !r->holds;
}

/* --- requests ------------------------------------------------------------------------------------------- */

const abx_op_row *abx_epp_request_op(const abx_epp_request *r)
{
    return r->row;
}
uint64_t abx_epp_request_id(const abx_epp_request *r)
{
    return r->id;
}
void abx_epp_request_set_data(abx_epp_request *r, void *data)
{
    r->data = data;
}
void *abx_epp_request_data(const abx_epp_request *r)
{
    return r->data;
}

static abx_epp_request *find(abx_epp_plugin *p, yyjson_val *stream)
{
    for (abx_epp_request *r = p->requests; r && yyjson_is_uint(stream); r = r->next)
        if (r->id == yyjson_get_uint(stream))
            return r;
    return NULL;
}

void abx_epp_taken(abx_epp_request *r, size_t n)
{
    abx_epp_plugin *p = r->plugin;
    while (r->owed && n >= r->owed->left) {
        owed *o = r->owed;
        n -= o->left;
        answer_empty(p, o->id);
        r->owed = o->next;
        if (!r->owed)
            r->owed_end = &r->owed;
        free(o);
        if (n == 0)
            return; /* an empty chunk that follows is answered with the next */
    }
    if (r->owed)
        r->owed->left -= n;
}

/* Out of the table; what it owes is answered, so that no request stays open. */
static void forget(abx_epp_request *r)
{
    abx_epp_plugin *p = r->plugin;
    for (abx_epp_request **at = &p->requests; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    while (r->owed) {
        owed *o = r->owed;
        r->owed = o->next;
        answer_empty(p, o->id);
        free(o);
    }
    yyjson_doc_free(r->params);
    free(r);
}

/* Unfinished characters of a call that ends. */
static void send_tails(abx_epp_request *r)
{
    for (int c = 0; c < ABX_CH_COUNT; c++)
        if (r->tails[c].len > 0)
            (void)abx_epp_bytes_send(r, (abx_channel)c, NULL, 0, true);
}

void abx_epp_end(abx_epp_request *r, yyjson_mut_doc *result)
{
    send_tails(r);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(r->id, NULL, &root);
    if (result)
        abx_mut_put(d, root, "result", yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(result)));
    else
        abx_mut_obj(d, root, "result");
    yyjson_mut_doc_free(result);
    abx_epp_plugin *p = r->plugin;
    forget(r);
    send_message(p, d);
}

void abx_epp_fail(abx_epp_request *r, const abx_error *err)
{
    send_tails(r);
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(r->id, NULL, &root);
    abx_epp_error_put(d, root, err);
    abx_epp_plugin *p = r->plugin;
    forget(r);
    send_message(p, d);
}

/* --- what the host sends -------------------------------------------------------------------------------- */

void abx_epp_greeted(abx_epp_plugin *p, yyjson_mut_doc *features, const abx_error *err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_epp_message(p->hello_id, NULL, &root);
    if (!features) {
        abx_epp_error_put(d, root, err);
        send_message(p, d);
        return;
    }
    p->greeted = true;
    yyjson_mut_val *result = abx_mut_obj(d, root, "result");
    abx_mut_str(d, result, "protocol", ABX_EPP_PROTOCOL);
    abx_mut_put(d, result, "features",
                yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(features)));
    yyjson_mut_doc_free(features);
    abx_mut_bool(d, result, "raw", p->raw);
    abx_mut_bool(d, result, "flow", p->flow);
    send_message(p, d);
}

static void on_initialize(abx_epp_plugin *p, uint64_t id, yyjson_val *params)
{
    if (strcmp(abx_json_str(params, "protocol", ""), ABX_EPP_PROTOCOL) != 0) {
        answer_error(p, id, ABX_EPP_INVALID_PARAMS, "this program speaks " ABX_EPP_PROTOCOL);
        return;
    }
    p->hello_id = id;
    p->raw = p->reader.raw_agreed = p->want_raw && abx_json_bool(params, "raw", false);
    p->flow = p->want_flow && abx_json_bool(params, "flow", false);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *features = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, features);
    ABX_AUTO_ERROR why = NULL;
    int rc = p->handlers->initialize(params, d, features, p->data, &why);
    if (rc == 0)
        abx_epp_greeted(p, ABX_TAKE(d), NULL);
    else if (rc < 0)
        abx_epp_greeted(p, NULL, why);
    yyjson_mut_doc_free(d);
}

static void take_input(abx_epp_plugin *p, abx_epp_request *r, uint64_t id, const uint8_t *bytes,
                       size_t n)
{
    if (!r || n == 0 || !p->handlers->input) {
        answer_empty(p, id);
        return;
    }
    owed *o = ABX_NEW(owed);
    *o = (owed){.id = id, .left = n};
    *r->owed_end = o;
    r->owed_end = &o->next;
    p->handlers->input(r, bytes, n, p->data);
}

static void on_write(abx_epp_plugin *p, uint64_t id, yyjson_val *params)
{
    yyjson_val *raw = yyjson_obj_get(params, "raw"), *stream = yyjson_obj_get(params, "stream");
    if (yyjson_is_uint(raw)) {
        p->raw_write = id;
        p->raw_stream = yyjson_get_uint(stream);
        abx_buf_reset(&p->raw_bytes);
        return;
    }
    ABX_AUTO_BUF bytes = ABX_BUF(ABX_EPP_LINE_MAX);
    if (abx_bytes_json_get(params, ABX_ERR_PROVIDER_PROTOCOL, &bytes, NULL) <= 0)
        answer_error(p, id, ABX_EPP_INVALID_PARAMS, "no bytes");
    else
        take_input(p, find(p, stream), id, bytes.data, bytes.len);
}

static int on_raw(const uint8_t *bytes, size_t n, size_t left, void *data, abx_error **err)
{
    abx_epp_plugin *p = data;
    (void)err;
    if (!p->raw_write)
        return 0;
    ABX_CHECK(abx_buf_add(&p->raw_bytes, bytes, n) == 0);
    if (left > 0)
        return 0;
    uint64_t id = p->raw_write;
    p->raw_write = 0;
    abx_epp_request *r = p->requests;
    while (r && r->id != p->raw_stream)
        r = r->next;
    take_input(p, r, id, p->raw_bytes.data, p->raw_bytes.len);
    return 0;
}

static void on_stream_end(abx_epp_plugin *p, uint64_t id, yyjson_val *params)
{
    abx_epp_request *r = find(p, yyjson_obj_get(params, "stream"));
    answer_empty(p, id);
    if (r && p->handlers->input_end)
        p->handlers->input_end(r, p->data);
}

static void on_request(abx_epp_plugin *p, uint64_t id, const char *method, yyjson_val *params)
{
    const abx_op_row *row = abx_op_find(method);
    if (!row) {
        answer_error(p, id, ABX_EPP_NO_METHOD, "unknown method");
        return;
    }
    abx_epp_request *r = ABX_NEW(abx_epp_request);
    r->plugin = p;
    r->id = id;
    r->row = row;
    r->params = abx_json_copy(params);
    r->window = ABX_EPP_WINDOW;
    r->owed_end = &r->owed;
    r->next = p->requests;
    p->requests = r;
    p->handlers->request(r, yyjson_doc_get_root(r->params), p->data);
}

static void on_notification(abx_epp_plugin *p, const char *method, yyjson_val *params)
{
    abx_epp_request *r = find(p, yyjson_obj_get(params, "stream"));
    if (!r)
        return;
    if (strcmp(method, "cancel") == 0) {
        if (p->handlers->cancel)
            p->handlers->cancel(r, p->data);
    } else if (strcmp(method, "stream.window") == 0) {
        int64_t bytes = abx_json_int(params, "bytes", 0);
        r->window += bytes > 0 ? (uint64_t)bytes : 0;
        if (r->holds && r->window > 0 && p->handlers->resume) {
            r->holds = false;
            p->handlers->resume(r, p->data);
        }
    }
}

static int on_message(yyjson_val *message, void *data, abx_error **err)
{
    abx_epp_plugin *p = data;
    const char *method = abx_json_str(message, "method", NULL);
    yyjson_val *params = yyjson_obj_get(message, "params"), *id = yyjson_obj_get(message, "id");
    if (!method || !yyjson_is_obj(params) || (id && !yyjson_is_uint(id)))
        return abx_fail(err, ABX_ERR_PROVIDER_PROTOCOL, "a message that is no request");
    uint64_t number = yyjson_get_uint(id);
    p->raw_write = 0;
    if (!id)
        on_notification(p, method, params);
    else if (strcmp(method, "initialize") == 0)
        on_initialize(p, number, params);
    else if (!p->greeted)
        answer_error(p, number, ABX_EPP_INVALID_REQUEST, "initialize comes first");
    else if (strcmp(method, "stream.write") == 0)
        on_write(p, number, params);
    else if (strcmp(method, "stream.end") == 0)
        on_stream_end(p, number, params);
    else if (strcmp(method, "shutdown") == 0) {
        answer_empty(p, number);
        if (p->handlers->shutdown)
            p->handlers->shutdown(p->data);
    } else
        on_request(p, number, method, params);
    return 0;
}

/* --- birth and end -------------------------------------------------------------------------------------- */

static const abx_epp_reader_handlers reader_handlers = {.on_message = on_message, .on_raw = on_raw};

abx_epp_plugin *abx_epp_plugin_new(const abx_epp_plugin_handlers *handlers, void *data,
                                   bool want_raw, bool want_flow)
{
    abx_epp_plugin *p = ABX_NEW(abx_epp_plugin);
    p->handlers = handlers;
    p->data = data;
    p->want_raw = want_raw;
    p->want_flow = want_flow;
    abx_epp_reader_init(&p->reader, &reader_handlers, p);
    abx_buf_init(&p->out, SIZE_MAX / 2);
    abx_buf_init(&p->raw_bytes, ABX_EPP_CHUNK_MAX);
    return p;
}

void abx_epp_plugin_free(abx_epp_plugin *p)
{
    if (!p)
        return;
    while (p->requests) {
        abx_epp_request *r = p->requests;
        p->requests = r->next;
        while (r->owed) {
            owed *o = r->owed;
            r->owed = o->next;
            free(o);
        }
        yyjson_doc_free(r->params);
        free(r);
    }
    abx_epp_reader_clear(&p->reader);
    abx_buf_clear(&p->out);
    abx_buf_clear(&p->raw_bytes);
    free(p);
}

int abx_epp_plugin_feed(abx_epp_plugin *p, const void *bytes, size_t n, abx_error **err)
{
    return abx_epp_reader_feed(&p->reader, bytes, n, err);
}
