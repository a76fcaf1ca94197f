/* envd's tunnels between a hostile client and a hostile server inside, while the sandbox is paused, held, given other times and
 * asked for its figures, with odd values in all of it. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "envd_rig.h"

#define SERVERS  3 /* ports 7001 and 7002 on 127.0.0.1, 7003 on ::1 */
#define ACCEPTED 4

static int listeners[SERVERS];
static int accepted[ACCEPTED];

static int listen_on(int port, bool v6)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int one = 1;
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ABX_CHECK(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (v6)
        ABX_CHECK(bind(fd, (struct sockaddr *)&a6, sizeof(a6)) == 0);
    else
        ABX_CHECK(bind(fd, (struct sockaddr *)&a4, sizeof(a4)) == 0);
    ABX_CHECK(listen(fd, 16) == 0);
    return fd;
}

/* --- the client ------------------------------------------------------------------------------------------- */
static void ask_tunnel(rig *r, picks *p)
{
    static const char *const ports[] = {"7001",  "7001", "7002", "7003", "7004",           "0",
                                        "65536", "-1",   "x",    "",     "7001&port=7002", "%37001",
                                        "1e3"};
    static const char *const heads[] = {
        "Connection: Upgrade\r\nUpgrade: abx-tunnel\r\n",
        "Connection: Upgrade\r\nUpgrade: abx-tunnel\r\n",
        "Connection: keep-alive, upgrade\r\nUpgrade: a, abx-tunnel\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "Upgrade: abx-tunnel\r\n",
        "Connection: Upgrade\r\nUpgrade: abx-tunnel\r\nContent-Length: 3\r\n",
        ""};
    ABX_AUTO_BUF text = ABX_BUF(4096);
    size_t n = 0, i = pick(p, RIG_CONNS);
    ABX_CHECK(abx_buf_addf(&text, "GET /abx/tunnel?port=%s HTTP/1.1\r\nHost: x\r\n%s\r\n",
                           ports[pick(p, ABX_COUNT(ports))],
                           heads[pick(p, ABX_COUNT(heads))]) == 0);
    if (pick(p, 4) == 0) { /* more than it may send before the answer */
        const uint8_t *bytes = pick_bytes(p, &n);
        ABX_CHECK(abx_buf_add(&text, bytes, n) == 0);
    }
    rig_send(r, i, text.data, text.len);
}

static void ask_state(rig *r, picks *p)
{
    static const char *const paths[] = {"/abx/pause",   "/abx/resume",          "/abx/timeout",
                                        "/abx/metrics", "/abx/ports",           "/abx/info",
                                        "/metrics",     "/process.Process/List"};
    static const char *const names[] = {"timeoutMs", "holdMs", "renew", "held", "x"};
    static const char *const values[] = {"0",
                                         "1",
                                         "2",
                                         "true",
                                         "false",
                                         "null",
                                         "-1",
                                         "1e99",
                                         "\"5\"",
                                         "{}",
                                         "[1]",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "60000"};
    ABX_AUTO_BUF body = ABX_BUF(4096);
    const char *path = paths[pick(p, ABX_COUNT(paths))];
    ABX_CHECK(abx_buf_add_byte(&body, '{') == 0);
    for (size_t i = 0, n = pick(p, 4); i < n; i++)
        ABX_CHECK(abx_buf_addf(&body, "%s\"%s\":%s", i ? "," : "", names[pick(p, ABX_COUNT(names))],
                               values[pick(p, ABX_COUNT(values))]) == 0);
    if (pick(p, 8))
        ABX_CHECK(abx_buf_add_byte(&body, '}') == 0);
    bool get = strcmp(path, "/abx/info") == 0 || strcmp(path, "/metrics") == 0;
    rig_ask(r, pick(p, RIG_CONNS), get ? "GET" : "POST", path, pick(p, 2) ? "X-Abx: 1\r\n" : "",
            &body);
}

static void ask_start(rig *r, picks *p)
{
    static const char json[] =
        "{\"process\":{\"cmd\":\"/bin/sleep\",\"args\":[\"100\"]},\"abxBackground\":true}";
    ABX_AUTO_BUF body = ABX_BUF(4096);
    uint8_t head[5] = {0, 0, 0, 0, sizeof(json) - 1};
    ABX_CHECK(abx_buf_add(&body, head, 5) == 0 && abx_buf_add_str(&body, json) == 0);
    ABX_AUTO_BUF text = ABX_BUF(4096);
    ABX_CHECK(
        abx_buf_addf(&text,
                     "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
                     "Content-Type: application/connect+json\r\n\r\n",
                     body.len) == 0);
    ABX_CHECK(abx_buf_add(&text, body.data, body.len) == 0);
    rig_send(r, pick(p, RIG_CONNS), text.data, text.len);
}

static void client_acts(rig *r, picks *p)
{
    size_t i = pick(p, RIG_CONNS), n = 0;
    const uint8_t *bytes = NULL;
    switch (pick(p, 4)) {
    case 0:
        bytes = pick_bytes(p, &n);
        rig_send(r, i, bytes, n);
        break;
    case 1: rig_drain(r, i); break;
    case 2:
        if (r->conns[i] >= 0)
            (void)shutdown(r->conns[i], pick(p, 3));
        break;
    default: rig_hang_up(r, i); break;
    }
}

/* --- the server inside ------------------------------------------------------------------------------------- */
static void accept_one(picks *p)
{
    int fd = accept4(listeners[pick(p, SERVERS)], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    size_t i = pick(p, ACCEPTED);
    if (fd < 0)
        return;
    abx_close_fd(&accepted[i]);
    accepted[i] = fd;
}

static void reset(int *fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    abx_close_fd(fd);
}

static void server_acts(picks *p)
{
    static char many[300000];
    char got[16384];
    int *fd = &accepted[pick(p, ACCEPTED)];
    size_t n = 0;
    const uint8_t *bytes = NULL;
    if (*fd < 0)
        return;
    switch (pick(p, 7)) {
    case 0:
        bytes = pick_bytes(p, &n);
        (void)!send(*fd, bytes, n, MSG_NOSIGNAL);
        break;
    case 1: (void)!send(*fd, many, sizeof(many), MSG_NOSIGNAL); break;
    case 2: (void)!send(*fd, "u", 1, MSG_NOSIGNAL | MSG_OOB); break;
    case 3:
        while (recv(*fd, got, sizeof(got), 0) > 0)
            ;
        break;
    case 4: (void)shutdown(*fd, pick(p, 3)); break;
    case 5: reset(fd); break;
    default: abx_close_fd(fd); break;
    }
}

static void act(rig *r, picks *p)
{
    switch (pick(p, 12)) {
    case 0:
    case 1:
    case 2: ask_tunnel(r, p); break;
    case 3:
    case 4: ask_state(r, p); break;
    case 5:
        if (pick(p, 8) == 0)
            ask_start(r, p);
        break;
    case 6:
    case 7: client_acts(r, p); break;
    case 8: accept_one(p); break;
    case 9:
    case 10: server_acts(p); break;
    default:
        if (pick(p, 8) == 0)
            (void)usleep(1100);
        break;
    }
    rig_turn(r);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    rig_prepare(argc, argv);
    for (int i = 0; i < SERVERS; i++)
        listeners[i] = listen_on(7001 + i, i == 2);
    for (size_t i = 0; i < ACCEPTED; i++)
        accepted[i] = -1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rig r;
    picks p = {data, size};
    rig_open(&r);
    for (int i = 0; i < 300 && p.left > 0; i++)
        act(&r, &p);
    rig_close(&r);
    for (size_t i = 0; i < ACCEPTED; i++)
        if (accepted[i] >= 0)
            reset(&accepted[i]);
    for (size_t i = 0; i < SERVERS; i++)
        for (int fd; (fd = accept4(listeners[i], NULL, NULL, SOCK_CLOEXEC)) >= 0;)
            reset(&fd);
    return 0;
}
