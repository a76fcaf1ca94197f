/* An image as it lies on a disk: a folder in the OCI layout, or a tar archive of one or of `docker save` (plain, gzip or zstd).
 * Documents are checked against their digests. Blocks. */
#ifndef ABX_LOCAL_TEMPLATE_IMAGE_SOURCE_H
#define ABX_LOCAL_TEMPLATE_IMAGE_SOURCE_H

#include <stdbool.h>

#include "local/template/layer_stream.h"
#include "local/template/oci.h"

typedef struct abx_image_source abx_image_source;

/* Does this folder hold an OCI layout? */
bool abx_is_oci_layout(const char *path);
/* Open a layout folder or an archive. NULL and *err (FILE). */
abx_image_source *abx_image_open(const char *path, abx_error **err);
void abx_image_close(abx_image_source *s); /* NULL allowed */
/* Find the image for this machine and read its manifest and configuration. */
int abx_image_read(abx_image_source *s, abx_oci_image *out, abx_error **err);
/* Call fn for each layer that is not `taken`, in the order in which the source has them; fn sets `taken`. A layer that the source
 * lacks is an error. */
int abx_image_each_layer(abx_image_source *s, abx_oci_image *image,
                         int (*fn)(void *data, size_t layer, const abx_blob *blob, abx_error **err),
                         void *data, abx_error **err);

#endif
