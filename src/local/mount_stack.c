/* A root of layers: those of a template, with the private one over them. The store of all layers is attached at a folder that every
 * host has, in this mount namespace alone; from there their names are short and tell nothing, which the mount table inside
 * prints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "local/setup.h"
#include "local/sys_mount.h"
#include "local/template/stack.h"

int abx_reach_layers(abx_setup *s)
{
    int rc = s->layers >= 0           ? abx_attach(s->layers, ABX_STACK_AT)
             : s->layers_path != NULL ? mount(s->layers_path, ABX_STACK_AT, NULL, MS_BIND, NULL)
                                      : -1;
    return rc < 0 ? abx_refused(s, ABX_LAYER_OVERLAY, "the store of layers") : 0;
}

char *abx_stack_option(abx_setup *s, const char *below)
{
    ABX_AUTO_FREE char *own = abx_stack_lower(s->plan->stack, ABX_STACK_AT);
    return *below ? abx_format("%s%s%s", own, *own ? ":" : "", below) : ABX_TAKE(own);
}

int abx_mount_stack(abx_setup *s)
{
    if (abx_reach_layers(s) < 0)
        return -1;
    ABX_AUTO_FREE char *lower = abx_stack_option(s, "");
    if (abx_mount_overlay(lower, ABX_STACK_ROOT, s->plan->limits.disk == ABX_HOLD_TMPFS) < 0)
        return abx_refused(s, ABX_LAYER_OVERLAY, "overlay mount of the template");
    return 0;
}
