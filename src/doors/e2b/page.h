/* Pages of lists: `limit` and `nextToken` of the query, and the header X-Next-Token. A token is base64url of
 * "TIME__ID" or "TIME__ID__KIND". */
#ifndef ABX_DOORS_E2B_PAGE_H
#define ABX_DOORS_E2B_PAGE_H

#include "doors/e2b/control.h"

#define E2B_TOKEN_LINE 1024 /* of the whole header line */
#define E2B_PAGE_ID    300

typedef struct e2b_cursor {
    int64_t ms;
    char id[E2B_PAGE_ID];
} e2b_cursor;

typedef struct e2b_page {
    size_t limit;
    bool has_after;
    e2b_cursor after; /* the last one of the page before */
} e2b_page;

/* kind: of the order; a token of another one is refused. false: 400 was answered. */
bool e2b_page_read(e2b_request *r, const char *kind, e2b_page *out);
/* The header line that leads to what comes behind `last`. */
void e2b_page_next(const e2b_cursor *last, const char *kind, char out[E2B_TOKEN_LINE]);

#endif
