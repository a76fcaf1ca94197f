#include <string.h>

#include "net/http_server_inner.h"
#include "wire/sse.h"

void abx_sse_start(abx_exchange *x)
{
    static const char *const headers[] = {"Content-Type: text/event-stream",
                                          "Cache-Control: no-cache"};

    x->is_sse = true;
    abx_exchange_head(x, 200, headers, ABX_COUNT(headers), -1);
}

static int send_text(abx_exchange *x, const abx_buf *text)
{
    return abx_exchange_write(x, text->data, text->len);
}

int abx_sse_send(abx_exchange *x, const char *event, const char *id, const char *data, size_t n)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX);

    abx_sse_format(&text, event, id, data, n);
    return send_text(x, &text);
}

int abx_sse_comment(abx_exchange *x, const char *comment)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX);

    abx_sse_format_comment(&text, comment);
    return send_text(x, &text);
}

/* A comment makes a peer that is gone answer with a reset; one that listens ignores it. */
void abx__sse_peer_eof(abx_exchange *x)
{
    abx_sse_comment(x, "");
}
