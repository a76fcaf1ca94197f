/* Doubly linked lists in a circle: a link lies in what is listed, the list itself is a link. Nothing is allocated; a link is in one list
 * at most. A link that is in none, and a list that is empty, is alone. */
#ifndef ABX_BASE_LIST_H
#define ABX_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct abx_link {
    struct abx_link *prev, *next;
} abx_link;

/* Before anything else, of lists and of what is listed. */
static inline void abx_link_init(abx_link *l)
{
    l->prev = l->next = l;
}
static inline bool abx_link_alone(const abx_link *l)
{
    return l->next == l;
}
/* Out of its list; of one that is alone nothing happens. */
static inline void abx_link_remove(abx_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    abx_link_init(l);
}
/* At the end of list; l must be alone. */
static inline void abx_link_append(abx_link *list, abx_link *l)
{
    l->prev = list->prev;
    l->next = list;
    list->prev->next = l;
    list->prev = l;
}
/* The object of this type in which the link is this member. */
#define ABX_OF(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

#endif
