/* How events and chunks of a call are named on the wire (docs/providers/epp.md, "Events"). Pure; any thread. */
#ifndef ABX_EPP_NAMES_H
#define ABX_EPP_NAMES_H

#include <stdbool.h>

#include "base/json.h"
#include "ops/call.h"
#include "ops/ops.h"

typedef struct abx_epp_event {
    bool is_chunk;
    abx_channel channel; /* of a chunk */
    const char *type;    /* of an event: borrowed from the table */
} abx_epp_event;

/* What a notification means to a call of this row. 1 and *out; 0: no event of this operation (to be ignored); -1 and *err: it is one,
 * but a member is missing or wrong. */
int abx_epp_event_read(const abx_op_row *row, const char *method, yyjson_val *params,
                       abx_epp_event *out, abx_error **err);
/* The members of an event for the door: without what the wire added. Owned. */
yyjson_mut_doc *abx_epp_event_members(const abx_op_row *row, const char *type, yyjson_val *params);

#define ABX_EPP_METHOD_SIZE 48
/* The other way: the method of the notification for an event or a chunk (type: name of the event or the channel), and the
 * member that says which: *key NULL where none is needed. */
void abx_epp_event_name(const abx_op_row *row, const char *type, char method[ABX_EPP_METHOD_SIZE],
                        const char **key, const char **value);

#endif
