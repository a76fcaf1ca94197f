/* The client of the code interpreter against a server that answers with lines of any kind in any order, cut anywhere: the call
 * ends exactly once, and the connection's memory with it. */
#include "client_rig.h"

typedef struct answer {
    client_rig rig;
    bool chunked;
} answer;

static void send_body(answer *a, const abx_buf *bytes)
{
    ABX_AUTO_BUF chunk = ABX_BUF(1 << 20);
    if (!a->chunked) {
        client_feed(&a->rig, bytes->data, bytes->len);
        return;
    }
    ABX_CHECK(abx_buf_addf(&chunk, "%zx\r\n", bytes->len) == 0);
    ABX_CHECK(abx_buf_add(&chunk, bytes->data, bytes->len) == 0);
    ABX_CHECK(abx_buf_add_str(&chunk, "\r\n") == 0);
    client_feed(&a->rig, chunk.data, chunk.len);
}

static void send_head(answer *a, picks *p)
{
    static const char *const status[] = {
        "200 OK",    "200 OK",   "200 OK",       "404 Not Found", "422 Bad",   "429 Many",
        "500 Error", "501 None", "409 Conflict", "101 Switching", "302 Moved", "204 No Content"};
    static const char *const types[] = {"application/x-ndjson", "application/json", "text/html"};
    ABX_AUTO_BUF head = ABX_BUF(4096);
    a->chunked = pick(p, 3) != 0;
    ABX_CHECK(abx_buf_addf(&head, "HTTP/1.1 %s\r\nContent-Type: %s\r\n%s\r\n",
                           status[pick(p, ABX_COUNT(status))], types[pick(p, ABX_COUNT(types))],
                           a->chunked ? "Transfer-Encoding: chunked\r\n" : "") == 0);
    client_feed(&a->rig, head.data, head.len);
}

static void add_members(picks *p, abx_buf *line)
{
    static const char *const names[] = {
        "text",         "abxBase64",       "html",       "png",      "json",
        "extra",        "is_main_result",  "name",       "value",    "traceback",
        "abxExitCode",  "execution_count", "abxContext", "abxFresh", "abxTimedOut",
        "abxStateLost", "abxLanguage",     "id",         "language", "cwd",
        "message",      "interrupted"};
    static const char *const plain[] = {
        "1", "-1", "1e400", "true", "null", "[]", "{}", "[[[[1]]]]", "99999999999999999999"};
    static const char *const texts[] = {"aGVsbG8=", "x",       "",
                                        "\\ud800",  "\\u0000", "Context c1 not found"};
    for (size_t i = 0, n = pick(p, 5); i < n; i++) {
        ABX_CHECK(abx_buf_addf(line, ",\"%s\":", names[pick(p, ABX_COUNT(names))]) == 0);
        if (pick(p, 3) == 0) {
            ABX_CHECK(abx_buf_add_str(line, plain[pick(p, ABX_COUNT(plain))]) == 0);
            continue;
        }
        ABX_CHECK(abx_buf_add_byte(line, '"') == 0);
        pick_json_text(p, texts, ABX_COUNT(texts), line);
        ABX_CHECK(abx_buf_add_byte(line, '"') == 0);
    }
}

static void send_line(answer *a, picks *p)
{
    static const char *const types[] = {"stdout", "stderr",          "result",
                                        "error",  "keepalive",       "number_of_executions",
                                        "later",  "end_of_execution"};
    static const char *const ends[] = {"}\n", "}\n", "}\n", "}\r\n", "}", "\n", "}}\n"};
    ABX_AUTO_BUF line = ABX_BUF(1 << 16);
    size_t type = pick(p, ABX_COUNT(types) * 2); /* the end comes seldom */
    ABX_CHECK(abx_buf_addf(
                  &line, "{\"type\":\"%s\"",
                  types[type % ABX_COUNT(types) == 7 && type < 8 ? 0 : type % ABX_COUNT(types)]) ==
              0);
    add_members(p, &line);
    ABX_CHECK(abx_buf_add_str(&line, ends[pick(p, ABX_COUNT(ends))]) == 0);
    send_body(a, &line);
}

static void send_raw(answer *a, picks *p)
{
    ABX_AUTO_BUF raw = ABX_BUF(4096);
    size_t n = 0;
    const uint8_t *bytes = pick_bytes(p, &n);
    ABX_CHECK(abx_buf_add(&raw, bytes, n) == 0);
    if (pick(p, 2))
        client_feed(&a->rig, raw.data, raw.len);
    else if (raw.len > 0)
        send_body(a, &raw);
}

static void act(answer *a, picks *p)
{
    switch (pick(p, 10)) {
    case 0: send_raw(a, p); break;
    case 1:
        if (a->chunked)
            client_feed(&a->rig, "0\r\n\r\n", 5);
        break;
    case 2:
        if (pick(p, 6) == 0)
            abx_close_fd(client_peer(&a->rig));
        break;
    case 3:
        if (a->rig.call && pick(p, 20) == 0)
            abx_call_cancel(a->rig.call);
        break;
    case 4: a->rig.pauses = pick(p, 2); break;
    default: send_line(a, p); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *method, *params;
    } calls[] = {
        {"code.run", "{\"code\":\"1+1\"}"},
        {"code.run", "{\"code\":\"1+1\",\"language\":\"bash\",\"env\":{\"A\":\"b\"}}"},
        {"code.run", "{\"code\":\"1+1\",\"contextId\":\"c1\",\"timeoutMs\":1000}"},
        {"code.context_create", "{\"language\":\"python\"}"},
        {"code.context_list", "{}"},
        {"code.context_restart", "{\"contextId\":\"c1\"}"},
        {"code.context_remove", "{\"contextId\":\"c/1\"}"},
        {"code.interrupt", "{\"contextId\":\"c1\"}"},
    };
    answer a = {0};
    picks p = {data, size};
    size_t call = pick(&p, ABX_COUNT(calls));
    client_open(&a.rig, pick(&p, 3) != 0);
    if (client_start(&a.rig, calls[call].method, calls[call].params) == 0) {
        client_turn(&a.rig);
        send_head(&a, &p);
        for (int i = 0; i < 200 && p.left > 0; i++)
            act(&a, &p);
    }
    client_close(&a.rig);
    return 0;
}
