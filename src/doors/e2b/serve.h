/* The E2B door for those outside its folder. */
#ifndef ABX_DOORS_E2B_SERVE_H
#define ABX_DOORS_E2B_SERVE_H

#include "host/serving.h"

extern const abx_server_door e2b_server_door;

#endif
