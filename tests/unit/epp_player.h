/* Exchanges of EPP/1 as docs/providers/epp.md shows them, line by line. */
#ifndef TESTS_EPP_PLAYER_H
#define TESTS_EPP_PLAYER_H

#include "kit.h"

#include "base/json.h"
#include "base/text.h"

typedef struct epp_line {
    bool by_host;    /* '>' */
    yyjson_doc *doc; /* NULL: raw bytes */
    yyjson_val *message;
    abx_buf raw;
    int number; /* in the file */
} epp_line;

enum { EPP_LINES = 64 };

typedef struct epp_block {
    epp_line lines[EPP_LINES];
    size_t count;
    bool greets; /* begins with initialize */
} epp_block;

static inline const char *epp_method(const epp_line *l)
{
    return l->doc ? abx_json_str(l->message, "method", NULL) : NULL;
}

static inline uint64_t epp_number(yyjson_val *obj, const char *key)
{
    return (uint64_t)abx_json_int(obj, key, 0);
}

/* "hello\n" or "600000 bytes" */
static inline void epp_raw(epp_line *l, const char *text)
{
    long n = 0;
    abx_buf_init(&l->raw, (size_t)1 << 21);
    if (sscanf(text, "%ld bytes", &n) == 1) {
        for (long i = 0; i < n; i++)
            assert_int_equal(abx_buf_add_byte(&l->raw, 'x'), 0);
        return;
    }
    for (; *text && *text != '\n'; text++) {
        bool newline = text[0] == '\\' && text[1] == 'n';
        assert_int_equal(abx_buf_add_byte(&l->raw, newline ? '\n' : (uint8_t)*text), 0);
        text += newline;
    }
}

static inline void epp_add(epp_block *b, const char *line, size_t n, int number)
{
    assert_true(b->count < EPP_LINES && n > 2);
    epp_line *l = &b->lines[b->count++];
    memset(l, 0, sizeof *l);
    l->by_host = line[0] == '>';
    l->number = number;
    if (strncmp(line, "<raw ", 5) == 0) {
        epp_raw(l, line + 5);
        return;
    }
    abx_error *err = NULL;
    l->doc = abx_json_parse(line + 2, n - 2, ABX_ERR_USAGE, "the example", &err);
    if (!l->doc)
        fail_msg("line %d: %s", number, abx_error_text(err));
    l->message = yyjson_doc_get_root(l->doc);
    if (b->count == 1)
        b->greets = abx_str_eq(epp_method(l), "initialize");
}

static inline void epp_block_clear(epp_block *b)
{
    for (size_t i = 0; i < b->count; i++) {
        yyjson_doc_free(b->lines[i].doc);
        abx_buf_clear(&b->lines[i].raw);
    }
    b->count = 0;
}

/* Calls play for each block of the page. Returns how many there were. */
static inline int epp_each_block(void (*play)(epp_block *b))
{
    static epp_block b;
    abx_buf text = ABX_BUF(0);
    assert_int_equal(abx_read_file("docs/providers/epp.md", (size_t)1 << 22, &text, NULL), 0);
    int blocks = 0, number = 0;
    bool inside = false;
    const char *at = abx_buf_cstr(&text);
    while (*at) {
        size_t n = strcspn(at, "\n");
        number++;
        if (inside && n == 3 && strncmp(at, "```", 3) == 0) {
            play(&b);
            epp_block_clear(&b);
            inside = false;
            blocks++;
        } else if (inside) {
            epp_add(&b, at, n, number);
        } else if (n == 6 && strncmp(at, "```epp", 6) == 0) {
            inside = true;
        }
        at += n + (at[n] == '\n');
    }
    abx_buf_clear(&text);
    return blocks;
}

/* Equal JSON, where absent and false are the same for raw and flow. */
static inline void epp_assert_equal(const epp_line *want, yyjson_val *got)
{
    ABX_AUTO_FREE char *a = abx_json_text(want->message), *b = abx_json_text(got);
    if (!yyjson_equals(want->message, got))
        fail_msg("line %d: wanted %s, got %s", want->number, a, b);
}

#endif
