/* Makes the macros of ops.def that a reader did not define empty. No include guard: included before each
 * reading of ops.def; ops/ops_end.h undefines all of them again. */
#ifndef ABX_OP
#define ABX_OP(id, method, feature, style, http, route, cli, summary)
#endif
#ifndef ABX_PARAM
#define ABX_PARAM(op, name, type, presence, text)
#endif
#ifndef ABX_RESULT
#define ABX_RESULT(op, name, type, text)
#endif
#ifndef ABX_EVENT
#define ABX_EVENT(op, name, text)
#endif
