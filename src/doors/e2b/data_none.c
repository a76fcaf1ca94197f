/* A data plane that knows only whether its sandbox lives. */
#include <string.h>

#include "base/mem.h"
#include "doors/e2b/data.h"

struct e2b_data {
    e2b_box *box;
};

int e2b_data_open(e2b_box *box, abx_error **err)
{
    (void)err;
    box->data = ABX_NEW(struct e2b_data);
    box->data->box = box;
    return 0;
}

void e2b_data_handle(e2b_box *box, int port, abx_exchange *x)
{
    if (port == E2B_ENVD_PORT && strcmp(abx_exchange_path(x), "/health") == 0)
        abx_exchange_reply(x, 204, NULL, "", 0);
    else
        e2b_data_closed_port(x, box->id, port);
}

void e2b_data_break(e2b_box *box)
{
    (void)box;
}

void e2b_data_close(e2b_box *box, void (*cb)(void *data), void *data)
{
    free(ABX_TAKE(box->data));
    cb(data);
}
