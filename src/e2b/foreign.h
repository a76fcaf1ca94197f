/* Texts of a service's answers on their way into our errors. */
#ifndef ABX_E2B_FOREIGN_H
#define ABX_E2B_FOREIGN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/* One line of at most 1000 bytes, printable. Owned. */
char *abx__foreign_line(const char *text);
/* Stars in the place of a secret that the other end has repeated. NULL allowed for both. */
void abx__foreign_hide(char *text, const char *secret);
/* A page for people instead of an answer, by its type (or NULL) or its beginning. */
bool abx__foreign_is_page(const char *content_type, const abx_buf *body);
/* The error that names it as such. */
abx_error *abx__foreign_page_error(int status, const abx_buf *body);

#endif
