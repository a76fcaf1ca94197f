/* The marks of an overlay's upper layer: whiteouts and opaque folders. */
#ifndef ABX_LOCAL_TEMPLATE_MARKS_H
#define ABX_LOCAL_TEMPLATE_MARKS_H

#include <stdbool.h>

/* Is this status that of an overlay's whiteout: a character device 0:0? */
struct stat;
bool abx_is_whiteout(const struct stat *st);
/* Is the open folder marked as hiding what lies below it? */
bool abx_is_opaque(int fd);
/* Mark it. 0, or -1 with errno. */
int abx_make_opaque(int fd);

#endif
