#include "wire/multipart.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/multipart_head.h"

enum state {
    SEARCH,      /* for the next boundary: before the first one, or in the body of a part */
    BEHIND,      /* right behind a boundary */
    BEHIND_DASH, /* ... and one '-' */
    PADDING,     /* ... and a blank */
    BEHIND_CR,   /* ... and a CR */
    HEAD,        /* lines of a part's head */
    EPILOGUE,    /* all is said */
    STOPPED,
    FAILED
};

void abx_multipart_init(abx_multipart *m, const char *boundary,
                        const abx_multipart_handlers *handlers, void *user)
{
    memset(m, 0, sizeof *m);
    m->on = *handlers;
    m->user = user;
    size_t n = strlen(boundary);
    ABX_CHECK(n > 0 && n <= ABX_MULTIPART_BOUNDARY_MAX);
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, n + 1);
    m->delimiter_len = n + 4;
    m->matched = m->unreal = 2; /* the first boundary may stand at the very start */
    m->state = SEARCH;
    abx_buf_init(&m->head, ABX_MULTIPART_HEAD_MAX);
}

void abx_multipart_clear(abx_multipart *m)
{
    abx_buf_clear(&m->head);
}

static int fail(abx_multipart *m, abx_error **err, const char *why)
{
    m->state = FAILED;
    return abx_fail(err, ABX_ERR_USAGE, "broken multipart body: %s", why);
}

static void stop_if(abx_multipart *m, int answer)
{
    if (answer)
        m->state = STOPPED;
}

static void give_data(abx_multipart *m, const void *bytes, size_t n)
{
    if (m->in_part && n && m->state != STOPPED)
        stop_if(m, m->on.on_data(bytes, n, m->user));
}

/* What looked like a boundary was data. */
static void give_matched(abx_multipart *m)
{
    size_t n = m->matched, skip = m->unreal;

    m->matched = m->unreal = 0;
    give_data(m, m->delimiter + skip, n - skip);
}

/* Data up to the next boundary. The delimiter holds one CR, at its start, so what was matched in vain is
 * data and the search goes on with the byte that did not fit. Returns the count of bytes taken. */
static size_t search(abx_multipart *m, const uint8_t *at, size_t n)
{
    size_t i = 0;

    while (i < n && m->state == SEARCH) {
        if (m->matched == 0) {
            const uint8_t *cr = memchr(at + i, '\r', n - i);
            size_t len = cr ? (size_t)(cr - (at + i)) : n - i;
            give_data(m, at + i, len);
            m->matched = cr != NULL;
            i += len + (cr != NULL);
        } else if (at[i] == (uint8_t)m->delimiter[m->matched]) {
            i++;
            if (++m->matched == m->delimiter_len)
                m->state = BEHIND;
        } else {
            give_matched(m);
        }
    }
    return i;
}

static void part_ends(abx_multipart *m, int next)
{
    m->matched = m->unreal = 0;
    m->state = next;
    if (m->in_part)
        stop_if(m, m->on.on_part_end(m->user));
    m->in_part = 0;
    abx_buf_reset(&m->head);
}

/* The byte behind a boundary: "--" ends everything, a line break begins a part, and anything else shows
 * that a longer word of the data only began like the boundary. Returns 1 when the byte was taken. */
static int behind(abx_multipart *m, uint8_t c, abx_error **err)
{
    switch (m->state) {
    case BEHIND:
        if (c == '-') {
            m->state = BEHIND_DASH;
        } else if (c == '\r') {
            m->state = BEHIND_CR;
        } else if (c == ' ' || c == '\t') {
            m->state = PADDING;
        } else {
            m->state = SEARCH;
            give_matched(m);
            return 0;
        }
        return 1;
    case BEHIND_DASH:
        if (c == '-') {
            part_ends(m, EPILOGUE);
            return 1;
        }
        m->state = SEARCH;
        give_matched(m);
        give_data(m, "-", 1);
        return 0;
    case PADDING:
        if (c == '\r')
            m->state = BEHIND_CR;
        else if (c != ' ' && c != '\t')
            fail(m, err, "text behind a boundary");
        return 1;
    default:
        if (c == '\n')
            part_ends(m, HEAD);
        else
            fail(m, err, "no line break behind a boundary");
        return 1;
    }
}

static void part_begins(abx_multipart *m, abx_error **err)
{
    abx_multipart_head head;

    if (abx__multipart_head_read(&head, m->head.data, m->head.len) < 0) {
        fail(m, err, "malformed head of a part");
        return;
    }
    m->state = SEARCH;
    m->in_part = 1;
    /* An empty part: its boundary may follow the blank line without another line break. */
    m->matched = m->unreal = 2;
    stop_if(m, m->on.on_part(&head.part, m->user));
    abx__multipart_head_clear(&head);
}

/* Collect the head up to its blank line. Returns the count of bytes taken. */
static size_t take_head(abx_multipart *m, const uint8_t *at, size_t n, abx_error **err)
{
    const uint8_t *newline = memchr(at, '\n', n);
    size_t len = newline ? (size_t)(newline - at) + 1 : n;

    if (abx_buf_add(&m->head, at, len) < 0) {
        m->state = FAILED;
        abx_fail(err, ABX_ERR_TOO_LARGE, "the head of a part is longer than %d bytes",
                 ABX_MULTIPART_HEAD_MAX);
        return len;
    }
    if (!newline)
        return len;
    /* The line that just ended: blank if nothing stands between the last line break and this one. */
    size_t start = m->head.len - 1;
    while (start && m->head.data[start - 1] != '\n')
        start--;
    size_t line = m->head.len - 1 - start;
    if (line == 0 || (line == 1 && m->head.data[start] == '\r'))
        part_begins(m, err);
    return len;
}

int abx_multipart_feed(abx_multipart *m, const void *bytes, size_t n, abx_error **err)
{
    const uint8_t *at = bytes, *end = at + n;

    if (m->state == FAILED)
        return fail(m, err, "it failed before");
    while (at < end && m->state < EPILOGUE) {
        if (m->state == SEARCH)
            at += search(m, at, (size_t)(end - at));
        else if (m->state == HEAD)
            at += take_head(m, at, (size_t)(end - at), err);
        else
            at += behind(m, *at, err);
    }
    if (m->state == FAILED)
        return -1;
    return m->state == STOPPED;
}

int abx_multipart_end(abx_multipart *m, abx_error **err)
{
    if (m->state == EPILOGUE || m->state == STOPPED)
        return 0;
    return fail(m, err, "unexpected EOF");
}
