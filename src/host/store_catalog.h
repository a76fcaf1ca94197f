/* The catalog: the plugins of the folder providers/ that are inside this program. The build packs each one with its digest
 * (cmake/AbxCatalog.cmake, gen/catalog_gen.c). */
#ifndef ABX_HOST_STORE_CATALOG_H
#define ABX_HOST_STORE_CATALOG_H

#include <stddef.h>

#include "base/error.h"

typedef struct abx_catalog_item {
    const char *id, *version;
    const char *tree_sha256;
    const unsigned char *archive; /* a .tar.gz */
    size_t size;
} abx_catalog_item;

/* Made by the build; NULL id at the end. */
extern const abx_catalog_item abx_catalog_items[];

/* The archive of this id in a descriptor (of memory) for reading; its digest. -1: PROVIDER_NOT_FOUND, with what the catalog has. */
int abx_catalog_open(const char *id, char digest[65], abx_error **err);

#endif
