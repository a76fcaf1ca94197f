#include "adapters/over_service.h"

#include "base/mem.h"

void abx_over_service_ready(abx_over_service *p, yyjson_doc *features, abx_provider **out)
{
    p->features = features;
    p->base.features = yyjson_doc_get_root(features);
    p->base.flow = true;
    *out = &p->base;
}

void abx_over_service_clear(abx_over_service *p)
{
    yyjson_doc_free(p->features);
}

int abx_over_service_start(abx_provider *provider, abx_call *call, abx_error **err)
{
    return abx_e2b_service_start(((abx_over_service *)provider)->service, call, err);
}

static void on_closed(void *data)
{
    abx_over_service *p = data;
    void (*cb)(void *) = p->close_cb;
    void *cb_data = p->close_data;
    p->free(p);
    if (cb)
        cb(cb_data);
}

void abx_over_service_close(abx_provider *provider, void (*cb)(void *data), void *data)
{
    abx_over_service *p = (abx_over_service *)provider;
    p->close_cb = cb;
    p->close_data = data;
    abx_e2b_service_close(p->service, on_closed, p);
}
