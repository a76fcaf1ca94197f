/* Who uses what of the store: living sandboxes by their state, snapshots by their record. */
#ifndef ABX_LOCAL_TEMPLATE_USERS_H
#define ABX_LOCAL_TEMPLATE_USERS_H

#include "local/template/store.h"

/* "sandbox 'ID'" or "snapshot 'ID'" that was made from this template; owned, NULL: nobody. Under ABX_LOCK_USE. */
char *abx_template_user(abx_store *s, const char *id);

/* The names of layers that somebody needs, each the 16 digits without its kind. */
typedef struct abx_used {
    char (*names)[ABX_STORE_ID + 1];
    size_t count, room;
} abx_used;
void abx_used_collect(abx_store *s, abx_used *out);
bool abx_used_has(const abx_used *u, const char *name);
void abx_used_clear(abx_used *u);

#endif
