/* Ends one reading of ops.def. No include guard. */
#undef ABX_OP
#undef ABX_PARAM
#undef ABX_RESULT
#undef ABX_EVENT
