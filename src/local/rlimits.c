/* Resource limits of a sandbox: the same for every caller, as far as the kernel lets this caller go. */
#include <errno.h>
#include <sys/resource.h>

#include "local/setup.h"

typedef struct resource_row {
    __rlimit_resource_t what;
    rlim_t soft, hard;
    const char *name;
} resource_row;

#define FREE RLIM_INFINITY

static const resource_row resources[] = {
    /* 1 and not 0: the kernel would start a host's program that core_pattern names, outside and as root, for every
     * limit but this one. The child's filter keeps it so. */
    {RLIMIT_CORE, 1, 1, "core dumps"},
    /* envd itself may use all that is hard; commands start with ABX_SOFT_FILES (abx_lock_child) */
    {RLIMIT_NOFILE, ABX_HARD_FILES, ABX_HARD_FILES, "open files"},
    {RLIMIT_NPROC, ABX_MAX_PROCESSES, ABX_MAX_PROCESSES, "processes"},
    {RLIMIT_MSGQUEUE, 819200, 819200, "message queues"},
    {RLIMIT_MEMLOCK, 8u << 20, 8u << 20, "locked memory"},
    {RLIMIT_SIGPENDING, 4096, 4096, "pending signals"},
    /* what a caller may do to the priority of others is not for those inside */
    {RLIMIT_NICE, 0, 0, "priority"},
    {RLIMIT_RTPRIO, 0, 0, "real-time priority"},
    /* What a caller set for its own work is no limit of a sandbox. Where the hard limit is low it cannot be
     * raised; the sandbox object tells. */
    {RLIMIT_CPU, FREE, FREE, "processor time"},
    {RLIMIT_FSIZE, FREE, FREE, "file size"},
    {RLIMIT_AS, FREE, FREE, "address space"},
    {RLIMIT_DATA, FREE, FREE, "data"},
    {RLIMIT_RSS, FREE, FREE, "resident memory"},
    {RLIMIT_RTTIME, FREE, FREE, "real-time processor time"},
    /* not unlimited: the layout of memory and the stacks of threads follow from it */
    {RLIMIT_STACK, 8u << 20, FREE, "stack"},
};

/* Never above what the caller has as its hard limit. */
static int set_one(const resource_row *row, const abx_limits *l)
{
    struct rlimit now;
    if (getrlimit(row->what, &now) < 0)
        return -1;
    rlim_t soft = row->soft, hard = row->hard;
    if (row->what == RLIMIT_NPROC)
        soft = hard = l->asked.processes;
    if (row->what == RLIMIT_NOFILE && l->asked.open_files > hard)
        soft = hard = l->asked.open_files;
    if (hard > now.rlim_max)
        hard = now.rlim_max;
    struct rlimit next = {soft < hard ? soft : hard, hard};
    return setrlimit(row->what, &next);
}

int abx_raise_rlimits(abx_setup *s)
{
    for (size_t i = 0; i < ABX_COUNT(resources); i++)
        if (resources[i].hard == FREE && set_one(&resources[i], &s->plan->limits) < 0)
            return abx_refused(s, ABX_LAYER_LIMITS, "limit of %s", resources[i].name);
    return 0;
}

int abx_set_rlimits(abx_setup *s)
{
    for (size_t i = 0; i < ABX_COUNT(resources); i++)
        if (set_one(&resources[i], &s->plan->limits) < 0)
            return abx_refused(s, ABX_LAYER_LIMITS, "limit of %s", resources[i].name);
    return 0;
}
