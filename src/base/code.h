/* The memory that the program's own code takes. */
#ifndef ABX_BASE_CODE_H
#define ABX_BASE_CODE_H

/* Let go of the pages of code and constants: what runs next maps them again from the page cache as it needs them, some 20 faults for a
 * command, 60 for a call of a module. What is writable, or was when it was relocated, stays. For a process that will have nothing to do
 * for a while. In a shared library: the library's. Any thread. */
void abx_code_let_go(void);

#endif
