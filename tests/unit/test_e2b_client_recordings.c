/* The client of envd against what a real envd answered (tests/data/recordings/envd): each recorded exchange that one
 * of our operations can make is made, its recorded answer is served whole and in small pieces, and what the client
 * makes of it is compared with what stands in the recording. */
#include "envd_fake.h"
#include "recorded.h"

#include <dirent.h>

static size_t played, compared, left_out;

/* --- what must come out ------------------------------------------------------------------------------------------ */
static void want_data(want *w, yyjson_val *data)
{
    static const char *const names[] = {"stdout", "stderr", "pty"};
    for (size_t i = 0; i < 3; i++)
        if (yyjson_obj_get(data, names[i]))
            recorded_base64(&w->out[i], yyjson_obj_get(data, names[i]));
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
            recorded_base64(&b, yyjson_obj_get(frame, "b64"));
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
    const play_route *r = p->route;
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
        recorded_base64(&bytes, text);
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
        const char *body = recorded_text(p->response, "body");
        ABX_AUTO_JSON doc = yyjson_read(body, strlen(body), 0);
        if (doc)
            compare_unary(p, &run, yyjson_doc_get_root(doc));
    }
    if (!run.err && strcmp(p->method, "fs.read") == 0) {
        ABX_AUTO_BUF body = ABX_BUF(1 << 24);
        assert_true(recorded_body(p->response, &body));
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
    const char *type = recorded_header(p, p->response, "Content-Type");
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
    int status = atoi(strchr(recorded_text(p.response, "line"), ' ')
                          ? strchr(recorded_text(p.response, "line"), ' ')
                          : "0");
    if (yyjson_obj_get(record, "plane") || !play_call(&p) || !play_answer(&p)) {
        left_out++;
    } else {
        bool is_stream = p.stream && status == 200 &&
                         strncmp(recorded_header(&p, p.response, "Content-Type"),
                                 "application/connect", 19) == 0;
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
