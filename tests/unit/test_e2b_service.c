/* A service of E2B's shape as a provider: routes and their order, what is sent, what comes of the answers. */
#include "service_fake.h"

#define MADE                                                                                       \
    "{\"templateID\":\"base\",\"sandboxID\":\"i1\",\"clientID\":\"6532622b\",\"envdVersion\":"     \
    "\"0.6.13\",\"domain\":null,\"envdAccessToken\":\"abab\"}"
#define GONE "{\"code\":404,\"message\":\"Sandbox \\\"i1\\\" doesn't exist\"}"
#define INFO                                                                                       \
    "{\"templateID\":\"t1\",\"alias\":\"base\",\"sandboxID\":\"i1\",\"clientID\":\"6532622b\","    \
    "\"startedAt\":\"2026-11-29T22:22:40.732452Z\",\"endAt\":\"2026-11-29T22:27:40Z\","            \
    "\"cpuCount\":2,\"memoryMB\":512,\"diskSizeMB\":1024,\"state\":\"running\","                   \
    "\"envdVersion\":\"0.6.13\",\"metadata\":{\"a\":\"b\",\"abx-name\":\"box\"},"                  \
    "\"volumeMounts\":[]}"
#define SB "{\"sandboxId\":\"i1\"}"

static const abx_e2b_dialect old = {.name = "old", .v1_first = true};

/* --- create ------------------------------------------------------------------------------------------------- */
static void create_by_the_new_route(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{}",
              "{\"id\":\"i1\",\"state\":\"running\",\"template\":\"base\",\"metadata\":{}}");
    assert_string_equal(s.requests[0].body, "{\"templateID\":\"base\"}");
    assert_true(svc_has_header(&s, 0, "x-api-key: e2b_00"));
    assert_true(svc_has_header(&s, 0, "content-type: application/json"));
    svc_close(&s);
}

static void create_with_all_that_there_is(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create",
              "{\"id\":\"key1\",\"name\":\"box\",\"template\":\"py\",\"timeoutMs\":60500,"
              "\"metadata\":{\"a\":\"b\"},\"env\":{\"E\":\"f\"},\"onTimeout\":\"pause\","
              "\"network\":\"allow:1.1.1.1,*.example.com\"}",
              NULL);
    assert_string_equal(
        s.requests[0].body,
        "{\"templateID\":\"py\",\"timeout\":61,\"autoPause\":true,\"network\":{\"allowOut\":[\"1.1."
        "1.1\",\"*.example.com\"],\"denyOut\":[\"0.0.0.0/0\"]},\"metadata\":{\"a\":\"b\",\"abx-"
        "name\":\"box\"},\"envVars\":{\"E\":\"f\"}}");
    svc_close(&s);
}

static void create_falls_back_and_remembers(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 405, "Method Not Allowed");
    svc_say(&s, "POST /sandboxes", 201, MADE);
    svc_say(&s, "POST /sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{}", NULL);
    assert_string_equal(s.requests[1].body,
                        "{\"templateID\":\"base\",\"secure\":true,\"timeout\":300}");
    svc_gives(&s, "sandbox.create", "{}", NULL);
    svc_close(&s);
}

static void create_old_first(void **state)
{
    svc s;
    svc_open(&s, &old);
    svc_say(&s, "POST /sandboxes", 404, "404 page not found");
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{\"timeoutMs\":1}", NULL);
    assert_string_equal(s.requests[0].body,
                        "{\"templateID\":\"base\",\"timeout\":1,\"secure\":true}");
    assert_string_equal(s.requests[1].body, "{\"templateID\":\"base\",\"timeout\":1}");
    svc_close(&s);
}

static void no_route_at_all(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 404, "");
    svc_say(&s, "POST /sandboxes", 404, "");
    svc_fails(&s, "sandbox.create", "{}", "FEATURE_MISSING",
              "the service has no route 'POST /sandboxes' (status 404)");
    /* nothing was learnt of it */
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{}", NULL);
    svc_close(&s);
}

static void create_is_sent_once(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 0, NULL);
    svc_fails(&s, "sandbox.create", "{}", "NETWORK", "POST /v2/sandboxes: ");
    svc_say(&s, "POST /v2/sandboxes", 503, "{\"code\":503,\"message\":\"busy\"}");
    svc_fails(&s, "sandbox.create", "{}", "NETWORK", "busy");
    /* a connection that was kept and turns out to be closed must not make it two */
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.info", SB, NULL);
    svc_say(&s, "POST /v2/sandboxes", 0, NULL);
    svc_fails(&s, "sandbox.create", "{}", "NETWORK", "POST /v2/sandboxes: ");
    svc_close(&s);
}

static void what_cannot_be_asked_for(void **state)
{
    static const char *const rows[] = {
        "{\"timeoutMs\":0}",         "{\"idleMs\":1000}",
        "{\"memoryBytes\":1}",       "{\"cpus\":0.5}",
        "{\"diskBytes\":1}",         "{\"processes\":1}",
        "{\"openFiles\":1}",         "{\"image\":\"/x\"}",
        "{\"allowWeaker\":[\"x\"]}", "{\"network\":\"allow:a:80\"}",
    };
    svc s;
    svc_open(&s, &abx_e2b_plain);
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        svc_fails(&s, "sandbox.create", rows[i], "FEATURE_MISSING", "provider 'demo' ");
    svc_fails(&s, "sandbox.create", "{\"onTimeout\":\"x\"}", "USAGE", "kill or pause");
    svc_fails(&s, "sandbox.create", "{\"network\":\"x\"}", "USAGE", "none, internet");
    svc_fails(&s, "sandbox.set_timeout", "{\"sandboxId\":\"i1\",\"timeoutMs\":0}",
              "FEATURE_MISSING", "without a time limit");
    assert_int_equal(s.request_count, 0);
    svc_close(&s);
}

static void idle_windows(void **state)
{
    static const abx_e2b_dialect d = {
        .name = "d", .idle_timeout = true, .endless = true, .default_template = ""};
    svc s;
    svc_open(&s, &d);
    svc_fails(&s, "sandbox.create", "{}", "PROVIDER_CONFIG", "no default template");
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{\"template\":\"t\",\"idleMs\":9000}", NULL);
    assert_string_equal(s.requests[0].body, "{\"templateID\":\"t\",\"timeout\":9}");
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{\"template\":\"t\",\"timeoutMs\":0}", NULL);
    assert_string_equal(s.requests[1].body, "{\"templateID\":\"t\",\"timeout\":-1}");
    svc_close(&s);
}

/* --- the others ------------------------------------------------------------------------------------------------ */
static void info_and_kill(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.info", SB,
              "{\"id\":\"i1\",\"name\":\"box\",\"state\":\"running\",\"template\":\"base\","
              "\"templateId\":\"t1\",\"createdAt\":\"2026-11-29T22:22:40.732Z\",\"expiresAt\":"
              "\"2026-11-29T22:27:40Z\",\"metadata\":{\"a\":\"b\"},\"limits\":{\"cpus\":2,"
              "\"memoryBytes\":536870912,\"diskBytes\":1073741824}}");
    svc_say(&s, "DELETE /sandboxes/i1", 204, NULL);
    svc_gives(&s, "sandbox.kill", SB, "{}");
    svc_say(&s, "DELETE /sandboxes/a%2Fb", 404, GONE);
    svc_fails(&s, "sandbox.kill", "{\"sandboxId\":\"a/b\"}", "SANDBOX_NOT_FOUND", "doesn't exist");
    svc_close(&s);
}

static void pause_and_timeout(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /sandboxes/i1/pause", 204, NULL);
    svc_gives(&s, "sandbox.pause", SB, "{\"paused\":true}");
    svc_say(&s, "POST /sandboxes/i1/pause", 409, "{\"code\":409,\"message\":\"already\"}");
    svc_gives(&s, "sandbox.pause", SB, "{\"paused\":false}");
    svc_say(&s, "POST /sandboxes/i1/timeout", 204, NULL);
    svc_gives(&s, "sandbox.set_timeout", "{\"sandboxId\":\"i1\",\"timeoutMs\":60500}", NULL);
    assert_string_equal(s.requests[2].body, "{\"timeout\":61}");
    svc_close(&s);
}

static void connect_order(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes/i1/connect", 404, GONE); /* it knows sandboxes: the end */
    svc_fails(&s, "sandbox.connect", SB, "SANDBOX_NOT_FOUND", "doesn't exist");
    svc_close(&s);
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes/i1/connect", 404, "nothing here");
    svc_say(&s, "POST /sandboxes/i1/connect", 200, MADE);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.connect", SB, NULL);
    assert_string_equal(s.requests[1].body, "{\"timeout\":300}");
    svc_say(&s, "POST /sandboxes/i1/connect", 201, MADE);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.connect", "{\"sandboxId\":\"i1\",\"timeoutMs\":5000}", NULL);
    assert_string_equal(s.requests[3].body, "{\"timeout\":5}");
    svc_close(&s);
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes/i1/connect", 401, "");
    svc_fails(&s, "sandbox.connect", SB, "API_KEY", "status 401");
    svc_close(&s);
}

static void connect_by_resume(void **state)
{
    static const abx_e2b_dialect d = {
        .name = "d",
        .connect = {ABX_E2B_CONNECT_V1, ABX_E2B_RESUME, ABX_E2B_CONNECT_V2},
        .connect_again_ms = 10};
    svc s;
    svc_open(&s, &d);
    svc_say(&s, "POST /sandboxes/i1/connect", 405, "");
    svc_say(&s, "POST /sandboxes/i1/resume", 204, NULL);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.connect", SB, NULL);
    /* remembered; it runs already */
    svc_say(&s, "POST /sandboxes/i1/resume", 409, "{\"code\":409,\"message\":\"runs\"}");
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.connect", SB, NULL);
    svc_close(&s);
    svc_open(&s, &d);
    svc_say(&s, "POST /sandboxes/i1/connect", 400,
            "{\"code\":400,\"message\":\"Failed to resume sandbox: not resumable, pausing\"}");
    svc_say(&s, "POST /sandboxes/i1/connect", 201, MADE);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.connect", SB, NULL);
    svc_close(&s);
}

static void list_all_pages(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /v2/sandboxes?state=running,paused&limit=100", 200, "[" INFO "]")->headers[0] =
        "X-Next-Token: a/b=";
    svc_say(&s, "GET /v2/sandboxes?state=running,paused&limit=100&nextToken=a%2Fb%3D", 200,
            "[" INFO "]");
    svc_run run;
    svc_call(&s, &run, "sandbox.list", "{}");
    yyjson_doc *d = yyjson_read(run.result, strlen(run.result), 0);
    assert_int_equal(yyjson_arr_size(abx_json_get(yyjson_doc_get_root(d), "sandboxes")), 2);
    yyjson_doc_free(d);
    svc_run_clear(&run);
    svc_say(&s,
            "GET /v2/sandboxes?state=running,paused&limit=100&metadata="
            "a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26x%3Dy",
            200, "[" INFO "]");
    svc_gives(&s, "sandbox.list", "{\"metadata\":{\"a b\":\"c&d=\xc3\xa9\",\"x\":\"y\"}}",
              "{\"sandboxes\":[]}"); /* it has not these labels, whatever the service says */
    svc_close(&s);
}

/* --- repeats ---------------------------------------------------------------------------------------------------- */
static void reads_are_repeated(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /sandboxes/i1", 503, "{\"code\":503,\"message\":\"x\"}");
    svc_say(&s, "GET /sandboxes/i1", 0, NULL);
    svc_say(&s, "GET /sandboxes/i1", 429, "{}")->headers[0] = "Retry-After: 0";
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.info", SB, NULL);
    svc_say(&s, "GET /sandboxes/i1", 502, "")->headers[0] = "Should-Retry: false";
    svc_fails(&s, "sandbox.info", SB, "NETWORK", "status 502");
    svc_say(&s, "GET /sandboxes/i1", 429, "{\"message\":\"slow\"}"); /* it names no time */
    svc_fails(&s, "sandbox.info", SB, "RATE_LIMIT", "slow");
    /* longer than anybody waits */
    svc_say(&s, "GET /sandboxes/i1", 429, "{\"message\":\"slow\"}")->headers[0] =
        "Retry-After: 900";
    svc_fails(&s, "sandbox.info", SB, "RATE_LIMIT", "slow");
    svc_close(&s);
}

static void repeats_end(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    for (int i = 0; i < 4; i++)
        svc_say(&s, "GET /sandboxes/i1", 503, "{\"code\":503,\"message\":\"x\"}");
    svc_fails(&s, "sandbox.info", SB, "NETWORK", "x");
    svc_close(&s);
}

static void a_create_waits_when_it_was_refused(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 429, "{}")->headers[0] = "Retry-After: 0";
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_gives(&s, "sandbox.create", "{}", NULL);
    svc_close(&s);
}

static void a_kill_whose_answer_was_lost(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "DELETE /sandboxes/i1", 0, NULL);
    svc_say(&s, "DELETE /sandboxes/i1", 404, GONE);
    svc_gives(&s, "sandbox.kill", SB, "{}");
    svc_close(&s);
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /sandboxes/i1/pause", 0, NULL);
    svc_say(&s, "POST /sandboxes/i1/pause", 409, "{\"code\":409,\"message\":\"x\"}");
    svc_gives(&s, "sandbox.pause", SB, "{\"paused\":true}");
    svc_close(&s);
}

static void nobody_listens(void **state)
{
    svc s;
    svc_open_with(&s, &abx_e2b_plain, "k", true);
    svc_fails(&s, "sandbox.create", "{}", "NETWORK", "cannot reach");
    svc_close(&s);
}

/* A create that nobody waits for any more: what it made is ended. */
static bool is_held(void *data)
{
    return ((svc *)data)->held != NULL;
}

static bool all_asked(void *data)
{
    svc *s = data;
    return s->answer_next == s->answer_count;
}

static void a_cancelled_create(void **state)
{
    svc s;
    svc_run run;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /v2/sandboxes", 201, MADE)->hold = true;
    svc_say(&s, "DELETE /sandboxes/i1", 204, NULL);
    svc_start(&s, &run, "sandbox.create", "{}");
    svc_until(&s, is_held, &s);
    abx_call_cancel(run.call);
    svc_go_on(&s);
    svc_wait(&run);
    svc_until(&s, all_asked, &s);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "CANCELLED");
    svc_run_clear(&run);
    svc_close(&s);
}

static bool is_pausing(void *data)
{
    svc *s = data;
    return s->request_count == 2 && --s->told < 0;
}

/* In the pause between two questions whether envd is there: it is not asked once more. */
static void a_cancelled_wait_for_envd(void **state)
{
    svc s;
    svc_run run;
    abx_e2b_dialect late = abx_e2b_plain;
    late.ready_late = true;
    svc_open(&s, &late);
    late.data_url = s.url;
    svc_say(&s, "POST /v2/sandboxes", 201, MADE);
    svc_say(&s, "GET /health", 502, NULL);
    svc_say(&s, "DELETE /sandboxes/i1", 204, NULL);
    svc_start(&s, &run, "sandbox.create", "{}");
    s.told = 1; /* one more turn of the loop, in which it is answered */
    svc_until(&s, is_pausing, &s);
    abx_call_cancel(run.call);
    svc_wait(&run);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "CANCELLED");
    svc_run_clear(&run);
    svc_close(&s);
}

static void a_deadline(void **state)
{
    svc s;
    svc_run run;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO)->hold = true;
    svc_start(&s, &run, "sandbox.info", SB);
    abx_call_set_deadline(run.call, 200);
    svc_wait(&run);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "TIMEOUT");
    svc_run_clear(&run);
    svc_close(&s);
}

/* --- keys and addresses ------------------------------------------------------------------------------------------ */
static void keys(void **state)
{
    static const abx_e2b_dialect bearer = {
        .name = "d", .auth_header = "Authorization", .auth_scheme = "Bearer"};
    static const abx_e2b_dialect free_one = {.name = "d", .key_optional = true};
    svc s;
    svc_open(&s, &bearer);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.info", SB, NULL);
    assert_true(svc_has_header(&s, 0, "authorization: Bearer e2b_00"));
    svc_close(&s);
    svc_open_with(&s, &free_one, NULL, false);
    svc_say(&s, "GET /sandboxes/i1", 200, INFO);
    svc_gives(&s, "sandbox.info", SB, NULL);
    assert_null(strstr(s.requests[0].headers, "x-api-key"));
    svc_close(&s);
    abx_e2b_service_options o = {
        .provider = "demo", .dialect = &bearer, .api_url = "https://x", .api_key = ""};
    abx_e2b_service *none = NULL;
    abx_error *err = NULL;
    assert_int_equal(abx_e2b_service_open(&o, &none, &err), -1);
    assert_fails(err, API_KEY);
    o.api_key = "a\r\nb";
    assert_int_equal(abx_e2b_service_open(&o, &none, &err), -1);
    assert_fails(err, API_KEY);
    o.api_url = "ftp://x";
    assert_int_equal(abx_e2b_service_open(&o, &none, &err), -1);
    assert_fails(err, PROVIDER_CONFIG);
    o.api_url = NULL;
    assert_int_equal(abx_e2b_service_open(&o, &none, &err), -1);
    assert_fails(err, PROVIDER_CONFIG);
}

static const char *own_routes[ABX_OP_COUNT] = {
    [ABX_OP_SANDBOX_CREATE] = "/v1/boxes", [ABX_OP_SANDBOX_INFO] = "POST /v1/box/{id}/show"};

static void routes_of_its_own(void **state)
{
    static const abx_e2b_dialect d = {.name = "d", .routes = own_routes};
    svc s;
    svc_open(&s, &d);
    svc_say(&s, "POST /v1/boxes", 404, "");
    svc_fails(&s, "sandbox.create", "{}", "FEATURE_MISSING", "POST /v1/boxes");
    svc_say(&s, "POST /v1/box/i1/show", 200, INFO);
    svc_gives(&s, "sandbox.info", SB, NULL);
    svc_close(&s);
}

/* --- inside a sandbox ---------------------------------------------------------------------------------------------- */
static const abx_e2b_dialect by_path = {.name = "d", .data_url = "{api}/sb/{id}/{port}"};

static void calls_wait_until_their_sandbox_is_known(void **state)
{
    svc s;
    svc_run first, second;
    svc_open(&s, &by_path);
    svc_say(&s, "GET /sandboxes/i1", 200, MADE)->hold = true;
    svc_say(&s, "POST /sb/i1/49983/filesystem.Filesystem/MakeDir", 404, "{}");
    svc_say(&s, "POST /sb/i1/49983/filesystem.Filesystem/MakeDir", 404, "{}");
    svc_start(&s, &first, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}");
    svc_start(&s, &second, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/b\"}");
    svc_until(&s, is_held, &s);
    svc_go_on(&s);
    svc_wait(&first);
    svc_wait(&second);
    assert_true(svc_has_header(&s, 1, "x-access-token: abab"));
    assert_true(svc_has_header(&s, 1, "e2b-sandbox-id: i1"));
    svc_run_clear(&first);
    svc_run_clear(&second);
    svc_close(&s);
}

static void a_paused_sandbox_says_so(void **state)
{
    svc s;
    svc_open(&s, &by_path);
    static const char paused[] = "{\"sandboxID\":\"i1\",\"state\":\"paused\"}";
    for (int i = 0; i < 2; i++) { /* it is asked each time: another may have woken it */
        svc_say(&s, "GET /sandboxes/i1", 200, paused);
        svc_fails(&s, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}", "CONFLICT",
                  "sandbox 'i1' is paused");
    }
    svc_say(&s, "GET /sandboxes/i1", 404, GONE);
    svc_fails(&s, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}", "SANDBOX_NOT_FOUND",
              "doesn't exist");
    svc_say(&s, "GET /sandboxes/i1", 200, "{\"sandboxID\":\"i2\"}");
    svc_fails(&s, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}", "BACKEND_ANSWER",
              "another one's");
    svc_close(&s);
}

static void a_key_that_a_service_repeats_is_not_shown(void **state)
{
    svc s;
    svc_open(&s, &by_path);
    svc_say(&s, "GET /sandboxes/i1", 401, "{\"code\":401,\"message\":\"e2b_00 is not e2b_00\"}");
    svc_fails(&s, "sandbox.info", SB, "API_KEY", "****** is not ******");
    svc_close(&s);
}

static void an_id_is_no_option(void **state)
{
    static const char *const ids[] = {"-rf", "--all", "../a", "a/b", "a b", "a\\nb", ""};
    for (size_t i = 0; i < ABX_COUNT(ids); i++) {
        svc s;
        svc_open(&s, &by_path);
        ABX_AUTO_FREE char *said = abx_format("{\"sandboxID\":\"%s\"}", ids[i]);
        svc_say(&s, "POST /v2/sandboxes", 201, said);
        svc_fails(&s, "sandbox.create", "{}", "BACKEND_ANSWER", "'sandboxID' is no id");
        svc_close(&s);
    }
}

static void a_call_that_waits_is_cancelled(void **state)
{
    svc s;
    svc_run run;
    svc_open(&s, &by_path);
    svc_say(&s, "GET /sandboxes/i1", 200, MADE)->hold = true;
    svc_start(&s, &run, "process.list", SB);
    svc_until(&s, is_held, &s);
    abx_call_cancel(run.call);
    svc_wait(&run);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "CANCELLED");
    svc_run_clear(&run);
    /* and one that waits while the provider is closed */
    svc_start(&s, &run, "process.list", SB);
    svc_close(&s);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "CANCELLED");
    svc_run_clear(&run);
}

/* A broken connection: the service says what became of the sandbox. */
static void what_became_of_it(void **state)
{
    static const char *const paused = "{\"sandboxID\":\"i1\",\"state\":\"paused\"}";
    static const struct {
        int status;
        const char *body, *id, *text;
    } rows[] = {{200, "{\"sandboxID\":\"i1\",\"state\":\"paused\"}", "CONFLICT", "is paused"},
                {200, MADE, "NETWORK", "lives, but the connection to it broke"},
                {404, GONE, "SANDBOX_NOT_FOUND", "not found"},
                {401, "{\"code\":401,\"message\":\"bad key\"}", "API_KEY", "bad key"}};
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        svc s;
        svc_open(&s, &by_path);
        svc_say(&s, "GET /sandboxes/i1", 200, MADE);
        svc_say(&s, "POST /sb/i1/49983/filesystem.Filesystem/MakeDir", 502,
                "{\"sandboxId\":\"i1\",\"message\":\"The sandbox was not found\",\"code\":502}");
        svc_say(&s, "GET /sandboxes/i1", rows[i].status, rows[i].body);
        svc_fails(&s, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}", rows[i].id,
                  rows[i].text);
        if (i == 0) { /* and it is asked before the next call */
            svc_say(&s, "GET /sandboxes/i1", 200, paused);
            svc_fails(&s, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}", "CONFLICT",
                      "is paused");
        }
        svc_close(&s);
    }
}

/* It is closed while it is asked. */
static void closed_while_it_looks(void **state)
{
    svc s;
    svc_run run;
    svc_open(&s, &by_path);
    svc_say(&s, "GET /sandboxes/i1", 200, MADE);
    svc_say(&s, "POST /sb/i1/49983/filesystem.Filesystem/MakeDir", 502,
            "{\"sandboxId\":\"i1\",\"message\":\"The sandbox was not found\",\"code\":502}");
    svc_say(&s, "GET /sandboxes/i1", 200, MADE)->hold = true;
    svc_start(&s, &run, "fs.make_dir", "{\"sandboxId\":\"i1\",\"path\":\"/a\"}");
    svc_until(&s, is_held, &s);
    svc_close(&s);
    assert_string_equal(abx_err_row_of(run.err->id)->name, "CANCELLED");
    svc_run_clear(&run);
}

/* --- ports, network, metrics, logs --------------------------------------------------------------------------------- */
#define HOST "{\"sandboxId\":\"i1\",\"port\":8000}"

static void addresses_of_ports(void **state)
{
    static const abx_e2b_dialect by_headers = {
        .name = "d", .data_url = "https://gw.example.com/", .token_on_ports = true};
    static const abx_e2b_dialect own = {.name = "d", .own_domain = true};
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /sandboxes/i1", 200,
            "{\"sandboxID\":\"i1\",\"domain\":\"box.example.com:8443\"}");
    svc_gives(&s, "sandbox.host", HOST,
              "{\"url\":\"https://8000-i1.box.example.com:8443\",\"headers\":{}}");
    svc_fails(&s, "sandbox.host", "{\"sandboxId\":\"i1\",\"port\":0}", "USAGE", "1 to 65535");
    svc_close(&s);
    svc_open(&s, &own);
    svc_say(&s, "GET /sandboxes/i1", 200, "{\"sandboxID\":\"i1\",\"domain\":\"evil.example.com\"}");
    ABX_AUTO_FREE char *want =
        abx_format("{\"url\":\"https://8000-i1.127.0.0.1:%d\",\"headers\":{}}", s.port);
    svc_gives(&s, "sandbox.host", HOST, want);
    svc_close(&s);
    svc_open(&s, &by_headers);
    svc_say(&s, "POST /v2/sandboxes", 201,
            "{\"sandboxID\":\"i1\",\"trafficAccessToken\":\"t\",\"envdAccessToken\":\"e\"}");
    svc_gives(&s, "sandbox.create", "{}", NULL);
    svc_gives(&s, "sandbox.host", HOST,
              "{\"url\":\"https://gw.example.com\",\"headers\":{\"E2b-Sandbox-Id\":\"i1\","
              "\"E2b-Sandbox-Port\":\"8000\",\"E2b-Traffic-Access-Token\":\"t\","
              "\"X-Access-Token\":\"e\"}}");
    svc_close(&s);
}

/* After a new start only connect gives the token of the ports again. */
static void a_traffic_token_is_got_again(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /sandboxes/i1", 200,
            "{\"sandboxID\":\"i1\",\"network\":{\"allowPublicTraffic\":false}}");
    svc_say(&s, "POST /v2/sandboxes/i1/connect", 200,
            "{\"sandboxID\":\"i1\",\"envdAccessToken\":\"e\",\"trafficAccessToken\":\"t\"}");
    svc_run run;
    svc_call(&s, &run, "sandbox.host", HOST);
    assert_non_null(strstr(run.result, "\"E2b-Traffic-Access-Token\":\"t\""));
    assert_string_equal(s.requests[1].body, "{\"timeout\":1}");
    svc_run_clear(&run);
    svc_close(&s);
}

static void network_metrics_logs(void **state)
{
    static const abx_e2b_dialect camel = {.name = "d", .camel_network = true};
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "PUT /sandboxes/i1/network", 204, NULL);
    svc_gives(&s, "sandbox.set_network",
              "{\"sandboxId\":\"i1\",\"network\":\"allow:a.b,allow:1.1.1.1\"}", "{}");
    assert_string_equal(s.requests[0].body,
                        "{\"allowOut\":[\"a.b\",\"1.1.1.1\"],\"denyOut\":[\"0.0.0.0/0\"]}");
    svc_say(&s, "GET /sandboxes/i1/metrics", 200, "[]");
    svc_fails(&s, "sandbox.metrics", SB, "BACKEND", "no metrics of sandbox 'i1' yet");
    svc_say(&s, "GET /sandboxes/i1/metrics", 200,
            "[{\"timestamp\":\"2026-01-01T00:00:00Z\",\"cpuCount\":1},{\"timestamp\":"
            "\"2026-01-01T00:00:05Z\",\"cpuCount\":2,\"cpuUsedPct\":1.5,\"memUsed\":100,"
            "\"memTotal\":1000,\"diskUsed\":\"x\"}]");
    svc_gives(&s, "sandbox.metrics", SB,
              "{\"timestamp\":\"2026-01-01T00:00:05Z\",\"cpuUsedPct\":1.5,\"cpuCount\":2,"
              "\"memUsed\":100,\"memTotal\":1000}");
    svc_say(&s, "GET /sandboxes/i1/logs?start=1000&limit=5", 200,
            "{\"logs\":[{\"timestamp\":\"t\",\"line\":\"{}\"}],\"logEntries\":[{\"timestamp\":"
            "\"2026-01-01T00:00:05Z\",\"level\":\"info\",\"message\":\"m\",\"fields\":{\"a\":"
            "\"b\"}}]}");
    svc_gives(&s, "sandbox.logs",
              "{\"sandboxId\":\"i1\",\"since\":\"1970-01-01T00:00:01Z\",\"limit\":5}",
              "{\"entries\":[{\"timestamp\":\"2026-01-01T00:00:05Z\",\"level\":\"info\","
              "\"message\":\"m\",\"fields\":{\"a\":\"b\"}}]}");
    svc_say(&s, "GET /sandboxes/i1/logs", 200, "{\"logs\":[{\"timestamp\":\"t\",\"line\":\"l\"}]}");
    svc_gives(&s, "sandbox.logs", SB, "{\"entries\":[{\"timestamp\":\"t\",\"message\":\"l\"}]}");
    svc_close(&s);
    svc_open(&s, &camel);
    svc_say(&s, "PUT /sandboxes/i1/network", 204, NULL);
    svc_gives(&s, "sandbox.set_network", "{\"sandboxId\":\"i1\",\"network\":\"none\"}", "{}");
    assert_string_equal(s.requests[0].body, "{\"allowInternetAccess\":false}");
    svc_close(&s);
}

/* --- saved states ----------------------------------------------------------------------------------------------------- */
static void snapshots_and_forks(void **state)
{
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "POST /sandboxes/i1/snapshots", 201,
            "{\"snapshotID\":\"t/s:v1\",\"names\":[\"team/s:v1\"]}");
    svc_gives(&s, "sandbox.snapshot_create", "{\"sandboxId\":\"i1\",\"name\":\"s\"}",
              "{\"id\":\"t/s:v1\",\"name\":\"team/s:v1\",\"sandbox\":\"i1\"}");
    assert_string_equal(s.requests[0].body, "{\"name\":\"s\"}");
    svc_say(&s, "GET /snapshots?limit=100", 200, "[{\"snapshotID\":\"a\",\"names\":[]}]")
        ->headers[0] = "X-Next-Token: n";
    svc_say(&s, "GET /snapshots?limit=100&nextToken=n", 200, "[{\"snapshotID\":\"b\"}]");
    svc_gives(&s, "sandbox.snapshot_list", "{}", "{\"snapshots\":[{\"id\":\"a\"},{\"id\":\"b\"}]}");
    svc_say(&s, "DELETE /templates/t%2Fs%3Av1", 204, NULL);
    svc_gives(&s, "sandbox.snapshot_remove", "{\"snapshotId\":\"t/s:v1\"}", "{}");
    svc_say(&s, "DELETE /templates/x", 404, "{\"code\":404,\"message\":\"no\"}");
    svc_fails(&s, "sandbox.snapshot_remove", "{\"snapshotId\":\"x\"}", "SNAPSHOT_NOT_FOUND", "no");
    svc_say(&s, "POST /sandboxes/i1/fork", 201, "[{\"sandbox\":" MADE "}]");
    svc_gives(&s, "sandbox.fork", "{\"sandboxId\":\"i1\",\"timeoutMs\":60000}", NULL);
    assert_string_equal(s.requests[5].body, "{\"timeout\":60,\"count\":1}");
    svc_say(&s, "POST /sandboxes/i1/fork", 201,
            "[{\"error\":{\"code\":503,\"message\":\"no room\"}}]");
    svc_fails(&s, "sandbox.fork", SB, "BACKEND", "no room");
    svc_say(&s, "POST /sandboxes/i1/fork", 0, NULL);
    svc_fails(&s, "sandbox.fork", SB, "NETWORK", "fork");
    svc_fails(&s, "sandbox.fork", "{\"sandboxId\":\"i1\",\"env\":{\"a\":\"b\"}}", "FEATURE_MISSING",
              "'env' of a fork");
    svc_close(&s);
}

static void templates(void **state)
{
    static const char list[] = "[{\"templateID\":\"t1\",\"names\":[\"team/base\"],\"aliases\":"
                               "[\"base\"],\"createdAt\":\"2026-01-01T00:00:05Z\"},"
                               "{\"templateID\":\"t2\"}]";
    svc s;
    svc_open(&s, &abx_e2b_plain);
    svc_say(&s, "GET /templates", 200, list);
    svc_gives(&s, "sandbox.template_list", "{}",
              "{\"templates\":[{\"id\":\"t1\",\"name\":\"team/base\",\"kind\":\"image\","
              "\"createdAt\":\"2026-01-01T00:00:05Z\"},{\"id\":\"t2\",\"kind\":\"image\"}]}");
    svc_say(&s, "GET /templates", 200, list);
    svc_gives(&s, "sandbox.template_info", "{\"template\":\"base\"}", NULL);
    svc_say(&s, "GET /templates", 200, list);
    svc_fails(&s, "sandbox.template_info", "{\"template\":\"x\"}", "TEMPLATE_NOT_FOUND", "'x'");
    svc_say(&s, "DELETE /templates/t2", 204, NULL);
    svc_gives(&s, "sandbox.template_remove", "{\"template\":\"t2\"}", "{}");
    svc_close(&s);
}

static void features(void **state)
{
    static const char declared[] =
        "{\"sandbox\":\"native\",\"process\":\"native\",\"process.replay\":\"native\","
        "\"upkeep\":\"native\",\"code\":\"native\",\"ports\":\"native\",\"filesystem\":\"native\","
        "\"filesystem.range\":\"unsupported\"}";
    ABX_AUTO_JSON d = yyjson_read(declared, strlen(declared), 0);
    ABX_AUTO_JSON map = abx_e2b_service_features(yyjson_doc_get_root(d));
    yyjson_val *root = yyjson_doc_get_root(map);
    assert_string_equal(abx_json_str(root, "process", ""), "native");
    assert_string_equal(abx_json_str(root, "process.replay", ""), "unsupported");
    assert_string_equal(abx_json_str(root, "process.attach", ""), "native");
    assert_string_equal(abx_json_str(root, "ports", ""), "native");
    assert_string_equal(abx_json_str(root, "sandbox.tunnel", ""), "unsupported");
    assert_string_equal(abx_json_str(root, "sandbox.host", "-"), "-");
    assert_string_equal(abx_json_str(root, "upkeep", ""), "unsupported");
    assert_string_equal(abx_json_str(root, "code.interrupt", ""), "unsupported");
    assert_string_equal(abx_json_str(root, "process.start", "-"), "-");
    assert_string_equal(abx_json_str(root, "filesystem.range", ""), "native");
}

/* --- answers that do not fit --------------------------------------------------------------------------------------- */
static void misfits(void **state)
{
    static const struct {
        int status;
        const char *body, *type, *id, *text;
    } rows[] = {
        {201, "{\"templateID\":\"base\"}", NULL, "BACKEND_ANSWER",
         "the answer of 'POST /v2/sandboxes' does not fit: 'sandboxID' is missing"},
        {201, "{\"sandboxID\":7}", NULL, "BACKEND_ANSWER", "'sandboxID' is not a text"},
        {201, "{\"sandboxID\":\"a/../b\"}", NULL, "BACKEND_ANSWER", "'sandboxID' is no id"},
        {201, "[]", NULL, "BACKEND_ANSWER", "not an object"},
        {201, "", NULL, "BACKEND_ANSWER", "not an object"},
        {201, "{", NULL, "BACKEND_ANSWER", "it is not JSON"},
        {200, "<html><title>Welcome</title>", "text/html", "BACKEND_ANSWER",
         "a web page came instead of an answer (status 200): 'Welcome'"},
        {502, "<html><title>Bad Gateway</title>", "text/html", "NETWORK",
         "a web page came instead of an answer (status 502): 'Bad Gateway'"},
        {302, "", "Location: https://evil.example/x", "BACKEND_ANSWER",
         "a redirect (status 302) to 'https://evil.example/x', which is not followed"},
        {400, "{\"code\":400,\"message\":\"validation error: x\"}", NULL, "USAGE",
         "validation error: x"},
        {400, "{\"code\":400,\"message\":\"Template or Checkpoint not found\"}", NULL,
         "TEMPLATE_NOT_FOUND", "Template or"},
        {401, "{\"code\":401,\"message\":\"Invalid API key\"}", NULL, "API_KEY", "Invalid API key"},
        {403, "{\"code\":403,\"message\":\"quota exceeded: sandboxes 10/10\"}", NULL, "QUOTA",
         "10/10"},
        {403, "{\"code\":403,\"message\":\"team blocked\"}", NULL, "FORBIDDEN", "team"},
        {404, "{\"code\":404,\"message\":\"template 'x' not found\"}", NULL, "TEMPLATE_NOT_FOUND",
         "template 'x' not found"},
        {409, "{\"code\":409,\"message\":\"no\"}", NULL, "CONFLICT", "no"},
        {429, "{\"code\":429,\"message\":\"slow down\"}", NULL, "RATE_LIMIT", "slow down"},
        {429, "{\"code\":429,\"message\":\"you have reached the maximum number of sandboxes\"}",
         NULL, "QUOTA", "maximum"},
        {500, "{\"code\":500,\"message\":\"oops\",\"error_code\":\"sandbox_create_failed\"}", NULL,
         "BACKEND", "oops (sandbox_create_failed)"},
        {503, "{\"code\":503,\"message\":\"full\"}", NULL, "NETWORK", "full"},
        {507, "plain text\n", NULL, "NO_SPACE", "plain text"},
        {500, "", NULL, "BACKEND", "'POST /v2/sandboxes' was answered with status 500"},
    };
    for (size_t i = 0; i < ABX_COUNT(rows); i++) {
        svc s;
        svc_open(&s, &abx_e2b_plain);
        svc_answer *a = svc_say(&s, "POST /v2/sandboxes", rows[i].status, rows[i].body);
        ABX_AUTO_FREE char *type = NULL;
        if (rows[i].type)
            type = strchr(rows[i].type, ':') ? abx_strdup(rows[i].type)
                                             : abx_format("Content-Type: %s", rows[i].type);
        a->headers[0] = type;
        svc_fails(&s, "sandbox.create", "{}", rows[i].id, rows[i].text);
        if (rows[i].status >= 300)
            assert_int_equal(s.told, 1);
        svc_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_by_the_new_route),
        cmocka_unit_test(create_with_all_that_there_is),
        cmocka_unit_test(create_falls_back_and_remembers),
        cmocka_unit_test(create_old_first),
        cmocka_unit_test(no_route_at_all),
        cmocka_unit_test(create_is_sent_once),
        cmocka_unit_test(what_cannot_be_asked_for),
        cmocka_unit_test(idle_windows),
        cmocka_unit_test(info_and_kill),
        cmocka_unit_test(pause_and_timeout),
        cmocka_unit_test(connect_order),
        cmocka_unit_test(connect_by_resume),
        cmocka_unit_test(list_all_pages),
        cmocka_unit_test(reads_are_repeated),
        cmocka_unit_test(repeats_end),
        cmocka_unit_test(a_create_waits_when_it_was_refused),
        cmocka_unit_test(a_kill_whose_answer_was_lost),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_cancelled_create),
        cmocka_unit_test(a_cancelled_wait_for_envd),
        cmocka_unit_test(a_deadline),
        cmocka_unit_test(keys),
        cmocka_unit_test(routes_of_its_own),
        cmocka_unit_test(calls_wait_until_their_sandbox_is_known),
        cmocka_unit_test(a_paused_sandbox_says_so),
        cmocka_unit_test(a_call_that_waits_is_cancelled),
        cmocka_unit_test(a_key_that_a_service_repeats_is_not_shown),
        cmocka_unit_test(an_id_is_no_option),
        cmocka_unit_test(what_became_of_it),
        cmocka_unit_test(closed_while_it_looks),
        cmocka_unit_test(addresses_of_ports),
        cmocka_unit_test(a_traffic_token_is_got_again),
        cmocka_unit_test(network_metrics_logs),
        cmocka_unit_test(snapshots_and_forks),
        cmocka_unit_test(templates),
        cmocka_unit_test(features),
        cmocka_unit_test(misfits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
