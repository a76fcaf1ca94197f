/* Inside the multipart parser: the head of one part, and the parameters of a header. */
#ifndef ABX_WIRE_MULTIPART_HEAD_H
#define ABX_WIRE_MULTIPART_HEAD_H

#include "wire/multipart.h"

typedef struct abx_multipart_head {
    abx_multipart_part part; /* points to the three below */
    char *name, *filename, *content_type;
} abx_multipart_head;

/* Read n bytes of header lines. 0, or -1 when a line is no header; clear only after 0. */
int abx__multipart_head_read(abx_multipart_head *h, const void *bytes, size_t n);
void abx__multipart_head_clear(abx_multipart_head *h);

#endif
