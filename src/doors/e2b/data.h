/* The data plane of a box: envd, the code interpreter, and the ports that its users open. dispatch.c finds box and port and
 * hands the exchange over; the traffic token was checked, X-Access-Token is checked here. */
#ifndef ABX_DOORS_E2B_DATA_H
#define ABX_DOORS_E2B_DATA_H

#include "doors/e2b/door.h"

/* Before the first request of a box: sets box->data. 0, or -1 and *err. */
int e2b_data_open(e2b_box *box, abx_error **err);
/* Answer a request of a running box, from the loop now or later. */
void e2b_data_handle(e2b_box *box, int port, abx_exchange *x);
/* The box is gone or paused: reset each connection that is busy with it. */
void e2b_data_break(e2b_box *box);
/* Let go of everything of box->data (after a break), then cb(data) once; it sets box->data to NULL first. */
void e2b_data_close(e2b_box *box, void (*cb)(void *data), void *data);

#endif
