/* The C library's mathematics (libm.so.6), loaded when it is first needed; a static program has it inside.
 *
 * Only the JavaScript engine calls it, and most runs of the program have no JavaScript in them; loading it at every start
 * costs 0.05 ms and ten pages. So the linker leads each of its functions to a wrapper (cmake/lazy/libm.c) that loads it. */
#ifndef ABX_BASE_LIBM_H
#define ABX_BASE_LIBM_H

/* Load it now, once a process: for whoever cannot open files later. Any thread. Ends the process if it is not there.
 * NULL in a static program. */
void abx_libm_ready(void) __attribute__((weak));

#endif
