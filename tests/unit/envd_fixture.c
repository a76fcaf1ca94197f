#include "envd_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "wire/base64.h"

static void on_end(void *data)
{
    ((envd_fixture *)data)->ended = true;
}

void fixture_open(envd_fixture *f, const abx_envd_config *config)
{
    ABX_CHECK(uv_loop_init(&f->loop) == 0);
    (void)snprintf(f->home, sizeof(f->home), "/tmp/abx-envd-XXXXXX");
    ABX_CHECK(mkdtemp(f->home) != NULL);
    (void)snprintf(f->passwd, sizeof(f->passwd), "%s.passwd", f->home);
    FILE *p = fopen(f->passwd, "we");
    ABX_CHECK(p != NULL);
    (void)fprintf(p, "user:x:%d:%d::%s:/bin/bash\nroot:x:0:0:root:/root:/bin/bash\n", getuid(),
                  getgid(), f->home);
    (void)fclose(p);
    static const char *const env[] = {"G=1", NULL};
    abx_envd_config own = {.listen_fd = -1, .first_fd = -1, .timeout_ms = ABX_FOREVER};
    if (config)
        own = *config;
    own.lock_fd = own.log_fd = -1;
    own.id = "test";
    own.token = f->token;
    own.env = own.env ? own.env : env;
    own.passwd = f->passwd;
    ABX_AUTO_ERROR err = NULL;
    if (abx_envd_open(&f->loop, &own, on_end, f, &f->envd, &err) < 0) {
        (void)fprintf(stderr, "%s\n", abx_error_text(err));
        abort();
    }
}

static void on_closed(void *data)
{
    ((envd_fixture *)data)->closed = true;
}

void fixture_close(envd_fixture *f)
{
    abx_envd_close(f->envd, on_closed, f);
    for (int i = 0; i < 1000 && uv_run(&f->loop, UV_RUN_ONCE) != 0; i++)
        ;
    ABX_CHECK(f->closed);
    ABX_CHECK(uv_loop_close(&f->loop) == 0);
    ABX_CHECK(abx_remove_tree_at(AT_FDCWD, f->home, NULL) == 0);
    (void)unlink(f->passwd);
}

int fixture_connect(envd_fixture *f)
{
    int fds[2];
    ABX_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    ABX_CHECK(abx_envd_adopt(f->envd, fds[1], NULL) == 0);
    return fds[0];
}

static void wake(uv_timer_t *t)
{
    (void)t;
}

static bool read_some(int fd, abx_buf *out, bool *eof)
{
    uint8_t bytes[64 * 1024];
    bool any = false;
    for (;;) {
        ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
        if (n <= 0) {
            *eof = *eof || n == 0 || (n < 0 && fd >= 0 && errno != EAGAIN);
            return any;
        }
        any = true;
        ABX_CHECK(abx_buf_add(out, bytes, (size_t)n) == 0);
    }
}

/* One turn of the loop, at most 5 ms long. */
static void turn(envd_fixture *f)
{
    uv_timer_t t;
    ABX_CHECK(uv_timer_init(&f->loop, &t) == 0);
    ABX_CHECK(uv_timer_start(&t, wake, 5, 0) == 0);
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&t, NULL);
    (void)uv_run(&f->loop, UV_RUN_NOWAIT);
}

void fixture_turn(envd_fixture *f, int fd, abx_buf *out, int ms)
{
    bool eof = false;
    for (uint64_t end = abx_now_mono_ms() + (uint64_t)ms; abx_now_mono_ms() < end;) {
        turn(f);
        (void)read_some(fd, out, &eof);
    }
}

static int status_of(const abx_buf *raw)
{
    int status = 0;
    return sscanf(abx_buf_cstr(raw), "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static bool is_whole(const abx_buf *raw)
{
    const char *text = abx_buf_cstr(raw);
    const char *end = strstr(text, "\r\n\r\n");
    if (!end)
        return false;
    int status = status_of(raw);
    if (status == 204 || status == 304)
        return true;
    size_t head = (size_t)(end + 4 - text);
    const char *len = strcasestr(text, "\r\ncontent-length:");
    if (len && len < end)
        return raw->len - head >= strtoull(len + 17, NULL, 10);
    return raw->len >= 5 && memcmp(raw->data + raw->len - 5, "0\r\n\r\n", 5) == 0;
}

int fixture_ask(envd_fixture *f, int fd, const char *text, size_t n, abx_buf *out, int ms)
{
    bool eof = false;
    uint64_t end = abx_now_mono_ms() + (uint64_t)ms;
    while (abx_now_mono_ms() < end && !eof) {
        while (n > 0) {
            ssize_t put = send(fd, text, n, MSG_NOSIGNAL);
            if (put <= 0)
                break;
            text += put;
            n -= (size_t)put;
        }
        turn(f);
        (void)read_some(fd, out, &eof);
        if (n == 0 && is_whole(out))
            break;
    }
    return status_of(out);
}

int fixture_call(envd_fixture *f, const char *verb, const char *target, const char *headers,
                 const void *body, size_t n, abx_buf *out)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    ABX_CHECK(abx_buf_addf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n%s", verb, target, headers) == 0);
    if (f->token)
        ABX_CHECK(abx_buf_addf(&text, "X-Access-Token: %s\r\n", f->token) == 0);
    if (body)
        ABX_CHECK(abx_buf_addf(&text, "Content-Length: %zu\r\n", n) == 0);
    ABX_CHECK(abx_buf_add_str(&text, "\r\n") == 0);
    if (body)
        ABX_CHECK(abx_buf_add(&text, body, n) == 0);
    int fd = fixture_connect(f);
    int status = fixture_ask(f, fd, (const char *)text.data, text.len, out, 30000);
    close(fd);
    return status;
}

void fixture_body(const abx_buf *raw, abx_buf *body)
{
    const char *text = abx_buf_cstr(raw);
    const char *at = strstr(text, "\r\n\r\n");
    if (!at)
        return;
    bool chunked = memmem(text, (size_t)(at - text), "chunked", 7) != NULL;
    at += 4;
    const char *end = text + raw->len;
    if (!chunked) {
        ABX_CHECK(abx_buf_add(body, at, (size_t)(end - at)) == 0);
        return;
    }
    while (at < end) {
        char *next = NULL;
        size_t n = strtoull(at, &next, 16);
        if (n == 0 || next + 2 + n > end)
            return;
        ABX_CHECK(abx_buf_add(body, next + 2, n) == 0);
        at = next + 2 + n + 2;
    }
}

int fixture_rpc(envd_fixture *f, const char *path, bool stream, const char *json, abx_buf *out)
{
    ABX_AUTO_BUF text = ABX_BUF(SIZE_MAX / 2);
    ABX_AUTO_BUF raw = ABX_BUF(SIZE_MAX / 2);
    size_t n = strlen(json);
    uint8_t head[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    if (stream)
        ABX_CHECK(abx_buf_add(&text, head, 5) == 0);
    ABX_CHECK(abx_buf_add(&text, json, n) == 0);
    int status = fixture_call(f, "POST", path,
                              stream ? "Content-Type: application/connect+json\r\n"
                                     : "Content-Type: application/json\r\n",
                              text.data, text.len, &raw);
    fixture_body(&raw, out);
    return status;
}

int fixture_frame(const abx_buf *body, size_t k, const char **json, size_t *n)
{
    for (size_t at = 0; at + 5 <= body->len; k--) {
        const uint8_t *h = body->data + at;
        size_t len = (size_t)h[1] << 24 | (size_t)h[2] << 16 | (size_t)h[3] << 8 | h[4];
        if (at + 5 + len > body->len)
            return -1;
        if (k == 0) {
            *json = (const char *)h + 5;
            *n = len;
            return h[0];
        }
        at += 5 + len;
    }
    return -1;
}

void fixture_data(const abx_buf *body, const char *member, abx_buf *out)
{
    const char *json = NULL;
    size_t n = 0;
    for (size_t k = 0; fixture_frame(body, k, &json, &n) >= 0; k++) {
        ABX_AUTO_JSON d = abx_json_parse(json, n, ABX_ERR_USAGE, "frame", NULL);
        yyjson_val *data = abx_json_get(abx_json_get(yyjson_doc_get_root(d), "event"), "data");
        const char *text = abx_json_str(data, member, NULL);
        size_t len = 0;
        uint8_t *bytes =
            text ? abx_base64_bytes(text, strlen(text), ABX_BASE64_STANDARD, &len) : NULL;
        if (bytes)
            ABX_CHECK(abx_buf_add(out, bytes, len) == 0);
        free(bytes);
    }
}

char *fixture_frame_with(const abx_buf *body, const char *text)
{
    const char *json = NULL;
    size_t n = 0;
    for (size_t k = 0; fixture_frame(body, k, &json, &n) >= 0; k++)
        if (memmem(json, n, text, strlen(text)))
            return abx_strndup(json, n);
    return NULL;
}
