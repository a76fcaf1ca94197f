/* Questions about templates and snapshots that are answered at once. */
#include "base/mem.h"
#include "base/text.h"
#include "local/plan.h"
#include "local/template/snapshot.h"
#include "local/template/stack.h"

static yyjson_doc *ask(abx_local *local,
                       int (*fill)(abx_store *s, yyjson_mut_doc *d, yyjson_mut_val *root,
                                   abx_error **err),
                       abx_error **err)
{
    abx_store s;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    if (abx_store_open(local, false, &s, err) < 0)
        return NULL;
    int rc = fill(&s, d, root, err);
    abx_store_close(&s);
    return rc < 0 ? NULL : abx_json_freeze(d);
}

yyjson_doc *abx_local_template_list(abx_local *local, abx_error **err)
{
    return ask(local, abx_template_list, err);
}

yyjson_doc *abx_local_snapshot_list(abx_local *local, abx_error **err)
{
    return ask(local, abx_snapshot_list, err);
}

yyjson_doc *abx_local_template_info(abx_local *local, const char *word, abx_error **err)
{
    abx_store s;
    ABX_AUTO_MUT d = yyjson_mut_doc_new(NULL);
    if (abx_store_open(local, false, &s, err) < 0)
        return NULL;
    yyjson_mut_val *o = abx_template_object(&s, d, word, err);
    abx_store_close(&s);
    if (!o)
        return NULL;
    yyjson_mut_doc_set_root(d, o);
    return abx_json_freeze(d);
}

int abx_local_template_missing(abx_local *local, const char *word, bool with_root, abx_error **err)
{
    abx_store s;
    if (abx_str_eq(word, "host"))
        return 0;
    if (abx_store_open(local, false, &s, err) < 0)
        return -1;
    abx_stack *stack = abx_stack_find(&s, word, NULL, abx_ids_wanted(with_root), err);
    int missing = !stack ? -1 : stack->missing;
    abx_stack_free(stack);
    abx_store_close(&s);
    return missing;
}
