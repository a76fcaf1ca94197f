/* A provider: a host with a configuration of its own, so that two connections share nothing. */
#include <string.h>

#include "base/mem.h"
#include "doors/capi/inner.h"
#include "host/providers.h"

static void free_provider(capi_provider *p)
{
    abx_config_free(p->config);
    capi_env_free(p->env);
    free(p->id);
    free(p);
}

static int open_host(capi_provider *p, const char *folder, abx_error **err)
{
    const abx_host_options options = {
        .loop = &p->ctx->loop,
        .home = p->ctx->home,
        .config = p->config,
        .adapters = capi_adapters(),
        .may_fork =
            false, /* threads, secrets: the program beside the library makes a sandbox's first process */
        .exact_ids = !p->env,
        .self = p->ctx->program,
        .keeper = p->ctx->keeper,
        .log = &p->ctx->log,
    };
    const char *id = NULL;
    if (abx_host_open(&options, &p->host, err) < 0 ||
        (folder && abx_host_use_folder(p->host, folder, &id, err) < 0))
        return -1;
    if (folder || abx_host_has_provider(p->host, p->id))
        return 0;
    const abx_providers known = {.home = p->ctx->home, .adapters = capi_adapters()};
    return abx_providers_unknown(&known, p->id, err);
}

static void on_closed(void *data)
{
    ((capi_provider *)data)->closed = true;
}

static bool is_closed(void *data)
{
    return ((const capi_provider *)data)->closed;
}

static void cancel_calls(capi_provider *p)
{
    for (capi_call *c = p->ctx->calls; c; c = c->next) {
        if (c->provider != p)
            continue;
        c->provider = NULL;
        if (c->inner)
            abx_call_cancel(c->inner);
    }
}

/* With the lock. Also ends one that was opened half. */
static void close_provider(capi_section *s, capi_provider *p)
{
    p->closing = true;
    cancel_calls(p);
    if (p->host) {
        abx_host_close(p->host, on_closed, p);
        capi_poke(s->ctx);
        while (!capi_wait(s, is_closed, p, NULL, false, -1))
            ;
    }
    for (capi_provider **at = &s->ctx->providers; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    free_provider(p);
}

capi_provider *capi_provider_open(capi_context *ctx, const char *connection, abx_error **err)
{
    capi_section s;
    if (capi_check_process(ctx, err) < 0)
        return NULL;
    ABX_AUTO_FREE char *folder = NULL;
    capi_provider *p = ABX_NEW(capi_provider);
    p->ctx = ctx;
    if (capi_connection_read(p, connection, &folder, err) < 0) {
        free_provider(p);
        return NULL;
    }
    if (capi_enter(&s, ctx, err) < 0) {
        free_provider(p);
        return NULL;
    }
    if (open_host(p, folder, err) < 0) {
        close_provider(&s, p);
        p = NULL;
    } else {
        p->next = ctx->providers;
        ctx->providers = p;
    }
    capi_leave(&s);
    return p;
}

void capi_provider_close(capi_provider *p)
{
    capi_section s;
    if (!p || capi_enter(&s, p->ctx, NULL) < 0)
        return;
    if (!p->closing)
        close_provider(&s, p);
    capi_leave(&s);
}

const char *capi_provider_id(const capi_provider *p)
{
    return p->id;
}

char *capi_provider_describe(capi_provider *p, abx_error **err)
{
    capi_section s;
    if (capi_enter(&s, p->ctx, err) < 0)
        return NULL;
    ABX_AUTO_JSON doc = abx_host_describe(p->host, p->id, err);
    capi_poke(s.ctx);
    capi_leave(&s);
    return doc ? abx_json_text(yyjson_doc_get_root(doc)) : NULL;
}

char *capi_provider_connection(capi_provider *p, abx_error **err)
{
    capi_section s;
    if (capi_enter(&s, p->ctx, err) < 0)
        return NULL;
    ABX_AUTO_JSON doc = abx_host_connection(p->host, p->id, err);
    capi_poke(s.ctx);
    capi_leave(&s);
    return doc ? abx_json_text(yyjson_doc_get_root(doc)) : NULL;
}

char *capi_sandbox_find(capi_provider *p, const char *word, abx_error **err)
{
    capi_section s;
    if (capi_enter(&s, p->ctx, err) < 0)
        return NULL;
    abx_host_found found;
    int rc = abx_host_find(p->host, p->forced ? p->id : NULL, word, &found, err);
    capi_leave(&s);
    if (rc < 0)
        return NULL;
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "id", found.id);
    abx_mut_str(d, root, "provider", found.provider);
    abx_mut_str(d, root, "profile", found.profile);
    abx_host_found_clear(&found);
    ABX_AUTO_JSON frozen = abx_json_freeze(d);
    return abx_json_text(yyjson_doc_get_root(frozen));
}
