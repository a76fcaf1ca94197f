/* What a service answered to E2B's own clients (tests/data/recordings/envd/control-*.jsonl): the same question is put by our client,
 * which must ask in the same words and make of the recorded answer what those made of it. */
#include "service_fake.h"

#include "base/text.h"

#define FOLDER ABX_TESTS_DIR "/data/recordings/envd/"

/* One question: the call of ours, and how it goes over the line. */
typedef struct question {
    const char *method;
    char *params, *line; /* owned */
    bool same_body;      /* the recorded body is the one that we send, members in any order */
} question;

static const char *text_of(yyjson_val *obj, const char *key)
{
    return abx_json_str(obj, key, "");
}

/* What our create says in other words, or not at all. */
static bool is_ours(yyjson_val *body)
{
    return !abx_json_get(body, "network") && !abx_json_get(body, "autoResume") &&
           !abx_json_get(body, "memory");
}

static char *create_params(yyjson_val *body)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "template", text_of(body, "templateID"));
    if (abx_json_get(body, "timeout"))
        abx_mut_int(d, root, "timeoutMs", abx_json_int(body, "timeout", 0) * 1000);
    if (!abx_json_bool(body, "allow_internet_access", true))
        abx_mut_str(d, root, "network", "none");
    abx_mut_val(d, root, "metadata", abx_json_get(body, "metadata"));
    abx_mut_val(d, root, "env", abx_json_get(body, "envVars"));
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}

static char *id_of(const char *target, const char *before)
{
    const char *at = strstr(target, before);
    assert_non_null(at);
    at += strlen(before);
    return abx_strndup(at, strcspn(at, "/?"));
}

static char *sandbox_params(const char *target, const char *more)
{
    ABX_AUTO_FREE char *id = id_of(target, "/sandboxes/");
    return abx_format("{\"sandboxId\":\"%s\"%s}", id, more);
}

/* The list is always asked for whole; its filter is the recorded one. */
static void ask_list(question *q, const char *target)
{
    const char *filter = strstr(target, "metadata=");
    size_t n = filter ? strcspn(filter, "&") : 0;
    q->method = "sandbox.list";
    q->params = abx_strdup(filter ? "{\"metadata\":{\"a b\":\"c&d=\xc3\xa9\",\"x\":\"y\"}}" : "{}");
    free(q->line);
    q->line = abx_format("GET /v2/sandboxes?state=running,paused&limit=100%s%.*s",
                         filter ? "&" : "", (int)n, filter ? filter : "");
}

static void ask_about(question *q, const char *target, yyjson_val *body)
{
    static const struct {
        const char *end, *method;
    } rows[] = {{"/pause", "sandbox.pause"},
                {"/metrics", "sandbox.metrics"},
                {"/snapshots", "sandbox.snapshot_create"},
                {"/connect", "sandbox.connect"},
                {"/timeout", "sandbox.set_timeout"}};
    int64_t timeout = abx_json_int(body, "timeout", 0);
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        if (!abx_has_suffix(target, rows[i].end))
            continue;
        ABX_AUTO_FREE char *more =
            timeout ? abx_format(",\"timeoutMs\":%lld", (long long)timeout * 1000) : abx_strdup("");
        q->method = rows[i].method;
        q->params = sandbox_params(target, more);
        /* ours names a time where theirs leaves it to the service */
        q->same_body = body && (timeout || strcmp(rows[i].end, "/connect") != 0);
    }
}

/* False: it is nothing that our client asks. */
static bool make_question(question *q, const char *line, yyjson_val *body)
{
    ABX_AUTO_FREE char *method = abx_strndup(line, strcspn(line, " "));
    const char *at = line + strlen(method) + 1;
    ABX_AUTO_FREE char *target = abx_strndup(at, strcspn(at, " "));
    *q = (question){.line = abx_format("%s %s", method, target)};
    bool get = strcmp(method, "GET") == 0, end = strcmp(method, "DELETE") == 0;
    if (body && !is_ours(body))
        return false;
    if (strcmp(q->line, "POST /v2/sandboxes") == 0) {
        q->method = "sandbox.create";
        q->params = create_params(body);
    } else if (get && abx_has_prefix(target, "/v2/sandboxes")) {
        ask_list(q, target);
    } else if (end && abx_has_prefix(target, "/templates/")) {
        q->method = "sandbox.snapshot_remove";
        q->params = abx_strdup("{\"snapshotId\":\"team/snap:v1\"}");
    } else if (abx_has_prefix(target, "/sandboxes/") && !strchr(target + 11, '/')) {
        q->method = get ? "sandbox.info" : end ? "sandbox.kill" : NULL;
        q->params = sandbox_params(target, "");
    } else if (strstr(target, "/sandboxes/") && !strchr(target, '?')) {
        ask_about(q, target, body);
    }
    return q->method != NULL;
}

/* The id of the error that the recorded client raised, or NULL. */
static const char *wanted_error(int status, const char *method)
{
    if (status == 404)
        return strcmp(method, "sandbox.create") == 0 ? "TEMPLATE_NOT_FOUND" : "SANDBOX_NOT_FOUND";
    if (status == 429)
        return "RATE_LIMIT";
    return NULL;
}

static void compare_bodies(const char *ours, yyjson_val *theirs)
{
    ABX_AUTO_JSON d = yyjson_read(ours, strlen(ours), 0);
    assert_non_null(d);
    if (!yyjson_equals(yyjson_doc_get_root(d), theirs)) {
        ABX_AUTO_FREE char *want = abx_json_text(theirs);
        fail_msg("sent %s instead of %s", ours, want);
    }
}

static void play(const question *q, yyjson_val *record, yyjson_val *body)
{
    yyjson_val *response = abx_json_get(record, "response");
    int status = atoi(strchr(text_of(response, "line"), ' ') + 1);
    const char *want = wanted_error(status, q->method);
    svc s;
    svc_run run;
    svc_open(&s, &abx_e2b_plain);
    /* of a long list the recording holds a part: the question is what counts then */
    const char *body_text = abx_json_get(response, "cut") ? "[]" : text_of(response, "body");
    svc_answer *a = svc_say(&s, q->line, status, body_text);
    if (status == 429) /* it comes again, and is refused for longer than anybody waits */
        a->headers[0] = "Retry-After: 3600";
    bool asks_on = strcmp(q->method, "sandbox.connect") == 0 && !want;
    ABX_AUTO_FREE char *id = asks_on ? id_of(q->line, "/sandboxes/") : NULL;
    ABX_AUTO_FREE char *more = asks_on ? abx_format("GET /sandboxes/%s", id) : NULL;
    if (asks_on)
        svc_say(&s, more, 200, text_of(response, "body"));
    svc_call(&s, &run, q->method, q->params);
    if (want) {
        assert_non_null(run.err);
        assert_string_equal(abx_err_row_of(run.err->id)->name, want);
    } else if (run.err) {
        fail_msg("%s: %s", q->method, run.err->message);
    }
    if (q->same_body)
        compare_bodies(s.requests[0].body, body);
    svc_run_clear(&run);
    svc_close(&s);
}

static size_t play_file(const char *name)
{
    ABX_AUTO_FREE char *path = abx_format(FOLDER "%s", name);
    ABX_AUTO_FREE char *text = kit_read(path);
    char *rest = NULL;
    size_t played = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        ABX_AUTO_JSON d = yyjson_read(line, strlen(line), 0);
        yyjson_val *record = yyjson_doc_get_root(d), *request = abx_json_get(record, "request");
        if (strcmp(text_of(record, "plane"), "control") != 0)
            continue;

        const char *sent = text_of(request, "body");
        ABX_AUTO_JSON body = *sent ? yyjson_read(sent, strlen(sent), 0) : NULL;
        question q;
        if (make_question(&q, text_of(request, "line"), yyjson_doc_get_root(body))) {
            play(&q, record, yyjson_doc_get_root(body));
            played++;
        }
        free(q.params);
        free(q.line);
    }
    return played;
}

static void recorded_in_python(void **state)
{
    assert_int_equal(play_file("control-python.jsonl"), 22);
}

static void recorded_in_javascript(void **state)
{
    assert_int_equal(play_file("control-js.jsonl"), 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_in_python),
        cmocka_unit_test(recorded_in_javascript),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
