/* The register of id slots of root's sandboxes: one for the machine, /run/abx/slots/K. A link there names the
 * sandbox that owns ids 0x70000000 + 65536·K …; a slot is free again when neither that folder nor its
 * rest in the trash exists. The base can be set by ABX_SLOT_BASE (a multiple of 65536) where a directory
 * service hands out these ids. */
#ifndef ABX_LOCAL_SLOTS_H
#define ABX_LOCAL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define ABX_SLOT_BASE  0x70000000u
#define ABX_SLOT_COUNT 4094u
#define ABX_SLOTS_DIR  "/run/abx/slots"

/* First id of slot k. */
uint32_t abx_slot_first(uint32_t base, int k);
/* True if the range of slot k has an id in common with a line of these texts (subuid: NAME:FIRST:COUNT, passwd:
 * the third field, and the fourth). */
bool abx_slot_overlaps(uint32_t base, int k, const char *subids, const char *passwd);

/* Take a free slot for the sandbox `id` of the folder `base_dir` (HOME/local); the sandbox's folder exists already.
 * Returns its number, or -1 and *err. dir: ABX_SLOTS_DIR, or another for tests. */
int abx_slot_take(const char *dir, const char *base_dir, const char *id, abx_error **err);
/* Free slot k if it belongs to this sandbox. */
void abx_slot_free(const char *dir, int k, const char *base_dir, const char *id);
/* Free all slots whose sandbox is gone. Returns how many. */
int abx_slot_sweep(const char *dir);
uint32_t abx_slot_base(void);

#endif
