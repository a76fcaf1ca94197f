#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/openssl_tables.h"
#include "net/http_server_inner.h"

enum {
    TLS_HANDSHAKE = 0x16, /* the first byte of each TLS connection */
    TLS_RECORD = 16 * 1024
};

/* One connection's TLS. ssl is made at the first byte, so that who only connects costs little. */
struct abx__tls_conn {
    const abx_tls *tls;
    SSL *ssl;
    bool shaking;  /* the handshake is not over */
    bool for_room; /* it, or reading, waits until the socket takes bytes */
    bool dry;      /* nothing more can be read without the socket */
    bool eof;      /* the peer has closed its sending side */
    bool broken;   /* no more words to the peer */
};

/* --- the socket under OpenSSL ------------------------------------------------------------------- */

/* Neither blocks nor raises SIGPIPE, which OpenSSL's own would. */
static int bio_write(BIO *b, const char *bytes, int n)
{
    abx__conn *c = BIO_get_data(b);
    ssize_t sent;

    BIO_clear_retry_flags(b);
    do
        sent = send(c->fd, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        c->sent = true;
    else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
        BIO_set_retry_write(b);
    return (int)sent;
}

static int bio_read(BIO *b, char *to, int n)
{
    abx__conn *c = BIO_get_data(b);
    ssize_t got;

    BIO_clear_retry_flags(b);
    do
        got = recv(c->fd, to, (size_t)n, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(b);
    c->tls->eof = c->tls->eof || got == 0;
    return (int)got;
}

static long bio_control(BIO *b, int command, long number, void *data)
{
    return command == BIO_CTRL_FLUSH ||
           (command == BIO_CTRL_EOF && ((abx__conn *)BIO_get_data(b))->tls->eof);
}

BIO_METHOD *abx__tls_socket(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "connection");

    ABX_CHECK(m);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_ctrl(m, bio_control);
    return m;
}

/* --- the life of a connection -------------------------------------------------------------------- */

void abx__tls_begin(abx__conn *c, const abx_tls *tls)
{
    c->tls = ABX_NEW(struct abx__tls_conn);
    c->tls->tls = tls;
    c->tls->shaking = true;
}

void abx__tls_end(abx__conn *c)
{
    struct abx__tls_conn *t = ABX_TAKE(c->tls);

    if (!t)
        return;
    SSL_free(t->ssl);
    ERR_clear_error();
    free(t);
}

bool abx__tls_is_shaking(const abx__conn *c)
{
    return c->tls && c->tls->shaking;
}

bool abx__tls_wants_room(const abx__conn *c)
{
    return c->tls && c->tls->for_room;
}

bool abx__tls_has_more(const abx__conn *c)
{
    return c->tls && !c->tls->shaking && !c->tls->dry && !c->linger;
}

void abx__tls_bye(abx__conn *c)
{
    struct abx__tls_conn *t = c->tls;

    if (!t || t->shaking || t->broken || abx__conn_backlog(c))
        return;
    t->broken = true;
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl); /* a courtesy: who is gone or takes nothing does without it */
}

static void start_ssl(abx__conn *c)
{
    struct abx__tls_conn *t = c->tls;
    abx_openssl_ready();
    BIO *b = BIO_new(abx__tls_method(t->tls));

    t->ssl = SSL_new(abx__tls_context(t->tls));
    ABX_CHECK(b && t->ssl);
    BIO_set_data(b, c);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b);
    SSL_set_accept_state(t->ssl);
}

/* After a call of OpenSSL that did not succeed. 0: it must wait; -1: it never will succeed. */
static int why_not(abx__conn *c, int rc)
{
    struct abx__tls_conn *t = c->tls;

    t->for_room = false;
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ: return 0;
    case SSL_ERROR_WANT_WRITE: t->for_room = true; return 0;
    default: t->broken = true; return -1;
    }
}

/* HTTP in the clear on a port for TLS: said in the clear, since nothing else would be understood. */
static void refuse_plain(abx__conn *c)
{
    abx__tls_end(c);
    abx__answer_refuse_with(c, 400,
                            "this port speaks https, and this request came over plain http");
}

/* Look at the first byte. True: it may be TLS. */
static bool looks_like_tls(abx__conn *c)
{
    uint8_t first;
    ssize_t n = recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n <= 0)
        abx__conn_kill(c, false);
    else if (first >= 'A' && first <= 'Z')
        refuse_plain(c);
    else
        return true;
    return false;
}

bool abx__tls_shake(abx__conn *c)
{
    struct abx__tls_conn *t = c->tls;

    if (!t->ssl) {
        if (!looks_like_tls(c))
            return false;
        start_ssl(c);
    }
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    if (rc == 1) {
        t->shaking = t->for_room = false;
        return true;
    }
    if (why_not(c, rc) < 0) {
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        abx_logf(c->server->options.log, ABX_LOG_DEBUG, "tls handshake failed: %s",
                 reason ? reason : "the peer is gone");
        abx__conn_kill(c, false);
    }
    return false;
}

/* --- bytes -------------------------------------------------------------------------------------- */

ssize_t abx__tls_recv(abx__conn *c, uint8_t *to, size_t room)
{
    struct abx__tls_conn *t = c->tls;
    size_t got = 0;

    t->dry = false;
    while (got < room) {
        ERR_clear_error();
        int n = SSL_read(t->ssl, to + got, (int)(room - got));
        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        if (SSL_get_error(t->ssl, n) == SSL_ERROR_ZERO_RETURN) {
            t->dry = got == 0; /* the end is told by the next call */
            return (ssize_t)got;
        }
        int rc = why_not(c, n);
        t->dry = got == 0 || rc == 0;
        if (got)
            break;
        errno = rc == 0 ? EAGAIN : ECONNRESET;
        return -1;
    }
    return (ssize_t)got;
}

/* The next record: of one large piece where it lies, of small pieces in the server's buffer. */
static size_t next_record(abx__conn *c, const struct iovec *pieces, int count, int i, size_t at,
                          const uint8_t **bytes)
{
    abx_http_server *s = c->server;
    size_t n = 0;

    *bytes = (const uint8_t *)pieces[i].iov_base + at;
    if (pieces[i].iov_len - at >= TLS_RECORD || i == count - 1)
        return pieces[i].iov_len - at < TLS_RECORD ? pieces[i].iov_len - at : TLS_RECORD;
    if (!s->record)
        s->record = abx_alloc(TLS_RECORD);
    for (; i < count && n < TLS_RECORD; i++, at = 0) {
        size_t more = pieces[i].iov_len - at;
        if (more > TLS_RECORD - n)
            more = TLS_RECORD - n;
        memcpy(s->record + n, (const uint8_t *)pieces[i].iov_base + at, more);
        n += more;
    }
    *bytes = s->record;
    return n;
}

/* A record that the socket did not take whole counts as not sent: the caller keeps its bytes, and the next call
 * begins with them, as OpenSSL wants it. */
size_t abx__tls_send(abx__conn *c, const struct iovec *pieces, int count)
{
    struct abx__tls_conn *t = c->tls;
    size_t done = 0, at = 0;

    for (int i = 0; i < count && !t->broken;) {
        const uint8_t *bytes;
        if (at >= pieces[i].iov_len) {
            at -= pieces[i++].iov_len;
            continue;
        }
        size_t n = next_record(c, pieces, count, i, at, &bytes);
        ERR_clear_error();
        int sent = SSL_write(t->ssl, bytes, (int)n);
        if (sent <= 0) {
            if (why_not(c, sent) < 0)
                abx__conn_kill(c, false);
            t->for_room = false; /* what is kept for later asks for room by itself */
            break;
        }
        done += (size_t)sent;
        at += (size_t)sent;
    }
    return done;
}
