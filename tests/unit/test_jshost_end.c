/* The process of a module ends when its host goes, whatever is at work then. With AddressSanitizer it takes itself down first, and what it leaks
 * is told on its standard error. This program is that process, too. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/json.h"
#include "jshost/bundle.h"
#include "jshost/jshost.h"
#include "kit.h"

extern char **environ;

typedef struct process {
    pid_t pid;
    int to, from, said; /* its standard error is a file */
    abx_buf in;
} process;

/* A service that takes connections and says nothing. */
static int listener = -1;
static char address[40];

static int make_bundle(const char *module)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_BUF out = ABX_BUF(ABX_JS_BUNDLE_MAX);
    ABX_AUTO_FREE char *text = abx_format("const address = '%s';\n%s", address, module);
    abx_mut_str(d, root, "id", "m");
    abx_mut_str(d, root, "entry", "m.mjs");
    abx_mut_obj(d, root, "features");
    assert_int_equal(abx_js_bundle_begin(&out, root), 0);
    assert_int_equal(abx_js_bundle_add(&out, "m.mjs", text, strlen(text)), 0);
    int fd = memfd_create("module", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(abx_write_full(fd, out.data, out.len), 0);
    return fd;
}

static void child(int in, int out, int err, int bundle)
{
    char *argv[] = {(char *)(uintptr_t) "test_jshost_end", (char *)(uintptr_t)ABX_JS_HOST_WORD,
                    NULL};
    const int from[] = {in, out, err, bundle};
    int high[4];
    for (int i = 0; i < 4; i++)
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 4; i++)
        if (dup2(high[i], i) < 0)
            _exit(126);
    execve("/proc/self/exe", argv, environ);
    _exit(127);
}

static void say(process *p, const char *line)
{
    assert_int_equal(abx_write_full(p->to, line, strlen(line)), 0);
}

static process start(const char *module)
{
    process p = {.in = ABX_BUF(1 << 20)};
    int to[2], from[2], bundle = make_bundle(module);
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    p.said = memfd_create("said", MFD_CLOEXEC);
    assert_true(p.said >= 0);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0)
        child(to[0], from[1], p.said, bundle);
    close(to[0]);
    close(from[1]);
    close(bundle);
    p.to = to[1];
    p.from = from[0];
    say(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol\":"
            "\"epp/1\","
            "\"hostVersion\":\"0.1.0\",\"id\":\"m\",\"options\":{},\"core\":{},\"secretKeys\":[],"
            "\"callTimeoutMs\":60000,\"raw\":true,\"flow\":false}}\n");
    return p;
}

static bool has_said(const process *p, const char *words)
{
    return p->in.len && memmem(p->in.data, p->in.len, words, strlen(words));
}

static void hear_more(process *p, const char *wanted)
{
    uint8_t bytes[4096];
    ssize_t n = read(p->from, bytes, sizeof bytes);
    if (n <= 0)
        fail_msg("it did not say '%s' but '%.*s'", wanted, (int)p->in.len, (char *)p->in.data);
    assert_int_equal(abx_buf_add(&p->in, bytes, (size_t)n), 0);
}

/* Read until it has said this. */
static void hear(process *p, const char *words)
{
    while (!has_said(p, words))
        hear_more(p, words);
}

/* The line with this, which has the words, too. */
static void hear_line(process *p, const char *mark, const char *words)
{
    hear(p, mark);
    while (p->in.data[p->in.len - 1] != '\n')
        hear_more(p, words);
    if (!has_said(p, words))
        fail_msg("it did not say '%s' but '%.*s'", words, (int)p->in.len, (char *)p->in.data);
}

/* The host goes: it ends well and says nothing. */
static void end(process *p)
{
    char text[8192];
    int status;
    close(p->to);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    ssize_t n = pread(p->said, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    assert_string_equal(text, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(p->from);
    close(p->said);
    abx_buf_clear(&p->in);
}

#define CREATE(infra) "export const create = () => ({ buildInfra: (ctx) => (" infra ") });\n"
#define GREETED       "\"id\":1,\"result\""
#define CALL(id, method, params)                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"" method "\",\"params\":" params "}\n"

static void test_nothing_was_asked(void **state)
{
    (void)state;
    process p = start("");
    end(&p);
    p = start(CREATE("{}"));
    hear(&p, GREETED);
    end(&p);
}

static void test_a_call_was_answered(void **state)
{
    (void)state;
    process p = start(CREATE("{ sandbox: { list: async () => ({ sandboxes: [] }) } }"));
    hear(&p, GREETED);
    say(&p, CALL(2, "sandbox.list", "{}"));
    hear(&p, "\"id\":2");
    say(&p, CALL(3, "shutdown", "{}"));
    hear(&p, "\"id\":3");
    end(&p);
}

static void test_a_module_that_is_refused(void **state)
{
    static const char *const modules[] = {"syntax error", "throw new Error('no')",
                                          "import './none.mjs';", "export const x = 1;",
                                          CREATE("{ get sandbox() { throw 1; } }")};
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(modules); i++) {
        process p = start(modules[i]);
        hear(&p, "\"id\":1,\"error\"");
        end(&p);
    }
}

static void test_a_module_that_is_still_loaded(void **state)
{
    (void)state;
    process p =
        start("console.log('here'); await new Promise((done) => setTimeout(done, 3600000));");
    hear(&p, "here");
    end(&p);
}

static void test_everything_is_at_work(void **state)
{
    (void)state;
    process p = start(
        "const never = () => new Promise(() => {});\n"
        "setInterval(() => {}, 1000);\n"
        "fetch(`http://${address}/`, { signal: AbortSignal.timeout(3600000) });\n"
        "fetch(`http://${address}/`, { method: 'POST', duplex: 'half',\n"
        "  body: new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(9000)); return never(); } "
        "}) });\n"
        "const ws = new WebSocket(`ws://${address}/`);\n"
        "ws.onclose = () => { for (;;); };\n"
        "new Response(new ReadableStream({ pull: never })).body.tee()[0].getReader().read();\n"
        "Promise.reject(new Error('nobody handles it'));\n"
        "const cycle = { ws, url: new URL('http://a/') }; cycle.cycle = cycle;\n" CREATE(
            "{ sandbox: { list: async (params, call) => { call.signal.onabort = () => cycle; await "
            "never(); } },\n"
            "  filesystem: { write: never, async *read() { for (;;) yield new Uint8Array(400000); "
            "} } }"));
    hear(&p, GREETED);
    say(&p, CALL(2, "sandbox.list", "{}"));
    say(&p, CALL(3, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"/a\"}"));
    say(&p, CALL(4, "stream.write", "{\"stream\":3,\"text\":\"hello\"}"));
    say(&p, CALL(5, "fs.read", "{\"sandboxId\":\"s\",\"path\":\"/a\"}"));
    hear(&p, "\"raw\":"); /* it says more than the pipe takes, which nobody reads */
    end(&p);
}

static void test_the_kit_is_at_work(void **state)
{
    (void)state;
    process p = start(
        "export function create(kit) { return { buildInfra(ctx) {\n"
        "  const http = ctx.http({ baseUrl: `http://${address}`, auth: ctx.headerKeyAuth('k') });\n"
        "  const sandbox = new kit.SandboxProtocol({ http, domain: 'd' });\n"
        "  const process = new kit.ProcessProtocol({ sandbox }), filesystem = new "
        "kit.FilesystemProtocol({ sandbox });\n"
        "  sandbox.list({}).catch(() => {});\n"
        "  const lost = process.start('s', { cmd: ['a'] });\n"
        "  lost.next();\n"
        "  return { sandbox, process, filesystem: kit.e2b.overlay(filesystem, { stat: (id, o, "
        "base) => base.stat(id, o) }) };\n"
        "} }; }\n");
    hear(&p, GREETED);
    say(&p, CALL(2, "sandbox.list", "{}"));
    say(&p, CALL(3, "process.start", "{\"sandboxId\":\"s\",\"cmd\":[\"a\"]}"));
    say(&p, CALL(4, "fs.stat", "{\"sandboxId\":\"s\",\"path\":\"/a\"}"));
    say(&p, CALL(5, "fs.write", "{\"sandboxId\":\"s\",\"path\":\"/a\"}"));
    say(&p, CALL(6, "stream.write", "{\"stream\":5,\"text\":\"hello\"}"));
    say(&p, CALL(7, "no.such.method", "{}"));
    hear(&p, "\"id\":7");
    end(&p);
}

/* Each part of the runtime is loaded, and what it made is used. */
static void test_all_of_the_runtime_was_used(void **state)
{
    (void)state;
    process p = start(
        "import * as buffer from 'node:buffer'; import * as hash from 'node:crypto'; import * as "
        "process from 'node:process';\n"
        "import * as url from 'node:url'; import * as util from 'node:util';\n"
        "for (const name of Object.getOwnPropertyNames(globalThis)) globalThis[name];\n"
        "hash.createHash('sha256').update('a').digest('hex');\n"
        "hash.createHmac('sha256', 'k').update('a');\n"
        "await crypto.subtle.digest('SHA-256', new Uint8Array(3));\n"
        "await new Response(new Blob(['a']).stream().pipeThrough(new "
        "TextDecoderStream()).pipeThrough(new TextEncoderStream())).text();\n"
        "const form = new FormData(); form.append('a', new File(['b'], 'c'));\n"
        "await new Response(form).formData();\n"
        "await (await fetch('data:text/plain;base64,YQ==')).text();\n"
        "structuredClone({ a: [new Map([[1, new Set([2])]]), new Error('e'), /x/, new Date(), new "
        "ArrayBuffer(3)] });\n"
        "await fetch(`http://${address}/`, { signal: AbortSignal.timeout(1) }).catch(() => {});\n"
        "await fetch('http://127.0.0.1:1/').catch(() => {});\n" CREATE(
            "{ sandbox: { list() { throw new Error('no', { cause: 1 }); } } }"));
    hear(&p, GREETED);
    say(&p, CALL(2, "sandbox.list", "{}"));
    hear(&p, "\"id\":2");
    end(&p);
}

/* What is thrown may be anything. */
static const struct {
    const char *value, *told;
} thrown[] = {
    {"null", "null was thrown"},
    {"undefined", "undefined was thrown"},
    {"5", "5 was thrown"},
    {"10n", "10 was thrown"},
    {"'just words'", "just words"},
    {"''", "an empty text was thrown"},
    {"Symbol('s')", "Symbol(s) was thrown"},
    {"() => 1", "a function was thrown"},
    {"{}", "an object ({}) was thrown"},
    {"{ code: 7 }", "an object ({'code':7}) was thrown"},
    {"[1, 2]", "an object (1,2) was thrown"},
    {"{ toString() { return 'boo'; } }", "an object (boo) was thrown"},
    {"{ toString() { return {}; } }", "an object ({}) was thrown"},
    {"{ toString() { throw 1; }, toJSON() { throw 2; } }", "an object without a text was thrown"},
    {"{ get name() { throw 1; }, get message() { throw 2; }, get stack() { throw 3; }, get cause() "
     "{ throw 4; } }",
     "an object ([object Object]) was thrown"},
    {"{ name: { toString() { throw 1; } }, message: 'm' }", "Error: m"},
    {"{ message: 'm', cause: Object.create(null) }", "Error: m; caused by an object ({})"},
    {"Object.create(null)", "an object ({}) was thrown"},
    {"Object.assign(Object.create(null), { message: 'm', name: 'N' })", "N: m"},
    {"new Proxy({}, {})", "an object ({}) was thrown"},
    {"new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } })",
     "an object without a text was thrown"},
    {"(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; })()",
     "an object without a text was thrown"},
    {"(() => { const { proxy, revoke } = Proxy.revocable(() => 1, {}); revoke(); return proxy; "
     "})()",
     "a function was thrown"},
    {"(() => { const e = new Error('round'); e.cause = e; return e; })()", "Error: round"},
    {"(() => { const e = new Error('odd'); e.cause = null; return e; })()",
     "Error: odd (at <anonymous> (m/m.mjs:"},
    {"{ then: 1 }", "an object ({'then':1}) was thrown"},
    {"{ toString() { return '\\ud800\\0x'; } }", "an object ("},
    {"{ big: 'x'.repeat(100000) }", "an object ({'big':'xxxx"},
};

/* As it stands in JSON; ' is a quote. Owned. */
static char *in_json(const char *before, const char *words)
{
    ABX_AUTO_BUF b = ABX_BUF(1 << 12);
    assert_int_equal(abx_buf_add(&b, before, strlen(before)), 0);
    for (; *words; words++)
        assert_int_equal(*words == '\'' ? abx_buf_add(&b, "\\\"", 2) : abx_buf_add(&b, words, 1),
                         0);
    return abx_strndup((char *)b.data, b.len);
}

/* While it is loaded, and in calls one after the other. */
static void test_whatever_is_thrown_is_told(void **state)
{
    ABX_AUTO_BUF table = ABX_BUF(1 << 16);
    (void)state;
    for (size_t i = 0; i < ABX_COUNT(thrown); i++) {
        ABX_AUTO_FREE char *text = abx_format("() => { throw %s; },\n", thrown[i].value);
        ABX_AUTO_FREE char *module = abx_format("throw %s;", thrown[i].value);
        ABX_AUTO_FREE char *words = in_json("the module cannot be loaded: ", thrown[i].told);
        assert_int_equal(abx_buf_add(&table, text, strlen(text)), 0);
        process p = start(module);
        hear_line(&p, "\"id\":1,\"error\"", words);
        end(&p);
    }
    ABX_AUTO_FREE char *module = abx_format(
        "const all = [%.*s];\n" CREATE("{ sandbox: { list() { return all.shift()(); } } }"),
        (int)table.len, (char *)table.data);
    process p = start(module);
    hear(&p, GREETED);
    for (size_t i = 0; i < ABX_COUNT(thrown); i++) {
        ABX_AUTO_FREE char *words = in_json("\"message\":\"", thrown[i].told);
        say(&p, CALL(2, "sandbox.list", "{}"));
        hear_line(&p, "\"id\":2,\"error\"", words);
        abx_buf_reset(&p.in);
    }
    end(&p);
}

static int setup(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    (void)state;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &n) < 0)
        return -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_was_asked),
        cmocka_unit_test(test_a_call_was_answered),
        cmocka_unit_test(test_a_module_that_is_refused),
        cmocka_unit_test(test_a_module_that_is_still_loaded),
        cmocka_unit_test(test_everything_is_at_work),
        cmocka_unit_test(test_the_kit_is_at_work),
        cmocka_unit_test(test_all_of_the_runtime_was_used),
        cmocka_unit_test(test_whatever_is_thrown_is_told),
    };
    if (argc == 2 && strcmp(argv[1], ABX_JS_HOST_WORD) == 0)
        return abx_js_host_main();
    return cmocka_run_group_tests(tests, setup, NULL);
}
