/* The JSON of container images: which blobs an image is made of and how it wants to be run. Pure: reads documents, opens
 * nothing. All of it is foreign: digests, names and counts are checked here. */
#ifndef ABX_LOCAL_TEMPLATE_OCI_H
#define ABX_LOCAL_TEMPLATE_OCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

#define ABX_OCI_LAYERS_MAX 127        /* of one image */
#define ABX_OCI_JSON_MAX   (4u << 20) /* bytes of one document */
#define ABX_SHA256_HEX     64

/* The 64 hexadecimal digits of a digest and a 0; "": none. */
typedef char abx_sha256[ABX_SHA256_HEX + 1];

typedef struct abx_oci_layer {
    char *blob;         /* where the source has it: "blobs/sha256/…" or a name in the archive */
    abx_sha256 digest;  /* of the blob as it is; "" where the source names none */
    abx_sha256 diff_id; /* of its tar bytes */
    bool taken;         /* of the unpacker: it is in the store */
} abx_oci_layer;

typedef struct abx_oci_image {
    char *config_blob;
    abx_sha256 config_digest; /* "" until known */
    abx_oci_layer *layers;    /* lowest first */
    size_t layer_count;
    /* From the configuration: */
    yyjson_doc *
        config; /* {"env":{},"user","workdir","command":[],"platform"}; absent members are not there */
} abx_oci_image;

void abx_oci_image_clear(abx_oci_image *image);

/* This machine's name of its processor, as images have it ("amd64", "arm64", …). */
const char *abx_oci_architecture(void);

/* "sha256:HEX" → out. 0, or -1 and *err. */
int abx_oci_digest(const char *text, abx_sha256 out, abx_error **err);
/* "blobs/sha256/HEX"; owned. */
char *abx_oci_blob(const abx_sha256 digest);

/* The manifest for linux and this architecture in an index (or the only one that names no platform); *is_index: it is an index
 * again. 0, or -1 and *err. */
int abx_oci_pick(yyjson_val *index, abx_sha256 out, bool *is_index, abx_error **err);
/* Fill config_blob, config_digest and the layers from an image manifest. */
int abx_oci_read_manifest(yyjson_val *manifest, abx_oci_image *out, abx_error **err);
/* The same from docker's manifest.json, which must hold one image. */
int abx_oci_read_docker(yyjson_val *manifest, abx_oci_image *out, abx_error **err);
/* Fill the diff ids and `config` from the image's configuration. */
int abx_oci_read_config(yyjson_val *config, abx_oci_image *image, abx_error **err);

#endif
