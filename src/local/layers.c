#include "local/layers.h"

#include "base/mem.h"
#include "base/text.h"

static const abx_layer_row rows[] = {
#define ABX_LAYER(id, name, weaker, text) [ABX_LAYER_##id] = {name, weaker, text},
#include "local/layers.def"
#undef ABX_LAYER
};

const abx_layer_row *abx_layer_row_of(abx_layer layer)
{
    ABX_CHECK((size_t)layer < ABX_COUNT(rows));
    return &rows[layer];
}

int abx_layer_find(const char *name)
{
    for (size_t i = 0; i < ABX_COUNT(rows); i++)
        if (abx_str_eq(rows[i].name, name))
            return (int)i;
    return -1;
}
