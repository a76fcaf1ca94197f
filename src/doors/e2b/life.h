/* What only the files about the door's own life share: serve.c, keys.c, dispatch.c. */
#ifndef ABX_DOORS_E2B_LIFE_H
#define ABX_DOORS_E2B_LIFE_H

#include "doors/e2b/door.h"

#define E2B_ANY_AGE (-1) /* for abx_sweep_temporaries: those of this second, too */

/* keys.c: key, seed and the ports of last time (0: none), the second one that of TLS; made when they are not there. 0, or -1 and
 * *err. */
int e2b_keys_load(e2b_door *door, int ports[2], abx_error **err);
int e2b_keys_save(const e2b_door *door, abx_error **err);

/* dispatch.c: each request of the HTTP server; data: the door. */
void e2b_dispatch(abx_exchange *x, void *data);
/* dispatch.c: did the box's token, which it has, make this signature of the request? */
bool e2b_signed_by(const e2b_box *box, const abx_exchange *x, const char *signature);
/* admit.c: a request for a port of the sandbox with this id. */
void e2b_admit(e2b_door *door, abx_exchange *x, const char *id, int port);
/* variables.c: see host/serving.h */
int e2b_variables(const char *home, yyjson_val *info, bool by_names, yyjson_mut_doc *d,
                  yyjson_mut_val *root, abx_error **err);
/* serve.c: something is asked of the door: its idle time begins anew. */
void e2b_life_touch(e2b_door *door);
/* Something that the end of the door waits for is gone; the door may be, afterwards. */
void e2b_life_part_gone(e2b_door *door);
/* ask.c: end all calls that are under way. */
void e2b_asks_cancel(e2b_door *door);
/* control.c: a request of the control plane. */
void e2b_control(e2b_door *door, abx_exchange *x);

#endif
