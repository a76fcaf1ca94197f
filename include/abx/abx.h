/* libabx: the same calls as the command line, for programs. This version holds only what tells the library's
 * version; calls, contexts and their thread rules come with the functions that need them. */
#ifndef ABX_ABX_H
#define ABX_ABX_H

#ifdef __cplusplus
extern "C" {
#endif

#define ABX_API __attribute__((visibility("default")))

/* The library's version, "X.Y.Z". Constant, never NULL; any thread. */
ABX_API const char *abx_version(void);

#ifdef __cplusplus
}
#endif

#endif
