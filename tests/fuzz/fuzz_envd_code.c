/* envd's code with kept state between a hostile client and a hostile kernel: requests come and break off in any order, and what a
 * kernel writes on its three descriptors is anything; it may end at any moment. The kernels here are descriptors of this program. */
#include "envd_rig.h"
#include "local/envd/code_inner.h"

#define KERNELS   4
/* No process has such a number: signals to it go nowhere. */
#define FIRST_PID 0x40000000

typedef struct fake_kernel {
    int fds[ABX__END_COUNT], commands; /* the kernel's ends; -1: closed */
    pid_t pid;
} fake_kernel;

static fake_kernel kernels[KERNELS];
static int started;

int abx__kernel_start(abx__context *c, int *status, char text[1024])
{
    int ours[ABX__END_COUNT], pair[2];
    fake_kernel *k = NULL;
    for (size_t i = 0; i < KERNELS && !k; i++)
        if (kernels[i].pid == 0)
            k = &kernels[i];
    if (!k) {
        *status = 500;
        (void)snprintf(text, 1024, "there are no more");
        return -1;
    }
    for (size_t i = 0; i < ABX__END_COUNT; i++) {
        ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        ours[i] = pair[0];
        k->fds[i] = pair[1];
    }
    k->commands = -1;
    pair[1] = -1;
    if (c->language->commands)
        ABX_CHECK(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
    if (c->language->commands)
        k->commands = pair[0];
    k->pid = FIRST_PID + ++started;
    c->kernel = abx__kernel_new(c, k->pid, (uint64_t)1 << 41, ours, pair[1]);
    return 0;
}

static void let_go(fake_kernel *k)
{
    for (size_t i = 0; i < ABX__END_COUNT; i++)
        abx_close_fd(&k->fds[i]);
    abx_close_fd(&k->commands);
    k->pid = 0;
}

static void end_kernel(rig *r, fake_kernel *k, int status)
{
    pid_t pid = k->pid;
    if (pid == 0)
        return;
    let_go(k);
    abx__code_reaped(r->envd, pid, status);
}

/* --- the client ------------------------------------------------------------------------------------------- */
static const char *const languages[] = {"python", "bash", "javascript", "py", "sh", "cobol", ""};
static const char *const ids[] = {"c1", "c2", "python", "bash", "javascript", "c99", "%63%31", "."};

static void ask_run(rig *r, picks *p)
{
    ABX_AUTO_BUF body = ABX_BUF(1 << 16);
    static const char *const codes[] = {"1+1", "", "while True: pass"};
    static const char *const members[] = {"", ",\"env_vars\":{\"A\":\"b\"}",
                                          ",\"env_vars\":{\"\":1}", ",\"abxTimeoutMs\":1",
                                          ",\"abxTimeoutMs\":-5"};
    ABX_CHECK(abx_buf_add_str(&body, "{\"code\":\"") == 0);
    pick_json_text(p, codes, ABX_COUNT(codes), &body);
    bool by_id = pick(p, 2);
    ABX_CHECK(abx_buf_add_str(&body, by_id ? "\",\"context_id\":\"" : "\",\"language\":\"") == 0);
    if (by_id)
        pick_json_text(p, ids, ABX_COUNT(ids), &body);
    else
        pick_json_text(p, languages, ABX_COUNT(languages), &body);
    ABX_CHECK(abx_buf_addf(&body, "\"%s}", members[pick(p, ABX_COUNT(members))]) == 0);
    rig_ask(r, pick(p, RIG_CONNS), "POST", "/execute", pick(p, 2) ? "X-Abx: 1\r\n" : "", &body);
}

static void ask_context(rig *r, picks *p)
{
    ABX_AUTO_BUF body = ABX_BUF(1 << 16);
    static const char *const members[] = {"", ",\"cwd\":\"/tmp\"", ",\"cwd\":\"~x\"",
                                          ",\"abxEnv\":{\"A\":\"b\"}", ",\"abxEnv\":[]"};
    ABX_CHECK(abx_buf_add_str(&body, "{\"language\":\"") == 0);
    pick_json_text(p, languages, ABX_COUNT(languages), &body);
    ABX_CHECK(abx_buf_addf(&body, "\"%s}", members[pick(p, ABX_COUNT(members))]) == 0);
    rig_ask(r, pick(p, RIG_CONNS), "POST", "/contexts", "X-Abx: 1\r\n", &body);
}

static void ask_about(rig *r, picks *p)
{
    static const struct {
        const char *verb, *form;
    } ways[] = {{"POST", "/contexts/%s/restart"},
                {"DELETE", "/contexts/%s"},
                {"POST", "/abx/contexts/%s/interrupt"},
                {"GET", "/contexts"}};
    char path[128];
    size_t way = pick(p, ABX_COUNT(ways));
    const char *id = ids[pick(p, ABX_COUNT(ids))];
    if (strstr(ways[way].form, "%s")) {
        const char *rest = strstr(ways[way].form, "%s");
        (void)snprintf(path, sizeof(path), "%.*s%s%s", (int)(rest - ways[way].form), ways[way].form,
                       id, rest + 2);
    } else {
        (void)snprintf(path, sizeof(path), "%s", ways[way].form);
    }
    rig_ask(r, pick(p, RIG_CONNS), ways[way].verb, path, pick(p, 2) ? "X-Abx: 1\r\n" : "", NULL);
}

static void ask_pause(rig *r, picks *p)
{
    rig_ask(r, pick(p, RIG_CONNS), "POST", pick(p, 2) ? "/abx/pause" : "/abx/resume", "", NULL);
}

/* --- the kernel ---------------------------------------------------------------------------------------------- */
static void say(const fake_kernel *k, size_t end, const void *bytes, size_t n)
{
    if (k->pid && k->fds[end] >= 0)
        (void)!send(k->fds[end], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_frame(fake_kernel *k, picks *p)
{
    static const char *const words[] = {
        "ready", "line", "sync", "done", "", "lines", "aaaaaaaaaaaaaaaaaaaa", "line -1 "};
    static const char *const bodies[] = {"{\"type\":\"stdout\",\"text\":\"x\"}", "0", "1", "999",
                                         "\n\n\x01\x02"};
    ABX_AUTO_BUF body = ABX_BUF(4096);
    ABX_AUTO_BUF frame = ABX_BUF(8192);
    PICK_TEXT(p, bodies, &body);
    size_t wrong = pick(p, 8); /* mostly right */
    unsigned long long n = wrong == 0 ? body.len + 1 : wrong == 1 ? body.len / 2 : body.len;
    if (wrong == 2)
        n = 1ull << (pick_byte(p) % 64);
    ABX_CHECK(abx_buf_addf(&frame, "%s %llu\n", words[pick(p, ABX_COUNT(words))], n) == 0);
    ABX_CHECK(abx_buf_add(&frame, body.data, body.len) == 0);
    say(k, ABX__END_CONTROL, frame.data, frame.len);
}

static void say_much(fake_kernel *k, picks *p)
{
    static char many[100000];
    size_t end = pick(p, ABX__END_COUNT);
    memset(many, 'x', sizeof(many));
    if (end == ABX__END_CONTROL)
        memcpy(many, "line 99988\n", 11);
    say(k, end, many, pick(p, 2) ? sizeof(many) : sizeof(many) / 3);
}

static void say_bytes(fake_kernel *k, picks *p)
{
    size_t n = 0, end = pick(p, ABX__END_COUNT);
    const uint8_t *bytes = pick_bytes(p, &n);
    say(k, end, bytes, n);
}

static void hear(const fake_kernel *k)
{
    char bytes[16384];
    while (k->pid && k->fds[ABX__END_CONTROL] >= 0 &&
           recv(k->fds[ABX__END_CONTROL], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

static void act(rig *r, picks *p)
{
    fake_kernel *k = &kernels[pick(p, KERNELS)];
    switch (pick(p, 16)) {
    case 0:
    case 1: ask_run(r, p); break;
    case 2: ask_context(r, p); break;
    case 3: ask_about(r, p); break;
    case 4: ask_pause(r, p); break;
    case 5: rig_hang_up(r, pick(p, RIG_CONNS)); break;
    case 6: rig_drain(r, pick(p, RIG_CONNS)); break;
    case 7:
    case 8:
    case 9: say_frame(k, p); break;
    case 10: say_bytes(k, p); break;
    case 11: say_much(k, p); break;
    case 12:
        if (k->pid)
            abx_close_fd(&k->fds[pick(p, ABX__END_COUNT)]);
        break;
    case 13: end_kernel(r, k, pick_byte(p) << (pick(p, 2) ? 8 : 0)); break;
    case 14: hear(k); break;
    default:
        if (pick(p, 8) == 0)
            (void)usleep(1100); /* a time limit of 1 ms is over then */
        break;
    }
    rig_turn(r);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    rig_prepare(argc, argv);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rig r;
    picks p = {data, size};
    started = 0;
    rig_open(&r);
    for (int i = 0; i < 300 && p.left > 0; i++)
        act(&r, &p);
    for (size_t i = 0; i < KERNELS; i++)
        if (pick(&p, 2))
            end_kernel(&r, &kernels[i], 9);
    rig_close(&r);
    for (size_t i = 0; i < KERNELS; i++)
        if (kernels[i].pid)
            let_go(&kernels[i]);
    return 0;
}
