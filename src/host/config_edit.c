/* Changes of a TOML text in place: only the bytes of one key and its value change, so that comments and the layout
 * stay. Positions come from the parser; the caller parses the result again before it is written. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/config_inner.h"

#define PARTS_MAX 8

/* The text and what is to be changed in it. */
typedef struct edit {
    const char *text;
    size_t n;
    abx_toml_node *root;
    char *path; /* the key, cut into parts */
    const char *parts[PARTS_MAX];
    size_t count;
    abx_buf *out;
} edit;

static int fail_by_hand(abx_error **err)
{
    abx_fail(err, ABX_ERR_CONFIG, "the file cannot be changed in place");
    return abx_hint(err, "edit it by hand");
}

static int edit_init(edit *e, const char *text, size_t n, const char *key, abx_buf *out,
                     abx_error **err)
{
    *e = (edit){.text = text, .n = n, .out = out};
    abx_toml_error why;
    if (abx_toml_parse(text, n, &e->root, &why) < 0)
        return abx_fail(err, ABX_ERR_CONFIG, "line %u, column %u: %s", why.line, why.column,
                        why.text);
    e->path = abx_strdup(key);
    for (char *p = e->path; p && e->count < PARTS_MAX; e->count++) {
        e->parts[e->count] = p;
        p = strchr(p, '.');
        if (p)
            *p++ = 0;
    }
    return 0;
}

static void edit_clear(edit *e)
{
    abx_toml_free(e->root);
    free(e->path);
}

/* The node of the first `depth` parts, or NULL. */
static abx_toml_node *at_depth(const edit *e, size_t depth)
{
    abx_toml_node *node = e->root;
    for (size_t i = 0; i < depth && node; i++)
        node = abx_toml_get(node, e->parts[i]);
    return node;
}

/* Replace the bytes from..to. 0, or -1 when the result is too long. */
static int splice(const edit *e, size_t from, size_t to, const char *with, abx_error **err)
{
    if (abx_buf_add(e->out, e->text, from) < 0 || abx_buf_add_str(e->out, with) < 0 ||
        abx_buf_add(e->out, e->text + to, e->n - to) < 0)
        return abx_fail(err, ABX_ERR_CONFIG, "the file would be over 256 KiB");
    return 0;
}

/* Behind the newline of the line that holds `at`; the end where there is none. */
static size_t next_line(const edit *e, size_t at)
{
    const char *newline = at < e->n ? memchr(e->text + at, '\n', e->n - at) : NULL;
    return newline ? (size_t)(newline - e->text) + 1 : e->n;
}

static size_t line_begin(const edit *e, size_t at)
{
    while (at > 0 && e->text[at - 1] != '\n')
        at--;
    return at;
}

/* A line (without newline) put in at the beginning of a line, or at the end of the text. */
static int insert_line(const edit *e, size_t at, const char *line, abx_error **err)
{
    bool open_end = at == e->n && at > 0 && e->text[at - 1] != '\n';
    ABX_AUTO_FREE char *whole = abx_format("%s%s\n", open_end ? "\n" : "", line);
    return splice(e, at, at, whole, err);
}

/* --- set -------------------------------------------------------------------------------------------- */

/* True if the table was opened by a [header] of its own, not as part of a longer one. */
static bool has_header(const edit *e, const abx_toml_node *table, size_t depth)
{
    size_t parts = 1;
    char quote = 0;
    if (table->is_inline || table->value_begin >= e->n || e->text[table->value_begin] != '[')
        return false;
    for (size_t i = table->value_begin; i < table->value_end && i < e->n; i++) {
        char c = e->text[i];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else
            parts += c == '.';
    }
    return parts == depth;
}

/* The last member that is a plain value on lines of its own. */
static const abx_toml_node *last_value(const abx_toml_node *table)
{
    for (size_t i = table->count; i-- > 0;)
        if (table->children[i].type != ABX_TOML_TABLE || table->children[i].is_inline)
            return &table->children[i];
    return NULL;
}

static int insert_inline(const edit *e, const abx_toml_node *table, const char *line,
                         abx_error **err)
{
    size_t at = table->value_end - 1; /* the closing brace */
    while (at > 0 && (e->text[at - 1] == ' ' || e->text[at - 1] == '\t'))
        at--;
    ABX_AUTO_FREE char *with = abx_format("%s%s ", table->count ? ", " : " ", line);
    return splice(e, at, table->value_end - 1, with, err);
}

/* Into an empty top level: behind a comment that opens the file and is followed by an empty line. */
static int insert_top(const edit *e, const char *line, abx_error **err)
{
    size_t at = 0;
    while (at < e->n && e->text[at] == '#')
        at = next_line(e, at);
    if (at < e->n && e->text[at] == '\n')
        at++;
    else if (at < e->n)
        at = 0;
    bool gap = at < e->n && e->text[at] != '\n' && e->text[at] != '\r';
    ABX_AUTO_FREE char *with = abx_format("%s%s", line, gap ? "\n" : "");
    return insert_line(e, at, with, err);
}

static int append_table(const edit *e, const char *line, abx_error **err)
{
    ABX_AUTO_BUF name = ABX_BUF(4096);
    for (size_t i = 0; i + 1 < e->count; i++)
        if (abx_buf_addf(&name, "%s%s", i ? "." : "", e->parts[i]) < 0)
            return fail_by_hand(err);
    ABX_AUTO_FREE char *with =
        abx_format("%s[%s]\n%s", e->n ? "\n" : "", abx_buf_cstr(&name), line);
    return insert_line(e, e->n, with, err);
}

static int add_key(const edit *e, const char *literal, abx_error **err)
{
    const char *last = e->parts[e->count - 1];
    ABX_AUTO_FREE char *line = abx_format("%s = %s", last, literal);
    const abx_toml_node *table = at_depth(e, e->count - 1);
    if (table && table->type != ABX_TOML_TABLE)
        return fail_by_hand(err);
    if (table && table->is_inline)
        return insert_inline(e, table, line, err);
    const abx_toml_node *sibling = table ? last_value(table) : NULL;
    if (sibling) { /* written as its neighbour: the same indent, the same dotted key in front */
        size_t from = line_begin(e, sibling->key_begin);
        ABX_AUTO_FREE char *with =
            abx_format("%.*s%s", (int)(sibling->key_begin - from), e->text + from, line);
        return insert_line(e, next_line(e, sibling->value_end), with, err);
    }
    if (table == e->root)
        return insert_top(e, line, err);
    if (table && has_header(e, table, e->count - 1))
        return insert_line(e, next_line(e, table->value_end), line, err);
    return append_table(e, line, err);
}

int abx__config_edit_set(const char *text, size_t n, const char *key, const char *literal,
                         abx_buf *out, abx_error **err)
{
    edit e;
    if (edit_init(&e, text, n, key, out, err) < 0)
        return -1;
    const abx_toml_node *old = at_depth(&e, e.count);
    int rc;
    if (!old)
        rc = add_key(&e, literal, err);
    else if (old->type == ABX_TOML_TABLE || old->type == ABX_TOML_ARRAY)
        rc = fail_by_hand(err);
    else
        rc = splice(&e, old->value_begin, old->value_end, literal, err);
    edit_clear(&e);
    return rc;
}

/* --- unset ------------------------------------------------------------------------------------------ */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Out of { a = 1, b = 2 }, with the comma behind it, else the one in front. */
static int remove_inline(const edit *e, const abx_toml_node *node, abx_error **err)
{
    size_t from = node->key_begin, to = node->value_end;
    while (to < e->n && is_blank(e->text[to]))
        to++;
    if (to < e->n && e->text[to] == ',') {
        to++;
        while (to < e->n && is_blank(e->text[to]))
            to++;
        return splice(e, from, to, "", err);
    }
    while (from > 0 && is_blank(e->text[from - 1]))
        from--;
    if (from > 0 && e->text[from - 1] == ',')
        from--;
    return splice(e, from, to, " ", err);
}

int abx__config_edit_unset(const char *text, size_t n, const char *key, abx_buf *out,
                           abx_error **err)
{
    edit e;
    if (edit_init(&e, text, n, key, out, err) < 0)
        return -1;
    const abx_toml_node *node = at_depth(&e, e.count);
    const abx_toml_node *table = node ? at_depth(&e, e.count - 1) : NULL;
    int rc;
    if (!node)
        rc = splice(&e, n, n, "", err);
    else if (node->type == ABX_TOML_TABLE)
        rc = fail_by_hand(err);
    else if (table->is_inline)
        rc = remove_inline(&e, node, err);
    else
        rc = splice(&e, line_begin(&e, node->key_begin), next_line(&e, node->value_end), "", err);
    edit_clear(&e);
    return rc;
}
