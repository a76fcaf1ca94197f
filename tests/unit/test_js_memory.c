/* Objects of the runtime's classes, which hold what JavaScript made and are held by it: in a cycle they go with the garbage, while something waits
 * for the network they stay, and at the end of a session everything goes. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "../fuzz/js_rig.h"
#include "kit.h"

/* A service that takes connections and says nothing. */
typedef struct rig {
    js_rig js; /* first */
    uv_loop_t loop;
    int listener;
    char address[40];
} rig;

static rig *r;

/* `tie(name, o)`: o is part of a cycle and nothing else leads to it. `left()`: names of what is still there. */
static const char driver[] =
    "const { internal, address } = globalThis, refs = new Map();\n"
    "const tie = (name, o) => {\n"
    "  const back = () => o;\n"
    "  o.back = back;\n"
    "  refs.set(name, new WeakRef(o));\n"
    "};\n"
    "globalThis.left = () => [...refs].filter(([, w]) => w.deref()).map(([name]) => name).join(' "
    "');\n"
    "internal.need('kit');\n"
    "const service = () => internal.e2bService({ provider: 'fuzz', apiUrl: `http://${address}`, "
    "apiKey: 'k', domain: 'd', dialect: {} });\n"
    "const run = (s) => s.run('sandbox.list', {}, undefined);\n"
    "const get = (body) => internal.http('GET', `http://${address}/`, [], body);\n"
    "const socket = (place = address) => internal.socket(`ws://${place}/`, []);\n";

static void read_rig(const char *script, const char *address)
{
    ABX_AUTO_FREE char *text =
        abx_format("globalThis.address = '%s';\n%s%s", address, driver, script);
    js_rig_open(&r->js, &r->loop, text, NULL, 0);
    assert_null(r->js.session.js.broken);
}

static void open_rig(const char *script)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    r = ABX_NEW(rig);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 16), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&at, &n), 0);
    ABX_AUTO_FREE char *address = abx_format("127.0.0.1:%d", ntohs(at.sin_port));
    read_rig(script, address);
}

/* Everything is closed and freed: LeakSanitizer looks for the rest. */
static void close_rig(void)
{
    js_rig_close(&r->js);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    close(r->listener);
    free(ABX_TAKE(r));
}

/* What a global function of the script returns; owned. */
static char *ask(const char *name)
{
    abx_js *js = &r->js.session.js;
    JSValue global = JS_GetGlobalObject(js->ctx), fn = JS_GetPropertyStr(js->ctx, global, name);
    JSValue v = abx_js_call(js, fn, 0, NULL);
    char *text = abx_js_text(js->ctx, v);
    assert_non_null(text);
    JS_FreeValue(js->ctx, v);
    JS_FreeValue(js->ctx, fn);
    JS_FreeValue(js->ctx, global);
    return text;
}

static void turn(void)
{
    for (int i = 0; i < 3; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
    JS_RunGC(r->js.session.js.rt);
}

/* Turns of the loop, until this function says so. */
static void until(const char *name, const char *wanted)
{
    for (;;) {
        ABX_AUTO_FREE char *text = ask(name);
        assert_null(r->js.session.js.broken);
        if (strcmp(text, wanted) == 0)
            return;
        uv_run(&r->loop, UV_RUN_ONCE);
        JS_RunGC(r->js.session.js.rt);
    }
}

static void expect_left(const char *names)
{
    turn();
    ABX_AUTO_FREE char *left = ask("left");
    assert_string_equal(left, names);
}

static void test_cycles_go(void **state)
{
    (void)state;
    open_rig("tie('Hasher', internal.hashNew('sha256', undefined));\n"
             "tie('URLRecord', internal.urlParse('http://a/', undefined));\n"
             "tie('Service', service());\n"
             "tie('Run', run(service()));\n"
             "tie('Transfer', get(undefined));\n"
             "tie('Transfer with a body', get(true));\n"
             "tie('Socket', socket());\n");
    expect_left("");
    close_rig();
}

/* What a native holds leads back to it: the service of a run, why a transfer was aborted, what is told when a promise settles. */
static void test_cycles_through_what_a_native_holds_go(void **state)
{
    (void)state;
    open_rig("globalThis.over = () => globalThis.kind;\n"
             "{ const s = service(), one = run(s); s.mine = () => one; tie('Service', s); "
             "tie('Run', one); }\n"
             "{ const t = get(undefined); t.abort({ t }); tie('Transfer', t); }\n"
             "{ const s = socket('127.0.0.1:1');\n"
             "  let item = await s.next();\n"
             "  globalThis.kind = item.kind;\n"
             "  s.next().then(() => s);\n" /* nothing comes any more */
             "  tie('Socket', s); }\n");
    until("over", "close");
    expect_left("");
    close_rig();
}

/* Forgotten by everybody, waited for: what the other end says still arrives. */
static void test_what_waits_stays(void **state)
{
    (void)state;
    open_rig(
        "let told = [];\n"
        "globalThis.told = () => told.sort().join(' ');\n"
        "const wait = (name, o, promise) => {\n"
        "  tie(name, o);\n"
        "  promise.then((v) => (o.back, told.push(name)), () => (o.back, told.push(name)));\n"
        "};\n"
        "{ const o = run(service()); wait('run.end', o, o.end()); }\n"
        "{ const o = run(service()); wait('run.next', o, o.next()); }\n"
        "{ const o = get(undefined); wait('transfer.head', o, o.head()); }\n"
        "{ const o = get(undefined); wait('transfer.read', o, o.read()); }\n"
        "{ const o = get(undefined); wait('transfer.collect', o, o.collect()); }\n"
        "{ const o = get(true); wait('transfer.write', o, o.write(new Uint8Array(9000000))); }\n"
        "{ const o = socket(); wait('socket.next', o, o.next()); }\n");
    static const char all[] = "run.end run.next transfer.head transfer.read transfer.collect "
                              "transfer.write socket.next";
    expect_left(all);
    expect_left(all);
    assert_int_equal(shutdown(r->listener, SHUT_RDWR), 0); /* what it did not accept is refused */
    close(r->listener);
    until("told", "run.end run.next socket.next transfer.collect transfer.head transfer.read "
                  "transfer.write");
    expect_left("");
    r->listener = -1;
    close_rig();
}

/* A session ends with everything at work; a listener of the module's promises hears nothing. */
static void test_a_session_ends_at_any_time(void **state)
{
    (void)state;
    for (int turns = 0; turns < 8; turns++) {
        open_rig("const loud = () => { for (;;); };\n"
                 "const s = service(), one = run(s), two = run(s), t = get(true), u = "
                 "get(undefined), ws = socket();\n"
                 "const keep = { s, one, two, t, u, ws };\n"
                 "for (const p of [one.end(), one.next(), two.end(), t.head(), u.collect(), "
                 "ws.next()]) p.then(loud, loud);\n"
                 "t.write(new Uint8Array(9000000)).then(loud, loud);\n"
                 "s.direct('sandbox.kill');\n"
                 "setTimeout(loud, 3600000);\n"
                 "fetch(`http://${address}/`, { signal: AbortSignal.timeout(3600000) }).then(loud, "
                 "loud);\n"
                 "new WebSocket(`ws://${address}/`).onclose = loud;\n"
                 "new ReadableStream({ pull: () => new Promise(() => {}) "
                 "}).getReader().read().then(loud, loud);\n"
                 "Promise.reject(new Error('nobody handles it'));\n"
                 "globalThis.left();\n"
                 "await new Promise(() => keep);\n");
        for (int i = 0; i < turns; i++)
            uv_run(&r->loop, UV_RUN_NOWAIT);
        close_rig();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycles_go),
        cmocka_unit_test(test_cycles_through_what_a_native_holds_go),
        cmocka_unit_test(test_what_waits_stays),
        cmocka_unit_test(test_a_session_ends_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
