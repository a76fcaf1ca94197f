#include "local/envd/code_inner.h"

#include <string.h>

#include "wire/base64.h"

enum { MAX_LINE = 256 * 1024 }; /* of ours: a chunk of output at most */

static int send_tree(abx__run *r, yyjson_mut_val *root)
{
    ABX_AUTO_BUF line = ABX_BUF((size_t)1024 * 1024);
    if (abx_json_write_mut(root, &line) < 0 || abx_buf_add_byte(&line, '\n') < 0)
        return 1;
    return abx_e2b_send_lines(r->call, line.data, line.len);
}

/* Whose line was cut off in the middle gets it closed: no line of ours becomes a part of it. */
static void close_line(abx__run *r)
{
    if (!r->in_line)
        return;
    r->in_line = false;
    (void)abx_e2b_send_lines(r->call, "\n", 1);
}

/* Text for clients that know only text: what is no UTF-8 is replaced. */
static void put_replaced(yyjson_mut_doc *d, yyjson_mut_val *o, const uint8_t *bytes, size_t n)
{
    ABX_AUTO_BUF out = ABX_BUF((size_t)4 * MAX_LINE);
    for (size_t at = 0; at < n;) {
        size_t len = 1;
        while (len < 4 && at + len < n && (bytes[at + len] & 0xc0) == 0x80)
            len++;
        bool valid = abx_utf8_valid(bytes + at, len);
        if ((valid ? abx_buf_add(&out, bytes + at, len) : abx_buf_add_str(&out, "\xef\xbf\xbd")) <
            0)
            break;
        at += valid ? len : 1;
    }
    abx_mut_strn(d, o, "text", abx_buf_cstr(&out), out.len);
}

static int send_output(abx__run *r, size_t stream, const uint8_t *bytes, size_t n)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", stream == 0 ? "stdout" : "stderr");
    if (abx_utf8_valid(bytes, n)) {
        abx_mut_strn(d, root, "text", (const char *)bytes, n);
    } else if (r->abx) {
        ABX_AUTO_FREE char *text = abx_base64_text(bytes, n, ABX_BASE64_STANDARD, true);
        abx_mut_str(d, root, "abxBase64", text);
    } else {
        put_replaced(d, root, bytes, n);
    }
    if (!r->abx) {
        char now[ABX_RFC3339_SIZE];
        abx_format_rfc3339(abx_now_wall_ms(), now);
        abx_mut_str(d, root, "timestamp", now);
    }
    return send_tree(r, root);
}

int abx__line_output(abx__run *r, size_t stream, const uint8_t *bytes, size_t n)
{
    if (!r->call)
        return 1;
    close_line(r);
    ABX_AUTO_BUF out = ABX_BUF((size_t)MAX_LINE);
    if (!abx_utf8_tail_join(&r->tails[stream], bytes, n, false, &out))
        return 1;
    return send_output(r, stream, out.data, out.len);
}

void abx__line_tails(abx__run *r)
{
    if (!r->call)
        return;
    close_line(r);
    for (size_t i = 0; i < 2; i++) {
        ABX_AUTO_BUF out = ABX_BUF((size_t)MAX_LINE);
        if (abx_utf8_tail_join(&r->tails[i], "", 0, true, &out))
            (void)send_output(r, i, out.data, out.len);
    }
}

void abx__line_error(abx__run *r, const char *name, const char *value, int exit_code)
{
    if (!r->call)
        return;
    abx__line_tails(r);
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "error");
    abx_mut_str(d, root, "name", name);
    abx_mut_str(d, root, "value", value);
    abx_mut_str(d, root, "traceback", "");
    if (r->abx && exit_code >= 0)
        abx_mut_int(d, root, "abxExitCode", exit_code);
    (void)send_tree(r, root);
}

void abx__line_end(abx__run *r, const char *fresh)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "type", "end_of_execution");
    if (r->abx) {
        abx_mut_str(d, root, "abxContext", r->context->id);
        abx_mut_str(d, root, "abxLanguage", r->context->language->name);
        if (r->timed_out)
            abx_mut_bool(d, root, "abxTimedOut", true);
        if (r->state_lost)
            abx_mut_bool(d, root, "abxStateLost", true);
        abx_mut_str(d, root, "abxFresh", fresh);
    }
    (void)send_tree(r, root);
}

void abx__context_put(const abx__context *c, yyjson_mut_doc *d, yyjson_mut_val *o)
{
    ABX_AUTO_FREE char *cwd =
        abx_utf8_valid(c->cwd, strlen(c->cwd)) ? abx_strdup(c->cwd) : abx_printable(c->cwd);
    abx_mut_str(d, o, "id", c->id);
    abx_mut_str(d, o, "language", c->language->name);
    abx_mut_str(d, o, "cwd", cwd);
}
