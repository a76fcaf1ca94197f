/* What the store did and what it thinks of a plugin, as JSON for every door. */
#ifndef ABX_HOST_STORE_REPORT_H
#define ABX_HOST_STORE_REPORT_H

#include "base/json.h"
#include "host/store.h"

/* {"id", "version", "step", "previousVersion", "kind", "trust", "source", "treeSha256", "folder", "consent"} of a change, committed or
 * not. step: new, same, upgrade, downgrade, replace. */
yyjson_mut_doc *abx_store_change_report(const abx_store_change *change);

typedef struct abx_store_verdict {
    char *version; /* NULL: not known */
    const char *trust;
    const char *status; /* for people: ok, failed, not compared */
    abx_error *problem; /* or NULL */
} abx_store_verdict;

/* Load a plugin as for use and add {"id", "version", "trust", "ok", "compared", "problem"} to list. 0 and *out; -1 and *err when task
 * ended it. */
int abx_store_judge(const char *home, const char *id, const abx_store_task *task, yyjson_mut_doc *d,
                    yyjson_mut_val *list, abx_store_verdict *out, abx_error **err);
void abx_store_verdict_clear(abx_store_verdict *v);

#endif
