/* The client's end of a connection to a port, against a server that answers anything and sends, closes and resets at any moment,
 * while the caller writes, pauses and cancels. Bytes behind a good answer arrive whole and in order. */
#include "client_rig.h"

static void send_head(client_rig *r, picks *p)
{
    static const char *const heads[] = {
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: abx-tunnel\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: abx-tunnel\r\n\r\n",
        "HTTP/1.1 101 x\r\n\r\n",
        "HTTP/1.1 502 Bad\r\nContent-Length: 31\r\n\r\n{\"code\":502,\"message\":\"nobody\"}\n",
        "HTTP/1.1 409 Bad\r\nContent-Length: 99999999999999999999\r\n\r\n{",
        "HTTP/1.1 429 Bad\r\ncontent-length: -1\r\n\r\n{\"message\":7}",
        "HTTP/1.1 401 Bad\r\n\r\n{\"message\":\"\\u001b[2J\"}",
        "HTTP/1.1 99999999999 x\r\n\r\n",
        "HTTP/2 101 x\r\n\r\n",
        "\r\n\r\n",
    };
    ABX_AUTO_BUF head = ABX_BUF(4096);
    PICK_TEXT(p, heads, &head);
    size_t cut = pick(p, 3) ? head.len : pick(p, head.len + 1);
    client_feed(r, head.data, cut);
    client_feed(r, head.data + cut, head.len - cut);
}

static void reset(int *fd)
{
    abx_close_fd(fd); /* with bytes unread that is a reset here too */
}

static void server_acts(client_rig *r, picks *p)
{
    static char many[200000];
    int *peer = client_peer(r);
    size_t n = 0;
    const uint8_t *bytes = NULL;
    switch (pick(p, 8)) {
    case 0:
    case 1:
        bytes = pick_bytes(p, &n);
        client_feed(r, bytes, n);
        break;
    case 2: client_feed(r, many, sizeof(many)); break;
    case 3: send_head(r, p); break;
    case 4:
        if (*peer >= 0)
            (void)shutdown(*peer, pick(p, 3));
        break;
    case 5:
        if (pick(p, 4) == 0)
            reset(peer);
        break;
    case 6: /* it reads nothing: what the caller writes has to wait */ break;
    default: client_feed(r, "", 0); break;
    }
}

static void caller_acts(client_rig *r, picks *p)
{
    static const char many[100000];
    if (!r->call)
        return;
    switch (pick(p, 8)) {
    case 0: (void)abx_call_write(r->call, "hello", 5); break;
    case 1: (void)abx_call_write(r->call, many, sizeof(many)); break;
    case 2: abx_call_write_end(r->call); break;
    case 3: r->pauses = !r->pauses; break;
    case 4:
        if (pick(p, 8) == 0)
            abx_call_cancel(r->call);
        break;
    case 5:
        if (pick(p, 8) == 0)
            abx_envd_client_gone(r->client);
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const params[] = {"{\"port\":80}", "{\"port\":65535}", "{\"port\":0}",
                                         "{\"port\":70000}"};
    client_rig r;
    picks p = {data, size};
    size_t which = pick(&p, ABX_COUNT(params));
    client_open(&r, pick(&p, 8) != 0);
    if (client_start(&r, "sandbox.tunnel", params[which]) == 0) {
        client_turn(&r);
        send_head(&r, &p);
        for (int i = 0; i < 200 && p.left > 0; i++) {
            if (pick(&p, 2))
                server_acts(&r, &p);
            else
                caller_acts(&r, &p);
            client_turn(&r);
        }
    }
    client_close(&r);
    return 0;
}
