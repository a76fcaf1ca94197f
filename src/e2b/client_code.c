/* code.run: POST /execute, whose answer is one JSON object a line. What E2B's own client takes from it becomes events:
 * output, results, errors. */
#include "e2b/client_inner.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"
#include "wire/lines.h"

#define MAX_CODE ((size_t)16 * 1024 * 1024)
#define MAX_BODY ((size_t)24 * 1024 * 1024) /* of the request, with all escapes */
#define MAX_LINE ((size_t)32 * 1024 * 1024)

typedef struct running {
    abx_lines lines;
    bool full;    /* the call takes no more now */
    bool cut;     /* the last line was no JSON: it may have been cut off by the kernel's end */
    bool started; /* the event was sent */
    bool ended;   /* end_of_execution was there */
    bool expired; /* the time limit, where the server has none */
    int64_t count;
    yyjson_doc *end; /* the last line */
    abx_error *broken;
} running;

/* --- lines → events --------------------------------------------------------------------------------------- */
static void hold(running *r, int more)
{
    if (!more)
        r->full = true;
}

static int take_output(abx__envd_job *job, abx_channel channel, yyjson_val *line, abx_error **err)
{
    running *r = job->state;
    yyjson_val *text = yyjson_obj_get(line, "text");
    yyjson_val *coded = job->client->abx ? yyjson_obj_get(line, "abxBase64") : NULL;
    if (yyjson_is_str(text)) {
        hold(r, abx_call_chunk(job->call, channel, yyjson_get_str(text), yyjson_get_len(text)));
        return 0;
    }
    if (!job->client->abx && (!text || yyjson_is_null(text)))
        return 0; /* a server that names what it has not */
    size_t n = 0;
    ABX_AUTO_FREE uint8_t *bytes =
        yyjson_is_str(coded) ? abx_base64_bytes(yyjson_get_str(coded), yyjson_get_len(coded),
                                                ABX_BASE64_STANDARD, &n)
                             : NULL;
    if (!bytes)
        return abx_fail(err, ABX_ERR_BACKEND_ANSWER, "a line of output has no text");
    hold(r, abx_call_chunk(job->call, channel, bytes, n));
    return 0;
}

/* The formats of a result: those that are text, and those that are any JSON. */
static const char *const TEXTS[] = {"text", "html", "markdown", "svg",       "png",
                                    "jpeg", "pdf",  "latex",    "javascript"};
static const char *const TREES[] = {"json", "data", "chart", "extra"};

static void take_result(abx__envd_job *job, yyjson_val *line)
{
    running *r = job->state;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_bool(d, root, "isMainResult", abx_json_bool(line, "is_main_result", false));
    for (size_t i = 0; i < ABX_COUNT(TEXTS); i++) {
        yyjson_val *v = yyjson_obj_get(line, TEXTS[i]);
        if (yyjson_is_str(v))
            abx_mut_val(d, root, TEXTS[i], v);
    }
    for (size_t i = 0; i < ABX_COUNT(TREES); i++) {
        yyjson_val *v = abx_json_get(line, TREES[i]);
        bool empty = strcmp(TREES[i], "extra") == 0 && yyjson_obj_size(v) == 0;
        if (v && !empty)
            abx_mut_val(d, root, TREES[i], v);
    }
    hold(r, abx_call_event(job->call, "result", d));
}

static void put_text(yyjson_mut_doc *d, yyjson_mut_val *o, yyjson_val *line, const char *key)
{
    yyjson_val *v = yyjson_obj_get(line, key);
    abx_mut_strn(d, o, key, yyjson_is_str(v) ? yyjson_get_str(v) : "", yyjson_get_len(v));
}

static void take_error(abx__envd_job *job, yyjson_val *line)
{
    running *r = job->state;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    put_text(d, root, line, "name");
    put_text(d, root, line, "value");
    put_text(d, root, line, "traceback");
    int64_t code = job->client->abx ? abx_json_int(line, "abxExitCode", -1) : -1;
    if (code >= 0 && code <= 255)
        abx_mut_int(d, root, "exitCode", code);
    hold(r, abx_call_event(job->call, "error", d));
}

/* With the count of runs where the server tells it first, as it mostly does. */
static void tell_start(abx__envd_job *job)
{
    running *r = job->state;
    if (r->started)
        return;
    r->started = true;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    if (r->count > 0)
        abx_mut_int(d, root, "executionCount", r->count);
    hold(r, abx_call_event(job->call, "started", d));
}

static int take_line(abx__envd_job *job, yyjson_val *line, abx_error **err)
{
    running *r = job->state;
    const char *type = abx_json_str(line, "type", "");
    if (strcmp(type, "number_of_executions") == 0)
        r->count = abx_json_int(line, "execution_count", 0);
    if (strcmp(type, "keepalive") != 0) /* it may still wait for its turn */
        tell_start(job);
    if (strcmp(type, "stdout") == 0)
        return take_output(job, ABX_CH_STDOUT, line, err);
    if (strcmp(type, "stderr") == 0)
        return take_output(job, ABX_CH_STDERR, line, err);
    if (strcmp(type, "result") == 0)
        take_result(job, line);
    else if (strcmp(type, "error") == 0)
        take_error(job, line);
    else if (strcmp(type, "end_of_execution") == 0)
        r->ended = true;
    return 0; /* also keepalives, and lines of a later version */
}

static int on_line(const char *text, size_t n, void *user)
{
    abx__envd_job *job = user;
    running *r = job->state;
    ABX_AUTO_ERROR why = NULL;
    if (n == 0 || r->ended || job->ended)
        return 0;
    ABX_AUTO_JSON doc =
        abx_json_parse(text, n, ABX_ERR_BACKEND_ANSWER, "a line of the answer", &why);
    yyjson_val *line = yyjson_doc_get_root(doc);
    bool is_error = strcmp(abx_json_str(line, "type", ""), "error") == 0;
    if (!yyjson_is_obj(line) && !r->cut) {
        r->cut = true; /* forgiven when the next line says what happened */
        return 0;
    }
    if (!yyjson_is_obj(line) || (r->cut && !is_error)) {
        r->broken = abx__envd_bad_answer(job->client, "a line of the answer is no JSON object");
        return 1;
    }
    r->cut = false;
    abx_error *err = NULL;
    if (take_line(job, line, &err) < 0) {
        r->broken = err;
        return 1;
    }
    if (r->ended)
        r->end = ABX_TAKE(doc);
    return 0;
}

/* --- the end --------------------------------------------------------------------------------------------------- */
static void put_end(const abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    const running *r = job->state;
    yyjson_val *end = yyjson_doc_get_root(r->end);
    static const char *const names[][2] = {{"abxContext", "contextId"},
                                           {"abxLanguage", "language"},
                                           {"abxFresh", "fresh"},
                                           {"abxTimedOut", "timedOut"},
                                           {"abxStateLost", "stateLost"}};
    const char *asked = abx__envd_param(job, "contextId");
    if (!job->client->abx && asked)
        abx_mut_str(d, root, "contextId", asked);
    for (size_t i = 0; i < ABX_COUNT(names) && job->client->abx; i++) {
        yyjson_val *v = yyjson_obj_get(end, names[i][0]);
        if (yyjson_is_true(v))
            abx_mut_bool(d, root, names[i][1], true);
        else if (i < 3 && yyjson_is_str(v) && abx__envd_text(end, names[i][0]))
            abx_mut_str(d, root, names[i][1], yyjson_get_str(v));
    }
    if (r->count > 0)
        abx_mut_int(d, root, "executionCount", r->count);
    if (r->expired)
        abx_mut_bool(d, root, "timedOut", true);
}

static void finish(abx__envd_job *job)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    put_end(job, d, root);
    abx__envd_job_end(job, d);
}

static void on_broken(abx__envd_job *job, abx_error *err)
{
    abx__envd_job_fail(job, err);
}

static void on_body(abx__envd_exchange *x, const uint8_t *bytes, size_t n)
{
    abx__envd_job *job = x->data;
    running *r = job->state;
    if (job->ended || r->broken)
        return;
    abx_error *err = NULL;
    if (abx_lines_feed(&r->lines, bytes, n, NULL, &err) < 0) {
        abx_error_free(err);
        r->broken = abx__envd_bad_answer(job->client,
                                         "a line of the answer is longer than %zu bytes", MAX_LINE);
    }
    if (r->broken)
        abx__envd_exchange_cancel(x);
    else if (r->ended && !job->ended)
        finish(job);
    else if (r->full && x->transfer)
        abx_http_pause(x->transfer);
    r->full = false;
}

static void on_end(abx__envd_exchange *x, const abx_error *err)
{
    abx__envd_job *job = x->data;
    running *r = job->state;
    if (!abx__envd_job_left(job, x)) {
        ABX_AUTO_ERROR early = abx_error_new(ABX_ERR_BACKEND_ANSWER, "the answer has no end");
        if (r->expired)
            finish(job);
        else if (r->broken)
            abx__envd_job_fail(job, ABX_TAKE(r->broken));
        else if (err)
            abx__envd_job_broken(job, err, on_broken);
        else if (!x->good)
            abx__envd_job_fail(job, abx__envd_code_error(job, x));
        else
            abx__envd_job_broken(job, early, on_broken);
    }
    abx__envd_job_unref(job);
}

/* --- the request -------------------------------------------------------------------------------------------------- */
static int put_request(const abx__envd_job *job, abx_buf *body, abx_error **err)
{
    yyjson_val *params = abx_call_params(job->call);
    yyjson_val *code = yyjson_obj_get(params, "code");
    const char *language = abx__envd_param(job, "language");
    const char *context = abx__envd_param(job, "contextId");
    if (yyjson_get_len(code) > MAX_CODE)
        return abx_fail(err, ABX_ERR_TOO_LARGE, "the code is larger than %zu bytes", MAX_CODE);
    if (language && context)
        return abx_fail(err, ABX_ERR_USAGE, "'language' and 'contextId' exclude each other");
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_val(d, root, "code", code);
    abx_mut_str(d, root, "language", language);
    abx_mut_str(d, root, "context_id", context);
    if (abx_json_get(params, "env"))
        abx_mut_val(d, root, "env_vars", yyjson_obj_get(params, "env"));
    if (job->client->abx && abx__envd_param_int(job, "timeoutMs", 0) > 0)
        abx_mut_int(d, root, "abxTimeoutMs", abx__envd_param_int(job, "timeoutMs", 0));
    if (abx_json_write_mut(root, body) < 0)
        return abx_fail(err, ABX_ERR_TOO_LARGE,
                        "the code is larger than %zu bytes when it is encoded", MAX_BODY);
    return 0;
}

/* E2B interrupts the code when its client goes away. */
static void on_limit(abx__envd_job *job)
{
    running *r = job->state;
    r->expired = true;
    if (job->main)
        abx__envd_exchange_cancel(job->main);
}

static int run_start(abx__envd_job *job, abx_error **err)
{
    static const abx__envd_hooks hooks = {.body = on_body, .end = on_end};
    running *r = job->state;
    abx_lines_init(&r->lines, MAX_LINE, on_line, job);
    ABX_AUTO_BUF body = ABX_BUF(MAX_BODY);
    if (put_request(job, &body, err) < 0)
        return -1;
    abx__envd_request request = {.method = "POST",
                                 .path = "/execute",
                                 .content_type = "application/json",
                                 .body = body.data,
                                 .body_len = body.len,
                                 .code = true,
                                 .lasts = true,
                                 .idle_ms = ABX__ENVD_DEAD_MS};
    int64_t limit = job->client->abx ? 0 : abx__envd_param_int(job, "timeoutMs", 0);
    if (abx__envd_job_exchange(job, &job->main, &request, &hooks, err) < 0)
        return -1;
    if (limit > 0)
        abx__envd_job_after(job, (uint64_t)limit, on_limit);
    return 0;
}

static void run_clear(abx__envd_job *job)
{
    running *r = job->state;
    abx_lines_clear(&r->lines);
    yyjson_doc_free(r->end);
    abx_error_free(r->broken);
}

const abx__envd_op abx__envd_code_run = {
    .state_size = sizeof(running), .start = run_start, .clear = run_clear};
