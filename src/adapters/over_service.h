/* A provider that is a service of E2B's shape (e2b/service.h): what the adapters over one share. */
#ifndef ABX_ADAPTERS_OVER_SERVICE_H
#define ABX_ADAPTERS_OVER_SERVICE_H

#include "e2b/service.h"
#include "host/adapter.h"

/* The first member of such a provider. The adapter opens `service` and sets `free`. */
typedef struct abx_over_service {
    abx_provider base; /* first */
    abx_e2b_service *service;
    yyjson_doc *features; /* that base.features points into */
    /* Releases what the adapter holds, abx_over_service_clear, and the provider itself. */
    void (*free)(struct abx_over_service *p);
    void (*close_cb)(void *data);
    void *close_data;
} abx_over_service;

/* It is open: what it can do (taken over), and it is handed to the host. */
void abx_over_service_ready(abx_over_service *p, yyjson_doc *features, abx_provider **out);
void abx_over_service_clear(abx_over_service *p);
/* An adapter's start and close. */
int abx_over_service_start(abx_provider *provider, abx_call *call, abx_error **err);
void abx_over_service_close(abx_provider *provider, void (*cb)(void *data), void *data);

#endif
