/* Names of the layers of the isolation. */
#ifndef ABX_LOCAL_LAYERS_H
#define ABX_LOCAL_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum abx_layer {
#define ABX_LAYER(id, name, weaker, text) ABX_LAYER_##id,
#include "local/layers.def"
#undef ABX_LAYER
    ABX_LAYER_COUNT
} abx_layer;

#define ABX_LAYER_BIT(layer) (1u << (layer))

typedef struct abx_layer_row {
    const char *name;
    bool weaker; /* may be left out when asked */
    const char *text;
} abx_layer_row;

/* The row of a layer; never NULL for a valid id. */
const abx_layer_row *abx_layer_row_of(abx_layer layer);
/* The layer with this name, or -1. */
int abx_layer_find(const char *name);

#endif
