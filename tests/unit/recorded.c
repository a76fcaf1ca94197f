#include "recorded.h"

#include "wire/base64.h"

const char *recorded_text(yyjson_val *obj, const char *key)
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

const char *recorded_header(const play *p, yyjson_val *message, const char *name)
{
    const char *own = header_in(yyjson_obj_get(message, "headers_own"), name);
    if (!own)
        own = header_in(yyjson_obj_get(message, "headers"), name);
    if (!own && yyjson_obj_get(message, "headers_as_line"))
        own = recorded_header(
            p,
            yyjson_obj_get(
                yyjson_doc_get_root(
                    p->lines[yyjson_get_int(yyjson_obj_get(message, "headers_as_line")) - 1]),
                "request"),
            name);
    return own ? own : "";
}

/* --- the answer ------------------------------------------------------------------------------------------- */
bool recorded_base64(abx_buf *out, yyjson_val *text)
{
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes =
        abx_base64_bytes(yyjson_get_str(text), yyjson_get_len(text), ABX_BASE64_STANDARD, &n);
    assert_non_null(bytes);
    assert_int_equal(abx_buf_add(out, bytes, n), 0);
    return true;
}

bool recorded_body(yyjson_val *message, abx_buf *out)
{
    size_t i, n;
    yyjson_val *frame;
    if (yyjson_obj_get(message, "raw_b64"))
        return recorded_base64(out, yyjson_obj_get(message, "raw_b64"));
    if (yyjson_obj_get(message, "cut"))
        return false;
    yyjson_arr_foreach(yyjson_obj_get(message, "frames"), i, n, frame)
    {
        ABX_AUTO_BUF b = ABX_BUF(1 << 22);
        if (yyjson_obj_get(frame, "note") || yyjson_obj_get(frame, "cut"))
            return false;
        if (yyjson_obj_get(frame, "b64"))
            recorded_base64(&b, yyjson_obj_get(frame, "b64"));
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
        recorded_base64(out, yyjson_obj_get(message, "body_b64"));
    return true;
}

bool play_answer(play *p)
{
    ABX_AUTO_BUF body = ABX_BUF(1 << 24);
    size_t i, n;
    yyjson_val *line;
    if (!recorded_body(p->response, &body))
        return false;
    bool open = p->stream && yyjson_obj_get(p->record, "aborted");
    assert_int_equal(abx_buf_addf(&p->answer, "%s\r\n", recorded_text(p->response, "line")), 0);
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
    if (!recorded_body(p->request, &body))
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
    const char *basic = recorded_header(p, p->request, "Authorization");
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
    const char *timeout = recorded_header(p, p->request, "Connect-Timeout-Ms");
    char *end = NULL;
    limit = strtoull(timeout, &end, 10);
    if (*timeout && !*end && limit > 0 && strlen(timeout) <= 10)
        abx_mut_int(d, root, "timeoutMs", (int64_t)limit);
    return true;
}

static const play_route routes[] = {
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

static bool put_params(play *p, const play_route *r, yyjson_mut_doc *d, yyjson_mut_val *root,
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

bool play_call(play *p)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "sandboxId", "s");
    const char *line = recorded_text(p->request, "line"),
               *type = recorded_header(p, p->request, "Content-Type");
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
        const play_route *r = routes + i;
        if (strlen(r->path) != n || strncmp(r->path, p->path, n) != 0 ||
            strncmp(line, "POST", 4) != 0)
            continue;
        p->route = r;
        p->stream = r->stream;
        p->sent = request_message(p, r->msg);
        if (!p->sent || !put_params(p, r, d, root, yyjson_doc_get_root(p->sent)))
            return false;
        p->params = yyjson_mut_write(d, 0, NULL);
        return true;
    }
    return false;
}
