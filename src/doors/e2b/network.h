/* What a sandbox may reach and who may reach it. */
#ifndef ABX_DOORS_E2B_NETWORK_H
#define ABX_DOORS_E2B_NETWORK_H

#include "doors/e2b/control.h"

/* allow_internet_access and network of a create: the parameter `network` of sandbox.create, and notes. false: it was
 * answered. */
bool e2b_network_read(e2b_request *r, yyjson_mut_doc *params, yyjson_mut_doc *notes);

#endif
