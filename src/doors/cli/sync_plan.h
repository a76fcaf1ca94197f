/* Two lists and what was the same after the last run → what is to be done. Pure: reads no file, asks nobody. */
#ifndef ABX_CLI_SYNC_PLAN_H
#define ABX_CLI_SYNC_PLAN_H

#include "doors/cli/sync_list.h"

typedef enum abx_sync_kind {
    ABX_SYNC_COPY,    /* entry to the side `to`; of a folder only the folder itself */
    ABX_SYNC_DELETE,  /* entry goes from the side `to`, a folder with all that is in it */
    ABX_SYNC_CONFLICT /* nothing is done */
} abx_sync_kind;

/* Sides: of one way 0 is the source and 1 the target; of two ways 0 is this machine and 1 the sandbox. */
typedef struct abx_sync_action {
    abx_sync_kind kind;
    int to;
    const abx_sync_entry *entry; /* borrowed from the lists */
    const char *reason;          /* of a conflict; static */
} abx_sync_action;

typedef struct abx_sync_plan {
    abx_sync_action *
        actions; /* in the order of paths; a deletion stands before the copy that takes its place */
    size_t count, _cap;
    size_t conflicts;
} abx_sync_plan;

typedef struct abx_sync_input {
    const abx_sync_list *side[2]; /* sorted */
    const abx_sync_list *state;   /* sorted; two ways only */
    bool two_way;
    bool delete_extra; /* one way: what only the target has goes */
} abx_sync_input;

/* The lists must live as long as the plan. out is overwritten; clear it. */
void abx_sync_plan_make(const abx_sync_input *in, abx_sync_plan *out);
void abx_sync_plan_clear(abx_sync_plan *p);

#endif
