/* Operations that a provider lacks and the host makes of others that it has: they are `emulated` in the map of
 * features, and a call of one goes no other way than a native one does for the door.
 *
 *   fs.watch (filesystem.watch)             lists the folder again and again and compares     emulate_watch.c
 *   offset and limit of fs.read             reads the whole file and passes the part on       emulate_range.c
 *   (filesystem.range)
 *   fs.stat                                 runs stat                                         emulate_stat.c
 *   input of process.start, process.stdin,  files that a shell before the command reads       emulate_input.c,
 *   process.close_stdin (process.stdin)                                                       emulate_stdin.c
 *
 * What an adapter itself calls emulated is its own. */
#ifndef ABX_HOST_EMULATE_H
#define ABX_HOST_EMULATE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/json.h"
#include "ops/call.h"

struct abx_host;

/* Does this map (name → state) have the operation, natively or by the adapter's own emulation? */
bool abx__features_have(yyjson_val *features, const abx_op_row *row);
/* A copy of the map with what the host can emulate. Never NULL; owned. */
yyjson_doc *abx__features_with_emulated(yyjson_val *features);
/* Must the host stand in for this call, on a provider with this map? False also for what cannot be emulated. */
bool abx__is_emulated(yyjson_val *features, const abx_call *call);
/* Does the call need standard input of the process that it starts? */
bool abx__wants_stdin(const abx_call *call);

/* Take a call for which abx__is_emulated said yes: it is accepted and will end. */
void abx__emulate(struct abx_host *host, const char *provider_id, abx_call *call);

#endif
