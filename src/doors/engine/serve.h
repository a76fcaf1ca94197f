/* The engine for those outside its folder: a server on the loopback that speaks abx-engine/1 (docs/engine-api.md). */
#ifndef ABX_DOORS_ENGINE_SERVE_H
#define ABX_DOORS_ENGINE_SERVE_H

#include "host/serving.h"

extern const abx_server_door engine_server_door;

#endif
