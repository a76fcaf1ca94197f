/* GET /v2/sandboxes and /sandboxes: what the provider lists, filtered, sorted, in pages. A cursor is
 * base64url of "STARTED__ID" (and "__asc"): the last one of the page before. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/page.h"
#include "net/http_server.h"

typedef struct pair {
    char *key, *value;
} pair;

typedef struct listing {
    bool running, paused, ascending, has_after, legacy;
    int64_t after_s; /* startedAt of this time or later */
    long after_ns;
    char *template;
    pair *pairs;
    size_t pair_count;
    e2b_page page;
} listing;

static void free_listing(void *state)
{
    listing *l = state;
    for (size_t i = 0; i < l->pair_count; i++) {
        free(l->pairs[i].key);
        free(l->pairs[i].value);
    }
    free(l->pairs);
    free(l->template);
    free(l);
}

/* --- the query ------------------------------------------------------------------------------------------------- */
static char *decode_twice(const char *s, size_t n)
{
    size_t len = 0;
    ABX_AUTO_FREE char *once = abx_percent_decode(s, n, &len);
    char *twice = once ? abx_percent_decode(once, len, &len) : NULL;
    if (twice && strlen(twice) != len)
        free(ABX_TAKE(twice));
    return twice;
}

/* The query parameter was decoded once: pairs of a form, whose names and values were encoded twice before. */
static bool read_metadata(listing *l, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "&"), head = strcspn(text, "=&");
        if (head >= n)
            return n == 0;
        pair p = {decode_twice(text, head), decode_twice(text + head + 1, n - head - 1)};
        l->pairs = abx_realloc(l->pairs, (l->pair_count + 1) * sizeof *l->pairs);
        l->pairs[l->pair_count++] = p;
        if (!p.key || !p.value)
            return false;
        text += n + (text[n] == '&');
    }
    return true;
}

static bool read_states(listing *l, const char *text)
{
    l->running = l->paused = false;
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n == 7 && strncmp(text, "running", n) == 0)
            l->running = true;
        else if (n == 6 && strncmp(text, "paused", n) == 0)
            l->paused = true;
        else
            return false;
        text += n + (text[n] == ',');
    }
    return l->running || l->paused;
}

static bool refuse(e2b_request *r, const char *name)
{
    e2b_reply_refuse(r, 400, "validation error: the query parameter '%s' is wrong", name);
    return false;
}

static bool read_query(e2b_request *r, listing *l)
{
    ABX_AUTO_FREE char *metadata = e2b_query(r, "metadata");
    if (metadata && !read_metadata(l, metadata))
        return refuse(r, "metadata");
    l->running = l->paused = true;
    l->legacy = !r->v2;
    if (l->legacy) { /* the old route knows no more */
        l->paused = false;
        l->page.limit = SIZE_MAX;
        return true;
    }
    ABX_AUTO_FREE char *state = e2b_query(r, "state");
    ABX_AUTO_FREE char *order = e2b_query(r, "order");
    ABX_AUTO_FREE char *after = e2b_query(r, "startedAfter");
    l->template = e2b_query(r, "template");
    if (state && *state && !read_states(l, state))
        return refuse(r, "state");
    l->ascending = abx_str_eq(order, "asc");
    if (order && !l->ascending && strcmp(order, "desc") != 0)
        return refuse(r, "order");
    l->has_after = after != NULL;
    if (after && abx_parse_rfc3339_ns(after, &l->after_s, &l->after_ns) < 0)
        return refuse(r, "startedAfter");
    if (l->template && strchr(l->template, ':'))
        return refuse(r, "template");
    return e2b_page_read(r, l->ascending ? "asc" : NULL, &l->page);
}

/* --- the filter ------------------------------------------------------------------------------------------------- */
static bool fits_time(const listing *l, const e2b_box *box)
{
    int64_t ms = box->started_ms, limit = l->after_s * 1000 + l->after_ns / 1000000;
    return !l->has_after || ms > limit || (ms == limit && l->after_ns % 1000000 < 1000);
}

static bool fits(const listing *l, const e2b_box *box)
{
    if (!(box->state == E2B_PAUSED ? l->paused : box->state == E2B_RUNNING && l->running))
        return false;
    if (l->template && strcmp(l->template, e2b_box_template(box)) != 0)
        return false;
    for (size_t i = 0; i < l->pair_count; i++)
        if (!abx_str_eq(abx_json_str(e2b_box_metadata(box), l->pairs[i].key, NULL),
                        l->pairs[i].value))
            return false;
    return fits_time(l, box);
}

static int by_start(const void *a, const void *b)
{
    const e2b_box *x = *(e2b_box *const *)a, *y = *(e2b_box *const *)b;
    if (x->started_ms != y->started_ms)
        return x->started_ms > y->started_ms ? -1 : 1; /* the newest first */
    return strcmp(x->id, y->id);
}

static size_t gather(e2b_door *door, const listing *l, e2b_box **out, size_t *running)
{
    size_t count = 0;
    for (size_t i = 0; i < E2B_BUCKETS; i++)
        for (e2b_box *box = door->boxes[i]; box; box = box->next)
            if (fits(l, box)) {
                out[count++] = box;
                *running += box->state == E2B_RUNNING;
            }
    qsort(out, count, sizeof(e2b_box *), by_start);
    for (size_t i = 0; l->ascending && i < count / 2; i++) {
        e2b_box *other = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = other;
    }
    return count;
}

static void cursor_of(const e2b_box *box, e2b_cursor *out)
{
    *out = (e2b_cursor){.ms = box->started_ms};
    snprintf(out->id, sizeof out->id, "%s", box->id);
}

/* Does this box stand behind the cursor in the order of the list? */
static bool behind(const listing *l, const e2b_box *box)
{
    const e2b_cursor *c = &l->page.after;
    int order =
        box->started_ms != c->ms ? (box->started_ms > c->ms ? -1 : 1) : strcmp(box->id, c->id);
    return l->ascending ? order < 0 : order > 0;
}

static void on_listed(void *data, const abx_error *err)
{
    e2b_request *r = data;
    listing *l = r->state;
    if (err) {
        e2b_reply_error(r, err);
        e2b_request_unref(r);
        return;
    }
    ABX_AUTO_FREE e2b_box **boxes = abx_alloc_array(r->door->box_count + 1, sizeof(e2b_box *));
    size_t running = 0, count = gather(r->door, l, boxes, &running), from = 0, n = 0;
    while (l->page.has_after && from < count && !behind(l, boxes[from]))
        from++;
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = yyjson_mut_arr(d);
    yyjson_mut_doc_set_root(d, list);
    for (; from + n < count && n < l->page.limit; n++)
        yyjson_mut_arr_append(list, e2b_view_listed(d, boxes[from + n]));
    char total[64], next[E2B_TOKEN_LINE];
    const char *headers[2] = {total, next};
    snprintf(total, sizeof total, "X-Total-Running: %zu", running);
    bool more = from + n < count;
    if (more) {
        e2b_cursor last;
        cursor_of(boxes[from + n - 1], &last);
        e2b_page_next(&last, l->ascending ? "asc" : NULL, next);
    }
    size_t skip = l->running && !l->legacy ? 0 : 1;
    e2b_reply_with(r, 200, list, headers + skip, (more ? 2 : 1) - skip);
    e2b_request_unref(r);
}

void e2b_do_list(e2b_request *r)
{
    listing *l = ABX_NEW(listing);
    r->state = l;
    r->free_state = free_listing;
    if (!read_query(r, l))
        return;
    e2b_request_ref(r);
    e2b_list_all(r->door, on_listed, r);
}
