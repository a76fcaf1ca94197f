/* Logs of the platform about a sandbox. No operation of a provider tells them, so there are none. */
#include "doors/e2b/control.h"

static void tell(e2b_request *r)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_arr(d, root, "logs");
    if (!r->v2)
        abx_mut_arr(d, root, "logEntries");
    e2b_reply(r, 200, root);
}

void e2b_do_logs(e2b_request *r)
{
    e2b_with_box(r, false, tell);
}
