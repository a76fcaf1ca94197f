/* The command line as JSON, from the tables. */
#ifndef ABX_CLI_SCHEMA_H
#define ABX_CLI_SCHEMA_H

#include "base/json.h"

/* {"schema":1,"verbs":[…],"globalFlags":[…],"objects":{…},"exitCodes":{…},"errors":[…]}, owned by the caller. */
yyjson_mut_doc *abx_schema(void);

#endif
