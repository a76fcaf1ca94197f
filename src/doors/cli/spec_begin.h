/* Makes the macros of verbs.def, flags.def, exits.def and objects.def that a reader did not define empty. No include
 * guard: included before each reading; spec_end.h undefines all of them again. */
#ifndef ABX_VERB
#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary)
#endif
#ifndef ABX_TEXT
#define ABX_TEXT(id, text)
#endif
#ifndef ABX_EXAMPLE
#define ABX_EXAMPLE(id, command, text)
#endif
#ifndef ABX_OUTPUT
#define ABX_OUTPUT(id, shape, name)
#endif
#ifndef ABX_FLAG
#define ABX_FLAG(id, name, letter, aliases, type, arg, otherwise, verbs, text)
#endif
#ifndef ABX_FLAG_CLEARS
#define ABX_FLAG_CLEARS(id, other)
#endif
#ifndef ABX_EXIT
#define ABX_EXIT(class, code, text)
#endif
#ifndef ABX_OBJECT
#define ABX_OBJECT(name, text)
#endif
#ifndef ABX_FIELD
#define ABX_FIELD(object, name, type, text)
#endif
