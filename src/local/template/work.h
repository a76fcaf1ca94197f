/* Work that blocks (unpacking, copying, removing) in a process of its own: the program starts itself for it, as for a sandbox of
 * a program that may not fork (starter.h), and gets events and one answer over a socket pair. Who does the work has the ids that
 * its files need: in a user namespace of its own an ordinary caller may also read and make files that no mode would let him. */
#ifndef ABX_LOCAL_TEMPLATE_WORK_H
#define ABX_LOCAL_TEMPLATE_WORK_H

#include "base/json.h"
#include "local/backend.h"

/* One job's work, in the process of its own. result: an object to be filled. */
typedef struct abx_work {
    abx_local *local;
    yyjson_val *params;
    abx_ids ids;
    int pair; /* events go there */
    yyjson_mut_doc *d;
    yyjson_mut_val *result;
} abx_work;

/* The entry in the started process: does what request names ({"home","job","params","ids"}) and answers. Never returns. */
_Noreturn void abx_work_main(yyjson_val *request, int pair);
/* jobs.c: do it here and now. 0, or -1 and *err. */
int abx_work_run(abx_work *w, const char *job, abx_error **err);
/* Send an event to who asked. -1: he is gone. */
int abx_work_tell(abx_work *w, yyjson_mut_doc *event);
/* From now on the job is finished, and told, whether it is cancelled (SIGTERM) or not: what it leaves is known to who asked. */
void abx_work_finishing(void);
/* work_ids.c: take the ids. 0; a process that shall not go on ends there. -1 and *err. */
int abx_work_take_ids(abx_ids ids, abx_error **err);

#endif
