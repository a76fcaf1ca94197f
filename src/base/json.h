/* JSON, over yyjson. A value that travels through the house is an immutable `yyjson_val *` inside a
 * `yyjson_doc *` that somebody owns; what is being built is a `yyjson_mut_doc *`. */
#ifndef ABX_BASE_JSON_H
#define ABX_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/error.h"

#define ABX_JSON_DEPTH 32 /* deepest nesting accepted from outside */

static inline void abx_json_auto_(yyjson_doc **d)
{
    yyjson_doc_free(*d);
}
#define ABX_AUTO_JSON __attribute__((cleanup(abx_json_auto_))) yyjson_doc *
static inline void abx_mut_auto_(yyjson_mut_doc **d)
{
    yyjson_mut_doc_free(*d);
}
#define ABX_AUTO_MUT __attribute__((cleanup(abx_mut_auto_))) yyjson_mut_doc *

/* Parse text of outside: strict JSON, depth at most ABX_JSON_DEPTH. NULL and *err (id, with the position)
 * when it is not. `what` names the text in the error. */
yyjson_doc *abx_json_parse(const void *text, size_t n, abx_err_id id, const char *what,
                           abx_error **err);
/* A frozen copy of a built document (never NULL). */
yyjson_doc *abx_json_freeze(yyjson_mut_doc *d);
yyjson_doc *abx_json_copy(yyjson_val *v); /* a document of its own with a copy of v; NULL v: {} */
/* Free a document that held secrets: its texts are overwritten. NULL allowed. */
void abx_json_wipe(yyjson_doc *d);
void abx_mut_wipe(yyjson_mut_doc *d);
static inline void abx_json_wipe_auto_(yyjson_doc **d)
{
    abx_json_wipe(*d);
}
#define ABX_AUTO_JSON_WIPED __attribute__((cleanup(abx_json_wipe_auto_))) yyjson_doc *
static inline void abx_mut_wipe_auto_(yyjson_mut_doc **d)
{
    abx_mut_wipe(*d);
}
#define ABX_AUTO_MUT_WIPED __attribute__((cleanup(abx_mut_wipe_auto_))) yyjson_mut_doc *
/* Append compact JSON text. 0 or -1 (over the buffer's limit). */
int abx_json_write(yyjson_val *v, abx_buf *out);
int abx_json_write_mut(yyjson_mut_val *v, abx_buf *out);
char *abx_json_text(yyjson_val *v); /* compact, owned, never NULL */

/* Getters that answer a default when the member is absent, null or of another type. */
const char *abx_json_str(yyjson_val *obj, const char *key, const char *otherwise);
int64_t abx_json_int(yyjson_val *obj, const char *key, int64_t otherwise);
bool abx_json_bool(yyjson_val *obj, const char *key, bool otherwise);
yyjson_val *abx_json_get(yyjson_val *obj, const char *key); /* NULL also for JSON null */

/* Put a member into an object being built. Text is copied; a NULL text adds nothing. */
void abx_mut_str(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *value);
void abx_mut_strn(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const char *value,
                  size_t n);
void abx_mut_int(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, int64_t value);
void abx_mut_bool(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, bool value);
void abx_mut_val(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key,
                 yyjson_val *value); /* copy */
void abx_mut_put(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, yyjson_mut_val *value);
/* The same of a member that is not there yet, which is not looked at: what puts many would take time by their square.
 * Names that may stand twice: base/json_names.h. */
void abx_mut_addn(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, size_t key_len,
                  const char *value, size_t n);
yyjson_mut_val *abx_mut_obj(yyjson_mut_doc *d, yyjson_mut_val *obj,
                            const char *key); /* new member {} */
yyjson_mut_val *abx_mut_arr(yyjson_mut_doc *d, yyjson_mut_val *obj,
                            const char *key);       /* new member [] */
yyjson_mut_doc *abx_mut_new(yyjson_mut_val **root); /* a document whose root is {} */

/* The error as the object that every door shows: code, type, message, hint, retryable, … */
yyjson_mut_val *abx_error_json(yyjson_mut_doc *d, const abx_error *e);
/* The other way: an object with code, type, message, … as an error (unknown code: BACKEND). */
abx_error *abx_error_from_json(yyjson_val *v);

/* Does a text or a name anywhere in it hold a NUL? As an argument, a path or a name it would be cut there, silently. */
bool abx_json_has_nul(yyjson_val *v);

#endif
