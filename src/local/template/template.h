/* Templates: what sandboxes are made from beside the host's own system. Immutable, named by digest, shared. The functions here
 * block and run in a process of their own (work.h); looking up is quick and may run anywhere. */
#ifndef ABX_LOCAL_TEMPLATE_TEMPLATE_H
#define ABX_LOCAL_TEMPLATE_TEMPLATE_H

#include "local/template/store.h"

/* Told now and then: which layer of how many, and its bytes so far. Not 0: stop. */
typedef struct abx_template_progress {
    int (*tell)(void *data, size_t layer, size_t layers, uint64_t bytes, abx_error **err);
    void *data;
} abx_template_progress;

/* Add the image or folder at `source` (absolute) with files owned as `ids` says. name NULL: without a name. One with the same
 * content is there already: it gets the name. id: filled in. */
int abx_template_add(abx_store *s, const char *name, const char *source, abx_ids ids,
                     const abx_template_progress *progress, char id[ABX_STORE_ID + 1],
                     abx_error **err);
/* See that all layers of a template are there in the form that `ids` needs. */
int abx_template_prepare(abx_store *s, const char *id, abx_ids ids,
                         const abx_template_progress *progress, abx_error **err);
/* The same for layers of these digests, lowest first, and the layer on top of them (base_layer.h). */
int abx_layers_prepare(abx_store *s, yyjson_val *template_record, abx_ids ids,
                       const abx_template_progress *progress, abx_error **err);

/* The template object: {"id","name","kind","digest","source","createdAt","size","layers","platform","user","workdir","env",
 * "command"}; word: a name or an id; "host": the host's own system. NULL and TEMPLATE_NOT_FOUND. */
yyjson_mut_val *abx_template_object(abx_store *s, yyjson_mut_doc *d, const char *word,
                                    abx_error **err);
/* {"templates":[…]}, `host` first, then by name. */
int abx_template_list(abx_store *s, yyjson_mut_doc *d, yyjson_mut_val *root, abx_error **err);
/* Remove the name; with its last name, or by its id, the template. CONFLICT while a sandbox or a snapshot uses it. */
int abx_template_remove(abx_store *s, const char *word, abx_error **err);

/* folder_template.c: the contents of a folder as a layer of its own. digest: of its tree. */
int abx_folder_add(abx_store *s, const char *path, abx_ids ids,
                   const abx_template_progress *progress, abx_sha256 digest, uint64_t *bytes,
                   abx_error **err);
/* layer_convert.c: the same layer with its files owned in another way. */
int abx_layer_convert(abx_store *s, const char *digest, char from, char to, abx_error **err);

#endif
