/* The way out of a sandbox with a network (`--network internet`): a helper program of the machine, pasta or slirp4netns. It
 * carries what the sandbox sends through a tap device to ordinary sockets outside, as a process of the caller's.
 *
 *   outside: abx_uplink_choose (plan), abx_uplink_start when pid 1 asks for it
 *   pid 1:   abx_note_own_routes, abx_ask_uplink, abx_join_uplink: its steps of the set-up (setup.h)
 *
 * Nobody looks after the helper. Its standard input is a pipe whose other end pid 1 alone holds; the kernel sends it
 * SIGKILL when that end closes, so it ends with the sandbox however that ends. It is written into the state too: `kill`, and
 * `gc` for one that slipped away all the same, end it by that.
 *
 * Inside both look alike: tap0 has ABX_UPLINK_ADDRESS and knows one neighbour, ABX_UPLINK_GATEWAY; names are asked at
 * ABX_UPLINK_RESOLVER. IPv4 only. */
#ifndef ABX_LOCAL_UPLINK_H
#define ABX_LOCAL_UPLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

#define ABX_UPLINK_TUN      "/dev/net/tun"
#define ABX_UPLINK_DEVICE   "tap0"
#define ABX_UPLINK_ADDRESS  "10.0.2.100"
#define ABX_UPLINK_GATEWAY  "10.0.2.2"
#define ABX_UPLINK_RESOLVER "10.0.2.3"
#define ABX_UPLINK_MAC      "52:55:0a:00:02:02" /* of the gateway */
#define ABX_UPLINK_MTU      65520

typedef enum abx_network {
    ABX_NETWORK_NONE, /* its own loopback */
    ABX_NETWORK_INTERNET,
} abx_network;

/* Which helper is used, and where it lies. */
typedef struct abx_uplink_choice {
    const char *name; /* static; NULL: none is wanted */
    char *path;       /* owned */
    bool has_root;    /* the sandbox has an id 0: the caller fills it in */
} abx_uplink_choice;

/* A running helper, as the state keeps it. pid 0: none. */
typedef struct abx_uplink_helper {
    const char *name; /* static */
    pid_t pid;
    uint64_t start; /* start time, see abx_process_start */
} abx_uplink_helper;

/* none and internet (NULL: none). -1 and *err: USAGE for a word that is no network, FEATURE_MISSING for allow:HOST. */
int abx_network_parse(const char *text, abx_network *out, abx_error **err);
const char *abx_network_name(abx_network network); /* static */
/* The helper that is used on this machine: pasta, else slirp4netns, from PATH. -1 and *err (ISOLATION, with the fix): none is
 * there, or /dev/net/tun cannot be opened. */
int abx_uplink_choose(abx_uplink_choice *out, abx_error **err);
/* The static name of a helper that is written down somewhere, or NULL. */
const char *abx_uplink_name(const char *text);

/* --- outside, while the sandbox is made --------------------------------------------------------------- */
typedef struct abx_uplink abx_uplink;
/* Start the helper for the net namespace of pid (a child of ours that was not waited for). hold: read end of the pipe
 * whose write end that process holds (borrowed). 0: cb runs once, on the loop, with the helper when it is ready, or err; the object is gone
 * after it. The helper is a child of this process until that ends: whoever lives on buries it by abx_uplink_end. -1 and *err: cb
 * never runs. */
int abx_uplink_start(uv_loop_t *loop, const abx_uplink_choice *choice, pid_t pid, int hold,
                     void (*cb)(void *data, const abx_uplink_helper *helper, const abx_error *err),
                     void *data, abx_uplink **out, abx_error **err);
/* For the process that will be the helper: make the tap device in the namespaces of pid. Ends this process, with a line on
 * descriptor 2, where that fails. uplink_device.c */
void abx_uplink_make_device(pid_t pid);
/* The gateway's address on the link. */
void abx_uplink_mac(uint8_t mac[6]);

/* End the helper and forget it: cb does not run. NULL allowed. */
void abx_uplink_stop(abx_uplink *uplink);

/* Does the helper live? boot_id: of its state; a pid of another boot is nobody's. */
bool abx_uplink_alive(const abx_uplink_helper *helper, const char *boot_id);
/* End the helper, and bury it if it is a child of this process. Nothing where it is gone. True: it lived. */
bool abx_uplink_end(const abx_uplink_helper *helper, const char *boot_id);

/* --- netlink, for pid 1 (uplink_netlink.c) ---------------------------------------------------------------- */
typedef struct abx_prefix {
    uint32_t address; /* network order */
    uint8_t bits;
} abx_prefix;
/* What the machine's own stack takes in, IPv4: each of its addresses, and 127.0.0.0/8. *out is owned. 0, or -1 with errno. */
int abx_netlink_own_prefixes(abx_prefix **out, size_t *n);

/* Give the tap device of this net namespace its address, its one neighbour and its routes; packets to `closed` go nowhere.
 * Returns NULL, or what failed (errno is set). */
const char *abx_netlink_configure(const abx_prefix *closed, size_t n);

#endif
