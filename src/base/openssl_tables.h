/* The constant tables of OpenSSL, relocated when they are first needed.
 *
 * 370 KB of OpenSSL's tables hold addresses, 17,600 of them. Relocating them at every start copies 90 pages, which
 * costs 0.3 ms and stays as private memory in each sandbox's first process, though most runs of the program never
 * touch OpenSSL. So in the released program they lie in a section of their own (cmake/lazy/tables.ld), and after
 * linking their relocations are taken out of the loader's list (cmake/lazy/split.c) and kept in a table that
 * abx_openssl_ready applies. Elsewhere (libabx.so, builds for tests, other linkers) the table is empty and the loader
 * does it all.
 *
 * Every file that calls OpenSSL includes this header and calls abx_openssl_ready first; tests/checks/includes.py
 * looks that none forgets it. */
#ifndef ABX_BASE_OPENSSL_TABLES_H
#define ABX_BASE_OPENSSL_TABLES_H

/* Relocate the tables, once a process. Any thread. Afterwards they are read-only, as the loader leaves its own. Ends
 * the process if the kernel refuses to make the pages writable for that moment. */
void abx_openssl_ready(void);

#endif
