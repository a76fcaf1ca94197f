/* What a sandbox is made from: names of E2B's to templates and snapshots of the provider's. */
#ifndef ABX_DOORS_E2B_TEMPLATES_H
#define ABX_DOORS_E2B_TEMPLATES_H

#include "doors/e2b/control.h"

typedef struct e2b_wish {
    char *given; /* as it was asked for */
    char *name;  /* of a template or snapshot; NULL: the provider's default */
    bool is_snapshot;
} e2b_wish;

/* templateID of a create. clear it. */
void e2b_wish_read(e2b_door *door, const char *given, e2b_wish *out);
/* A reference trimmed, in small letters, without the tag that means none. Owned. */
char *e2b_plain_name(const char *given);
void e2b_wish_clear(e2b_wish *w);

#endif
