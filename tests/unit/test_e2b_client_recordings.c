/* The client of envd against what a real envd answered (tests/data/recordings/envd): each recorded exchange that one
 * of our operations can make is made, its recorded answer is served whole and in small pieces, and what the client
 * makes of it is compared with what stands in the recording. */
#include "envd_fake.h"

#include <dirent.h>

#include "wire/base64.h"

/* What the recording says must come out. */
typedef struct want {
    bool fails;
    const char *message; /* part of the error's text, or NULL */
    bool open_end;       /* the client hung up: cancel when all has arrived */
    int64_t pid;
    bool started, ended, timed_out;
    yyjson_val *end; /* the end event */
    abx_buf out[ABX_CH_COUNT];
    size_t changes;
} want;

typedef struct play {
    const char *file;
    size_t line;
    yyjson_doc *const *lines; /* of the whole file */
    yyjson_val *record, *request, *response;
    const char *path; /* of the request, with query */
    abx_e2b_codec codec;
    const char *method;
    char *params;
    bool abx, stream;
    yyjson_doc *sent; /* the recorded request's message, or NULL */
    abx_buf answer;
    char *message; /* of an error's body */
    want w;
} play;

static size_t played, compared, left_out;

static const char *text_of(yyjson_val *obj, const char *key)
{
    const char *s = yyjson_get_str(yyjson_obj_get(obj, key));
    return s ? s : "";
}

static const char *header_in(yyjson_val *lines, const char *name)
{
    size_t i, n, len = strlen(name);
    yyjson_val *line;
    yyjson_arr_foreach(lines, i, n, line)
    {
        const char *s = yyjson_get_str(line);
        if (strncasecmp(s, name, len) == 0 && s[len] == ':')
            return s + len + 1 + strspn(s + len + 1, " ");
    }
    return NULL;
}

/* A header of a message; a request may name another line that has the same ones. */
static const char *header(const play *p, yyjson_val *message, const char *name)
{
    const char *own = header_in(yyjson_obj_get(message, "headers_own"), name);
    if (!own)
        own = header_in(yyjson_obj_get(message, "headers"), name);
    if (!own && yyjson_obj_get(message, "headers_as_line"))
        own = header(
            p,
            yyjson_obj_get(
                yyjson_doc_get_root(
                    p->lines[yyjson_get_int(yyjson_obj_get(message, "headers_as_line")) - 1]),
                "request"),
            name);
    return own ? own : "";
}

/* --- the answer ------------------------------------------------------------------------------------------- */
static bool add_base64(abx_buf *out, yyjson_val *text)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes =
        abx_base64_bytes(yyjson_get_str(text), yyjson_get_len(text), ABX_BASE64_STANDARD, &n);
    assert_non_null(bytes);
    assert_int_equal(abx_buf_add(out, bytes, n), 0);
    return true;
}

/* The bytes of the body; false: the recording does not hold all of them. */
static bool body_bytes(yyjson_val *message, abx_buf *out)
{
    size_t i, n;
    yyjson_val *frame;
    if (yyjson_obj_get(message, "raw_b64"))
        return add_base64(out, yyjson_obj_get(message, "raw_b64"));
    if (yyjson_obj_get(message, "cut"))
        return false;
    yyjson_arr_foreach(yyjson_obj_get(message, "frames"), i, n, frame)
    {
        ABX_AUTO_BUF b = ABX_BUF(1 << 22);
        if (yyjson_obj_get(frame, "note") || yyjson_obj_get(frame, "cut"))
            return false;
        if (yyjson_obj_get(frame, "b64"))
            add_base64(&b, yyjson_obj_get(frame, "b64"));
        else
            assert_int_equal(abx_json_write(yyjson_obj_get(frame, "json"), &b), 0);
        uint8_t head[5] = {(uint8_t)yyjson_get_int(yyjson_obj_get(frame, "flags")),
                           (uint8_t)(b.len >> 24), (uint8_t)(b.len >> 16), (uint8_t)(b.len >> 8),
                           (uint8_t)b.len};
        assert_int_equal(abx_buf_add(out, head, 5), 0);
        assert_int_equal(abx_buf_add(out, b.data, b.len), 0);
    }
    yyjson_val *body = yyjson_obj_get(message, "body");
    if (body)
        assert_int_equal(abx_buf_add(out, yyjson_get_str(body), yyjson_get_len(body)), 0);
    else if (yyjson_obj_get(message, "body_b64"))
        add_base64(out, yyjson_obj_get(message, "body_b64"));
    return true;
}

/* Head and body as they go over the wire: unpacked, with a framing of our own. */
static bool make_answer(play *p)
{
    ABX_AUTO_BUF body = ABX_BUF(1 << 24);
    size_t i, n;
    yyjson_val *line;
    if (!body_bytes(p->response, &body))
        return false;
    bool open = p->stream && yyjson_obj_get(p->record, "aborted");
    assert_int_equal(abx_buf_addf(&p->answer, "%s\r\n", text_of(p->response, "line")), 0);
    yyjson_arr_foreach(yyjson_obj_get(p->response, "headers"), i, n, line)
    {
        const char *s = yyjson_get_str(line);
        if (strncasecmp(s, "Content-Length", 14) && strncasecmp(s, "Transfer-Encoding", 17) &&
            strncasecmp(s, "Connection", 10) && strncasecmp(s, "Content-Encoding", 16))
            assert_int_equal(abx_buf_addf(&p->answer, "%s\r\n", s), 0);
    }
    if (open) /* ends with the connection, or not at all */
        assert_int_equal(
            abx_buf_addf(&p->answer, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body.len), 0);
    else
        assert_int_equal(abx_buf_addf(&p->answer, "Content-Length: %zu\r\n\r\n", body.len), 0);
    assert_int_equal(abx_buf_add(&p->answer, body.data, body.len), 0);
    if (open)
        assert_int_equal(abx_buf_add_str(&p->answer, "\r\n"), 0);
    return true;
}

/* --- the request --------------------------------------------------------------------------------------------- */
static yyjson_doc *request_message(play *p, abx_e2b_msg msg)
{
    ABX_AUTO_BUF body = ABX_BUF(1 << 24);
    abx_error *err = NULL;
    if (!body_bytes(p->request, &body))
        return NULL;
    const uint8_t *at = body.data;
    size_t n = body.len;
    if (p->stream && n >= 5) {
        size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        if (at[0] != 0 || n < 5 + len)
            return NULL;
        at += 5;
        n = len;
    }
    yyjson_doc *doc = abx_e2b_decode(msg, p->codec, at, n, &err);
    abx_error_free(err);
    return doc;
}

static void put_user(play *p, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    const char *basic = header(p, p->request, "Authorization");
    size_t n = 0;
    if (strncmp(basic, "Basic ", 6) != 0)
        return;
    ABX_AUTO_FREE char *user =
        (char *)abx_base64_bytes(basic + 6, strlen(basic + 6), ABX_BASE64_STANDARD, &n);
    if (!user)
        return;
    user[strcspn(user, ":")] = 0;
    abx_mut_str(d, root, "user", user);
}

static void put_process_id(yyjson_mut_doc *d, yyjson_mut_val *root, const char *key,
                           yyjson_val *sent)
{
    ABX_AUTO_FREE char *id =
        abx_format("%lld", (long long)abx_json_int(yyjson_obj_get(sent, "process"), "pid", 1));
    abx_mut_str(d, root, key, id);
}

static bool put_start(play *p, yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *sent)
{
    yyjson_val *config = yyjson_obj_get(sent, "process"), *pty = yyjson_obj_get(sent, "pty"), *word;
    size_t i, n;
    uint64_t limit = 0;
    if (!*abx_json_str(config, "cmd", ""))
        return false;
    p->method = pty ? "pty.open" : "process.start";
    yyjson_mut_val *cmd = abx_mut_arr(d, root, "cmd");
    yyjson_mut_arr_add_strcpy(d, cmd, abx_json_str(config, "cmd", ""));
    yyjson_arr_foreach(yyjson_obj_get(config, "args"), i, n, word)
    {
        yyjson_mut_arr_add_strcpy(d, cmd, yyjson_get_str(word));
    }
    if (yyjson_obj_get(config, "envs"))
        abx_mut_val(d, root, "env", yyjson_obj_get(config, "envs"));
    abx_mut_str(d, root, "cwd", abx_json_str(config, "cwd", NULL));
    if (pty) {
        abx_mut_int(d, root, "cols", abx_json_int(yyjson_obj_get(pty, "size"), "cols", 0));
        abx_mut_int(d, root, "rows", abx_json_int(yyjson_obj_get(pty, "size"), "rows", 0));
    } else if (abx_json_bool(sent, "stdin", true)) {
        abx_mut_str(d, root, "stdin", "stream");
    }
    const char *timeout = header(p, p->request, "Connect-Timeout-Ms");
    char *end = NULL;
    limit = strtoull(timeout, &end, 10);
    if (*timeout && !*end && limit > 0 && strlen(timeout) <= 10)
        abx_mut_int(d, root, "timeoutMs", (int64_t)limit);
    return true;
}

typedef struct route {
    const char *path;
    abx_e2b_msg msg;
    const char *method, *path_param;
    bool stream;
} route;

static const route routes[] = {
    {"/process.Process/Start", ABX_E2B_START_REQUEST, NULL, NULL, true},
    {"/process.Process/Connect", ABX_E2B_CONNECT_REQUEST, "process.attach", NULL, true},
    {"/process.Process/StreamInput", ABX_E2B_STREAM_INPUT_REQUEST, "process.stdin", NULL, true},
    {"/process.Process/SendInput", ABX_E2B_SEND_INPUT_REQUEST, NULL, NULL, false},
    {"/process.Process/CloseStdin", ABX_E2B_CLOSE_STDIN_REQUEST, "process.close_stdin", NULL,
     false},
    {"/process.Process/SendSignal", ABX_E2B_SEND_SIGNAL_REQUEST, "process.signal", NULL, false},
    {"/process.Process/List", ABX_E2B_LIST_REQUEST, "process.list", NULL, false},
    {"/process.Process/Update", ABX_E2B_UPDATE_REQUEST, "pty.resize", NULL, false},
    {"/filesystem.Filesystem/Stat", ABX_E2B_STAT_REQUEST, "fs.stat", "path", false},
    {"/filesystem.Filesystem/ListDir", ABX_E2B_LIST_DIR_REQUEST, "fs.list", "path", false},
    {"/filesystem.Filesystem/MakeDir", ABX_E2B_MAKE_DIR_REQUEST, "fs.make_dir", "path", false},
    {"/filesystem.Filesystem/Remove", ABX_E2B_REMOVE_REQUEST, "fs.remove", "path", false},
    {"/filesystem.Filesystem/Move", ABX_E2B_MOVE_REQUEST, "fs.rename", NULL, false},
    {"/filesystem.Filesystem/WatchDir", ABX_E2B_WATCH_DIR_REQUEST, "fs.watch", "path", true},
};

static bool put_params(play *p, const route *r, yyjson_mut_doc *d, yyjson_mut_val *root,
                       yyjson_val *sent)
{
    put_user(p, d, root);
    p->method = r->method;
    if (r->path_param) {
        abx_mut_str(d, root, "path", "");
        if (yyjson_obj_get(sent, "path"))
            abx_mut_val(d, root, "path", yyjson_obj_get(sent, "path"));
        if (abx_json_bool(sent, "recursive", false))
            abx_mut_bool(d, root, "recursive", true);
        if (r->msg == ABX_E2B_LIST_DIR_REQUEST && abx_json_int(sent, "depth", 0) > 0)
            abx_mut_int(d, root, "depth", abx_json_int(sent, "depth", 0));
        return true;
    }
    switch (r->msg) {
    case ABX_E2B_START_REQUEST: return put_start(p, d, root, sent);
    case ABX_E2B_LIST_REQUEST: return true;
    case ABX_E2B_MOVE_REQUEST:
        abx_mut_str(d, root, "from", abx_json_str(sent, "source", ""));
        abx_mut_str(d, root, "to", abx_json_str(sent, "destination", ""));
        return true;
    case ABX_E2B_SEND_INPUT_REQUEST: {
        bool pty = yyjson_obj_get(yyjson_obj_get(sent, "input"), "pty") != NULL;
        p->method = pty ? "pty.write" : "process.stdin";
        put_process_id(d, root, pty ? "ptyId" : "processId", sent);
        return true;
    }
    case ABX_E2B_UPDATE_REQUEST: {
        yyjson_val *size = yyjson_obj_get(yyjson_obj_get(sent, "pty"), "size");
        put_process_id(d, root, "ptyId", sent);
        abx_mut_int(d, root, "cols", abx_json_int(size, "cols", 1));
        abx_mut_int(d, root, "rows", abx_json_int(size, "rows", 1));
        return true;
    }
    case ABX_E2B_SEND_SIGNAL_REQUEST:
        abx_mut_str(d, root, "signal",
                    strcmp(abx_json_str(sent, "signal", ""), "SIGNAL_SIGKILL") == 0   ? "KILL"
                    : strcmp(abx_json_str(sent, "signal", ""), "SIGNAL_SIGTERM") == 0 ? "TERM"
                                                                                      : "INT");
        break;
    case ABX_E2B_STREAM_INPUT_REQUEST:
        p->abx = true; /* it is our dialect that streams */
        sent = yyjson_obj_get(sent, "start");
        break;
    default: break;
    }
    put_process_id(d, root, "processId", sent);
    return true;
}

static char *unescape(const char *s, size_t n)
{
    char *out = abx_alloc(n + 1), *to = out;
    for (size_t i = 0; i < n; i++) {
        char two[3] = {s[i], 0, 0};
        if (s[i] == '%' && i + 2 < n) {
            two[0] = s[i + 1];
            two[1] = s[i + 2];
            *to++ = (char)strtoul(two, NULL, 16);
            i += 2;
        } else {
            *to++ = s[i] == '+' ? ' ' : s[i];
        }
    }
    return out;
}

static void put_query(play *p, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    const char *q = strchr(p->path, '?');
    abx_mut_str(d, root, "path", "x");
    for (q = q ? q + 1 : ""; *q && *q != ' '; q += *q == '&') {
        size_t n = strcspn(q, "& "), eq = strcspn(q, "=");
        ABX_AUTO_FREE char *value = eq < n ? unescape(q + eq + 1, n - eq - 1) : abx_strdup("");
        if (eq == 4 && strncmp(q, "path", 4) == 0)
            abx_mut_str(d, root, "path", value);
        if (eq == 8 && strncmp(q, "username", 8) == 0)
            abx_mut_str(d, root, "user", value);
        q += n;
    }
}

/* The operation that makes this request. False: none of ours does, or the recording lacks parts of it. */
static bool make_call(play *p)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", "s");
    const char *line = text_of(p->request, "line"), *type = header(p, p->request, "Content-Type");
    p->path = strchr(line, ' ') + 1;
    p->codec = strstr(type, "proto") && !strstr(type, "grpc") ? ABX_E2B_PROTO : ABX_E2B_JSON;
    size_t n = strcspn(p->path, " ?");
    if (n == 6 && strncmp(p->path, "/files", 6) == 0 &&
        (line[0] == 'G' || strncmp(line, "POST", 4) == 0)) {
        p->method = line[0] == 'G' ? "fs.read" : "fs.write";
        put_query(p, d, root);
        p->params = yyjson_mut_write(d, 0, NULL);
        return true;
    }
    for (size_t i = 0; i < ABX_COUNT(routes); i++) {
        const route *r = routes + i;
        if (strlen(r->path) != n || strncmp(r->path, p->path, n) != 0 ||
            strncmp(line, "POST", 4) != 0)
            continue;
        p->stream = r->stream;
        p->sent = request_message(p, r->msg);
        if (!p->sent || !put_params(p, r, d, root, yyjson_doc_get_root(p->sent)))
            return false;
        p->params = yyjson_mut_write(d, 0, NULL);
        return true;
    }
    return false;
}

/* --- what must come out ------------------------------------------------------------------------------------------ */
static void want_data(want *w, yyjson_val *data)
{
    static const char *const names[] = {"stdout", "stderr", "pty"};
    for (size_t i = 0; i < 3; i++)
        if (yyjson_obj_get(data, names[i]))
            add_base64(&w->out[i], yyjson_obj_get(data, names[i]));
}

static void want_message(play *p, yyjson_val *m)
{
    want *w = &p->w;
    yyjson_val *event = yyjson_obj_get(m, "event"), *end = yyjson_obj_get(event, "end");
    if (yyjson_obj_get(event, "start")) {
        w->started = true;
        w->pid = abx_json_int(yyjson_obj_get(event, "start"), "pid", 0);
    }
    if (yyjson_obj_get(m, "start"))
        w->started = true;
    if (yyjson_obj_get(m, "filesystem"))
        w->changes++;
    want_data(w, yyjson_obj_get(event, "data"));
    if (end)
        w->end = end;
}

static void want_stream(play *p, yyjson_doc **docs)
{
    want *w = &p->w;
    size_t i, n;
    yyjson_val *frame;
    yyjson_arr_foreach(yyjson_obj_get(p->response, "frames"), i, n, frame)
    {
        int64_t flags = yyjson_get_int(yyjson_obj_get(frame, "flags"));
        yyjson_val *json = yyjson_obj_get(frame, "json");
        if (flags & 1) { /* not offered */
            w->fails = true;
            return;
        }
        if (!json) {
            ABX_AUTO_BUF b = ABX_BUF(1 << 22);
            abx_error *err = NULL;
            add_base64(&b, yyjson_obj_get(frame, "b64"));
            docs[i] = abx_e2b_decode(ABX_E2B_START_RESPONSE, p->codec, b.data, b.len, &err);
            abx_error_free(err);
            json = yyjson_doc_get_root(docs[i]);
        }
        if (flags & 2) {
            yyjson_val *error = yyjson_obj_get(json, "error");
            w->ended = true;
            if (error && strcmp(abx_json_str(error, "code", ""), "deadline_exceeded") == 0 &&
                w->started && strstr(p->params, "timeoutMs")) {
                w->timed_out = true;
            } else if (error) {
                w->fails = true;
                w->message = abx_json_str(error, "message", NULL);
            }
        } else {
            want_message(p, json);
        }
    }
    bool hung_up = yyjson_obj_get(p->record, "client_closed_ms") != NULL;
    if (!w->ended && !w->end) {
        w->open_end = hung_up;
        w->fails = true;
    }
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */
static size_t count_lines(const fake_run *run, const char *start)
{
    size_t n = 0;
    for (const char *p = abx_buf_cstr(&run->events); p && *p;
         p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        n += strncmp(p, start, strlen(start)) == 0;
    return n;
}

static bool all_arrived(const play *p, const fake_run *run)
{
    const want *w = &p->w;
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        if (run->out[i].len < w->out[i].len)
            return false;
    return (!w->started || count_lines(run, "started ")) &&
           count_lines(run, "change ") >= w->changes;
}

static void compare_stream(const play *p, const fake_run *run)
{
    const want *w = &p->w;
    assert_int_equal(count_lines(run, "started "), w->started);
    assert_int_equal(count_lines(run, "change "), w->changes);
    for (size_t i = 0; i < ABX_CH_COUNT; i++) {
        assert_int_equal(run->out[i].len, w->out[i].len);
        assert_true(w->out[i].len == 0 ||
                    memcmp(run->out[i].data, w->out[i].data, w->out[i].len) == 0);
    }
    if (w->started && w->pid > 0) {
        ABX_AUTO_FREE char *started = abx_format("started {\"id\":\"%lld\",\"pid\":%lld}",
                                                 (long long)w->pid, (long long)w->pid);
        assert_non_null(strstr(abx_buf_cstr(&run->events), started));
    }
    if (w->timed_out)
        assert_non_null(strstr(run->result, "\"timedOut\":true"));
    if (!w->end)
        return;
    ABX_AUTO_FREE char *code =
        abx_format("\"exitCode\":%lld", (long long)abx_json_int(w->end, "exitCode", 0));
    bool exited = abx_json_bool(w->end, "exited", false);
    assert_non_null(strstr(run->result, exited ? code : "\"signal\":\"SIG"));
    assert_int_equal(count_lines(run, "exit "), 1);
}

static void compare_unary(const play *p, const fake_run *run, yyjson_val *body)
{
    ABX_AUTO_JSON result = yyjson_read(run->result, strlen(run->result), 0);
    yyjson_val *root = yyjson_doc_get_root(result), *entry = yyjson_obj_get(body, "entry");
    if (strcmp(p->method, "fs.stat") == 0) {
        assert_string_equal(abx_json_str(root, "path", ""), abx_json_str(entry, "path", "?"));
        assert_int_equal(abx_json_int(root, "size", -1),
                         strtoll(abx_json_str(entry, "size", "0"), NULL, 10));
        assert_string_equal(abx_json_str(root, "owner", ""), abx_json_str(entry, "owner", "?"));
    } else if (strcmp(p->method, "fs.list") == 0) {
        assert_int_equal(yyjson_arr_size(yyjson_obj_get(root, "files")),
                         yyjson_arr_size(yyjson_obj_get(body, "entries")));
    } else if (strcmp(p->method, "process.list") == 0) {
        assert_int_equal(yyjson_arr_size(yyjson_obj_get(root, "processes")),
                         yyjson_arr_size(yyjson_obj_get(body, "processes")));
    } else if (strcmp(p->method, "fs.write") == 0) {
        assert_string_equal(abx_json_str(root, "path", ""),
                            abx_json_str(yyjson_arr_get_first(body), "path", "?"));
    }
}

/* Our request is the recorded one, where both say the same things. */
static void compare_request(const play *p, const fake *f)
{
    abx_error *err = NULL;
    if (!p->sent || p->abx || p->codec != ABX_E2B_JSON)
        return;
    const route *r = NULL;
    for (size_t i = 0; i < ABX_COUNT(routes); i++)
        if (strncmp(p->path, routes[i].path, strcspn(p->path, " ")) == 0)
            r = routes + i;
    size_t skip = r->stream ? 5 : 0;
    yyjson_val *want_root = yyjson_doc_get_root(p->sent);
    if (strcmp(p->method, "pty.open") == 0 || yyjson_obj_get(want_root, "tag") ||
        strstr(p->params, "\"INT\"") ||
        yyjson_obj_get(yyjson_obj_get(want_root, "process"), "tag") ||
        yyjson_obj_get(want_root, "includeEntry"))
        return;
    if (strstr(p->params, "Id\":\"1\"") ||
        (r->msg == ABX_E2B_UPDATE_REQUEST && !yyjson_obj_get(want_root, "pty")))
        return;                              /* no process was named, no size */
    if (strstr(fake_body(f, 0), "\"eA==\"")) /* our own byte for an empty input */
        return;
    ABX_AUTO_JSON got = abx_e2b_decode(r->msg, ABX_E2B_JSON, fake_body(f, 0) + skip,
                                       f->requests[0]->body.len - skip, &err);
    assert_non_null(got);
    yyjson_mut_doc *d = yyjson_doc_mut_copy(p->sent, NULL);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
    if (r->msg == ABX_E2B_START_REQUEST) {
        yyjson_mut_val *config = yyjson_mut_obj_get(root, "process");
        if (!yyjson_mut_obj_get(root, "stdin"))
            yyjson_mut_obj_add_bool(d, root, "stdin", true);
        if (!yyjson_mut_obj_get(config, "args"))
            yyjson_mut_obj_add_arr(d, config, "args");
        if (yyjson_mut_obj_size(yyjson_mut_obj_get(config, "envs")) == 0)
            yyjson_mut_obj_remove_key(config, "envs");
        if (!*abx_json_str(yyjson_obj_get(want_root, "process"), "cwd", ""))
            yyjson_mut_obj_remove_key(config, "cwd");
    }
    if (r->msg == ABX_E2B_LIST_DIR_REQUEST && abx_json_int(want_root, "depth", 0) == 0) {
        yyjson_mut_obj_remove_key(root, "depth");
        yyjson_mut_obj_add_uint(d, root, "depth", 1);
    }
    if (r->path_param && !yyjson_mut_obj_get(root, "path"))
        yyjson_mut_obj_add_str(d, root, "path", "");
    if (!abx_json_bool(want_root, "recursive", false))
        yyjson_mut_obj_remove_key(root, "recursive");
    ABX_AUTO_JSON normal = abx_json_freeze(d);
    yyjson_mut_doc_free(d);
    if (!yyjson_equals(yyjson_doc_get_root(normal), yyjson_doc_get_root(got))) {
        ABX_AUTO_FREE char *a = abx_json_text(yyjson_doc_get_root(normal));
        ABX_AUTO_FREE char *b = abx_json_text(yyjson_doc_get_root(got));
        fail_msg("sent %s, recorded %s", b, a);
    }
    compared++;
}

static void assert_message(const play *p, const fake_run *run)
{
    if (!p->w.message)
        return;
    ABX_AUTO_FREE char *start = abx_strndup(p->w.message, strcspn(p->w.message, "\n\r\t\\"));
    if (!strstr(run->err->message, start))
        fail_msg("the error is '%s', recorded '%s'", run->err->message, p->w.message);
}

/* --- playing --------------------------------------------------------------------------------------------------------- */
static void give_input(play *p, fake_run *run)
{
    yyjson_val *input = yyjson_obj_get(yyjson_doc_get_root(p->sent), "input");
    bool body = strcmp(p->method, "fs.write") == 0;
    if (!run->call ||
        (!body && strcmp(p->method, "process.stdin") != 0 && strcmp(p->method, "pty.write") != 0))
        return;
    ABX_AUTO_BUF bytes = ABX_BUF(1 << 24);
    yyjson_val *text = yyjson_obj_get(input, "stdin") ? yyjson_obj_get(input, "stdin")
                                                      : yyjson_obj_get(input, "pty");
    if (text)
        add_base64(&bytes, text);
    if (body || p->abx || bytes.len == 0)
        assert_int_equal(abx_buf_add_str(&bytes, "x"), 0);
    (void)abx_call_write(run->call, bytes.data, bytes.len);
    abx_call_write_end(run->call);
}

static void run_once(play *p, size_t piece)
{
    static const char killed[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    fake f;
    fake_run run;
    fake_open(&f, p->codec, p->abx);
    fake_answer *a = fake_say(&f, p->answer.data, p->answer.len);
    a->piece = piece;
    a->close = yyjson_obj_get(p->record, "aborted") && !p->w.open_end;
    fake_say(&f, killed, strlen(killed)); /* for the kill that follows a cancel */
    fake_start(&f, &run, p->method, p->params);
    give_input(p, &run);
    while (p->w.open_end && run.ends == 0 && !all_arrived(p, &run))
        uv_run(&f.loop, UV_RUN_ONCE);
    if (p->w.open_end && run.call)
        abx_call_cancel(run.call);
    fake_wait(&run);
    if (p->w.fails) {
        if (!run.err)
            fail_msg("no error, but %s", run.result);
        if (f.request_count > 0)
            assert_message(p, &run);
    } else if (run.err) {
        fail_msg("%s", run.err->message);
    }
    if (p->stream && !p->abx && yyjson_obj_get(p->response, "frames") && !p->w.message)
        compare_stream(p, &run);
    if (!run.err && !p->stream && strcmp(p->method, "fs.read") != 0) {
        const char *body = text_of(p->response, "body");
        ABX_AUTO_JSON doc = yyjson_read(body, strlen(body), 0);
        if (doc)
            compare_unary(p, &run, yyjson_doc_get_root(doc));
    }
    if (!run.err && strcmp(p->method, "fs.read") == 0) {
        ABX_AUTO_BUF body = ABX_BUF(1 << 24);
        assert_true(body_bytes(p->response, &body));
        assert_int_equal(run.out[ABX_CH_BODY].len, body.len);
        assert_true(body.len == 0 || memcmp(body.data, run.out[ABX_CH_BODY].data, body.len) == 0);
    }
    if (f.request_count > 0 && piece == 0)
        compare_request(p, &f);
    fake_run_clear(&run);
    fake_close(&f);
}

static void want_plain(play *p, int status)
{
    yyjson_val *body = yyjson_obj_get(p->response, "body");
    ABX_AUTO_JSON doc = body ? yyjson_read(yyjson_get_str(body), yyjson_get_len(body), 0) : NULL;
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *type = header(p, p->response, "Content-Type");
    p->w.fails = status != 200;
    if (p->sent &&
        strncmp(type, p->codec == ABX_E2B_PROTO ? "application/proto" : "application/json", 16) !=
            0)
        p->w.fails = true;
    if (strcmp(p->method, "fs.write") == 0 && yyjson_arr_size(root) == 0)
        p->w.fails = true; /* no file at all was in the upload */
    if (strcmp(p->method, "fs.make_dir") == 0 && status == 409)
        p->w.fails = false;
    p->w.message = p->message = p->w.fails ? abx_strdup(abx_json_str(root, "message", NULL)) : NULL;
}

static void play_line(const char *file, size_t line, yyjson_doc *const *lines)
{
    yyjson_val *record = yyjson_doc_get_root(lines[line]);
    play p = {.file = file, .line = line, .lines = lines, .record = record};
    yyjson_doc *docs[64] = {NULL};
    p.request = yyjson_obj_get(record, "request");
    p.response = yyjson_obj_get(record, "response");
    abx_buf_init(&p.answer, 1 << 25);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_init(&p.w.out[i], 1 << 24);
    int status = atoi(
        strchr(text_of(p.response, "line"), ' ') ? strchr(text_of(p.response, "line"), ' ') : "0");
    if (yyjson_obj_get(record, "plane") || !make_call(&p) || !make_answer(&p)) {
        left_out++;
    } else {
        bool is_stream =
            p.stream && status == 200 &&
            strncmp(header(&p, p.response, "Content-Type"), "application/connect", 19) == 0;
        if (is_stream)
            want_stream(&p, docs);
        else
            want_plain(&p, status);
        if (getenv("ABX_TEST_VERBOSE"))
            print_message("%s:%zu %s %s\n", file, line + 1, p.method, p.params);
        run_once(&p, 0);
        run_once(&p, 11);
        played++;
    }
    for (size_t i = 0; i < ABX_COUNT(docs); i++)
        yyjson_doc_free(docs[i]);
    for (size_t i = 0; i < ABX_CH_COUNT; i++)
        abx_buf_clear(&p.w.out[i]);
    abx_buf_clear(&p.answer);
    yyjson_doc_free(p.sent);
    free(p.params);
    free(p.message);
}

static void play_file(const char *name)
{
    ABX_AUTO_FREE char *path = abx_format("%s/data/recordings/envd/%s", ABX_TESTS_DIR, name);
    ABX_AUTO_FREE char *text = kit_read(path);
    yyjson_doc *lines[256] = {NULL};
    size_t count = 0;
    for (char *p = text; *p; p += *p == '\n') {
        size_t n = strcspn(p, "\n");
        assert_true(count < ABX_COUNT(lines));
        lines[count] = yyjson_read(p, n, 0);
        assert_non_null(lines[count]);
        count++;
        p += n;
    }
    for (size_t i = 0; i < count; i++)
        play_line(name, i, lines);
    for (size_t i = 0; i < count; i++)
        yyjson_doc_free(lines[i]);
}

static void recordings(void **state)
{
    DIR *dir = opendir(ABX_TESTS_DIR "/data/recordings/envd");
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (strstr(e->d_name, ".jsonl"))
            play_file(e->d_name);
    closedir(dir);
    print_message("%zu exchanges played twice, %zu requests compared, %zu left out (not ours, or "
                  "not whole)\n",
                  played, compared, left_out);
    assert_true(played > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recordings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
