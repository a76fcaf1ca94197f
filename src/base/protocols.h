/* The versions of what this program speaks, told by `abx version --json`. */
#ifndef ABX_BASE_PROTOCOLS_H
#define ABX_BASE_PROTOCOLS_H

#define ABX_PROTOCOL_SCHEMA 1 /* of `abx schema` and of what --json prints: fields are only added */
#define ABX_PROTOCOL_ENVD   "0.6.13" /* E2B's data plane, with our additions (docs/envd.md) */

#endif
