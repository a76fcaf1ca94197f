/* An image in a tar archive: its documents are read in a first pass, its layers in a second one, where they lie. */
#ifndef ABX_LOCAL_TEMPLATE_IMAGE_ARCHIVE_H
#define ABX_LOCAL_TEMPLATE_IMAGE_ARCHIVE_H

#include <stdbool.h>

#include "base/buf.h"
#include "local/template/layer_stream.h"
#include "local/template/oci.h"

typedef struct abx_image_archive abx_image_archive;

/* Read through the archive once. fd (of a regular file) is taken over, also on failure. NULL and *err. */
abx_image_archive *abx_image_archive_open(int fd, const char *path, abx_error **err);
void abx_image_archive_close(abx_image_archive *a); /* NULL allowed */
bool abx_image_archive_has(const abx_image_archive *a, const char *name);
/* A document of at most 4 MiB. */
int abx_image_archive_text(abx_image_archive *a, const char *name, abx_buf *out, abx_error **err);
/* As abx_image_each_layer. */
int abx_image_archive_layers(abx_image_archive *a, abx_oci_image *image,
                             int (*fn)(void *data, size_t layer, const abx_blob *blob,
                                       abx_error **err),
                             void *data, abx_error **err);

#endif
