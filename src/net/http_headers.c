#include "net/http_headers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

void abx_http_headers_add(abx_http_headers *h, const char *name, size_t name_len, const char *value,
                          size_t value_len)
{
    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 16;
        h->items = abx_realloc(h->items, h->cap * sizeof *h->items);
    }
    while (value_len && (*value == ' ' || *value == '\t')) {
        value++;
        value_len--;
    }
    while (value_len && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value_len--;
    h->items[h->count].name = abx_strndup(name, name_len);
    h->items[h->count].value = abx_strndup(value, value_len);
    h->count++;
}

const char *abx_http_headers_get(const abx_http_headers *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->items[i].name, name) == 0)
            return h->items[i].value;
    return NULL;
}

static int list_has(const char *list, const char *token)
{
    size_t want = strlen(token);

    while (*list) {
        list += strspn(list, ", \t");
        size_t n = strcspn(list, ",");
        size_t word = n;
        while (word && (list[word - 1] == ' ' || list[word - 1] == '\t'))
            word--;
        if (word == want && strncasecmp(list, token, want) == 0)
            return 1;
        list += n;
    }
    return 0;
}

int abx_http_headers_has(const abx_http_headers *h, const char *name, const char *token)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->items[i].name, name) == 0 && list_has(h->items[i].value, token))
            return 1;
    return 0;
}

void abx_http_headers_clear(abx_http_headers *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free(h->items[i].name);
        free(h->items[i].value);
    }
    free(h->items);
    *h = (abx_http_headers){NULL, 0, 0};
}
