/* What a C++ compiler calls to throw, to catch and to unwind: nothing of the program does (see libstdcxx.cpp), but code
 * of libstdc++ that is linked in refers to it. Found before libstdc++.a and libgcc_eh.a, whose own are 70 KB. */
#include <stdlib.h>

_Noreturn void abx__no_exceptions(void);
_Noreturn void abx__no_exceptions(void)
{
    abort();
}

#define ENDS(name) void name(void) __attribute__((alias("abx__no_exceptions")))
ENDS(__cxa_allocate_exception);
ENDS(__cxa_free_exception);
ENDS(__cxa_throw);
ENDS(__cxa_rethrow);
ENDS(__cxa_begin_catch);
ENDS(__cxa_end_catch);
ENDS(__gxx_personality_v0);
ENDS(_Unwind_Resume);
/* Of a static program's glibc, for threads that are cancelled. */
ENDS(_Unwind_Backtrace);
ENDS(_Unwind_DeleteException);
ENDS(_Unwind_ForcedUnwind);
ENDS(_Unwind_GetCFA);
ENDS(_Unwind_GetIP);
ENDS(__gcc_personality_v0);
