/* The result of an answer: checked against the table, completed by what events have told. */
#include <string.h>

#include "epp/session_inner.h"

/* Must the result say how a process ended? */
static bool needs_end(const pending *p)
{
    if (p->row->id == ABX_OP_PTY_OPEN)
        return true;
    return p->row->id == ABX_OP_PROCESS_START &&
           !abx_json_bool(abx_call_params(p->call), "background", false);
}

static yyjson_mut_doc *fail(const pending *p, const char *what, abx_error **err)
{
    if (err && !*err)
        *err = epp_error(p->s, ABX_ERR_PROVIDER_PROTOCOL, "the answer to %s does not fit: %s",
                         p->row->method, what);
    return NULL;
}

yyjson_mut_doc *epp_result(const pending *p, yyjson_val *result, abx_error **err)
{
    if (!yyjson_is_obj(result))
        return fail(p, "'result' must be an object", err);
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_val_mut_copy(d, result);
    yyjson_mut_doc_set_root(d, root);
    size_t i, n;
    yyjson_mut_val *key, *value;
    if (p->seen) {
        yyjson_mut_obj_foreach(yyjson_mut_doc_get_root(p->seen), i, n, key, value)
        {
            if (!yyjson_mut_obj_get(root, yyjson_mut_get_str(key)))
                abx_mut_put(d, root, yyjson_mut_get_str(key), yyjson_mut_val_mut_copy(d, value));
        }
    }
    ABX_AUTO_JSON whole = abx_json_freeze(d);
    abx_error *why = NULL;
    int rc = abx_op_check_results(p->row, yyjson_doc_get_root(whole), true, &why);
    if (rc == 0 && needs_end(p) && !yyjson_mut_obj_get(root, "exitCode") &&
        !yyjson_mut_obj_get(root, "signal"))
        rc = abx_fail(&why, ABX_ERR_PROVIDER_PROTOCOL, "neither 'exitCode' nor 'signal'");
    if (rc == 0)
        return d;
    yyjson_mut_doc_free(d);
    fail(p, why->message, err);
    abx_error_free(why);
    return NULL;
}
