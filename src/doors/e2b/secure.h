/* TLS of the door: https://DOMAIN, https://api.DOMAIN and https://PORT-ID.DOMAIN on one listener beside the plain one, under
 * the certificate of the door's own authority (authority.h). Absent unless it was asked for. */
#ifndef ABX_DOORS_E2B_SECURE_H
#define ABX_DOORS_E2B_SECURE_H

#include "doors/e2b/door.h"

typedef struct e2b_secure {
    abx_tls *tls;
    char *domain;  /* "abx.localhost" */
    char *address; /* the same with the port, as clients are told: "abx.localhost:8443" */
    int port;
    char *certificate;    /* PEM: the one that is shown */
    int64_t renew_ms;     /* wall clock */
    struct timespec file; /* when tls.pem was written, as far as it was read */
} e2b_secure;

/* Make or renew the certificate, listen: on the port that was asked for, else (0) on the one of last time, else on any. Sets
 * door->secure, door->http listens then. */
int e2b_secure_open(e2b_door *door, const char *domain, int asked, int last, abx_error **err);
/* Called every few seconds: makes the certificate anew in time, and takes one that another has put in its place. A failure is logged
 * and tried again later. */
void e2b_secure_tick(e2b_door *door);
/* After the HTTP server has closed. */
void e2b_secure_free(e2b_door *door);
/* What clients are told: members tls, domain, certificateAuthority of the server's file. */
void e2b_secure_publish(const e2b_door *door, yyjson_mut_doc *d, yyjson_mut_val *root);
/* The host (with or without a port) is the domain or a name below it. */
bool e2b_secure_is_host(const e2b_door *door, const char *host);
/* What answers name as the domain of a sandbox; NULL without TLS. */
const char *e2b_secure_domain(const e2b_door *door);

#endif
