/* What the name of an entry of an image's layer means. Pure; the rules are those of the OCI image specification. */
#ifndef ABX_LOCAL_TEMPLATE_LAYER_NAME_H
#define ABX_LOCAL_TEMPLATE_LAYER_NAME_H

#include "base/error.h"

typedef enum abx_name_kind {
    ABX_NAME_PLAIN,
    ABX_NAME_WHITEOUT, /* ".wh.NAME": NAME of the layers below is not there */
    ABX_NAME_OPAQUE,   /* ".wh..wh..opq": what the layers below have in this folder is not there */
    ABX_NAME_SKIP,     /* book-keeping of a storage driver */
} abx_name_kind;

/* Judge `raw` and clean it: no leading "/" or "./", no double slash, no slash at the end; "" is the layer's root. For a whiteout
 * *clean is the name that it removes, for an opaque mark the folder. Owned by the caller. 0, or -1 and *err (FILE, names the
 * entry): a "..", too long, too deep, a mark of nothing or of a mark, a mark
 * that is a folder on the way. */
int abx_layer_name(const char *raw, abx_name_kind *kind, char **clean, abx_error **err);

#endif
