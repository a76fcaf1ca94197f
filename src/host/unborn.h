/* Sandboxes that nobody heard of: a service gave them an id of its own, and who asked for them died before the answer came.
 *
 * The host labels each new sandbox of such a provider with the key of its ledger entry (ABX_KEY_LABEL, host/adapter.h) and hides that
 * label in every answer; a list with the label as its filter finds it again. Who had put a label of this name there himself loses it. */
#ifndef ABX_HOST_UNBORN_H
#define ABX_HOST_UNBORN_H

#include "host/host_private.h"

/* Who gives the ids at this provider: its adapter's word, HOST where its manifest says that sandboxes bear no labels. It was opened. */
abx_id_giver abx__host_id_giver(const abx_host *host, const char *provider_id);

/* The label into the parameters of sandbox.create. */
void abx__unborn_mark(yyjson_mut_doc *d, yyjson_mut_val *params, const char *key);
/* Take the label out of a sandbox object (NULL allowed). */
void abx__unborn_hide(yyjson_mut_val *sandbox);
/* Does a sandbox of this list bear this key? */
bool abx__unborn_listed(yyjson_mut_val *list, const char *key);

/* ids: of those that bear the label, NULL at the end (borrowed); err (borrowed): the list could not be had, or the first that could not
 * be ended. */
typedef void (*abx__unborn_cb)(void *data, char *const *ids, const abx_error *err);
/* Find what bears this key and end it (dry: only find). cb once, later, on the loop. */
void abx__unborn_end(abx_host *host, const char *provider_id, const char *key, bool dry,
                     abx__unborn_cb cb, void *data);

#endif
