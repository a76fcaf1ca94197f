/* Ends one reading of the tables of the command line. No include guard. */
#undef ABX_VERB
#undef ABX_TEXT
#undef ABX_EXAMPLE
#undef ABX_OUTPUT
#undef ABX_FLAG
#undef ABX_FLAG_CLEARS
#undef ABX_EXIT
#undef ABX_OBJECT
#undef ABX_FIELD
