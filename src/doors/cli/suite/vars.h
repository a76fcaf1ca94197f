/* The variables of a conformance case: {{name}} in its texts. A text that is one variable and nothing else becomes the
 * value with its type; inside a longer text the value stands as text. */
#ifndef ABX_SUITE_VARS_H
#define ABX_SUITE_VARS_H

#include "base/json.h"

typedef struct abx_vars {
    const struct abx_vars *outer; /* looked up after our own; or NULL */
    yyjson_mut_doc *_doc;
    yyjson_mut_val *_all;
} abx_vars;

void abx_vars_init(abx_vars *v, const abx_vars *outer);
void abx_vars_clear(abx_vars *v);
void abx_vars_set(abx_vars *v, const char *name, yyjson_val *value); /* copied */
void abx_vars_set_str(abx_vars *v, const char *name, const char *text);
void abx_vars_set_int(abx_vars *v, const char *name, int64_t number);

/* A copy of `value` in d with the variables filled in. NULL and *err (USAGE) for a name that is not set. */
yyjson_mut_val *abx_vars_fill(const abx_vars *v, yyjson_mut_doc *d, yyjson_val *value,
                              abx_error **err);

#endif
