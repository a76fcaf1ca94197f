/* A part of a file where the provider gives only whole ones: what lies before it is dropped, and behind it reading ends. */
#include "base/mem.h"
#include "host/emulate_inner.h"

typedef struct part {
    abx__emulation e;
    int64_t skip, left; /* left -1: until the end */
    int64_t size;       /* bytes passed on */
} part;

/* The rest is of no use to anybody: with the outer call the inner one goes. */
static void finish(part *p)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_int(d, root, "size", p->size);
    abx__emulation_end(&p->e, d);
}

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)channel;
    part *p = data;
    if (!p->e.outer || p->e.done)
        return;
    size_t pass = (uint64_t)p->skip < n ? (size_t)p->skip : n;
    p->skip -= (int64_t)pass;
    bytes += pass;
    n -= pass;
    if (p->left >= 0 && (uint64_t)p->left < n)
        n = (size_t)p->left;
    if (p->left > 0)
        p->left -= (int64_t)n;
    p->size += (int64_t)n;
    if (n > 0 && !abx_call_chunk(p->e.outer, ABX_CH_BODY, bytes, n))
        abx_call_pause(c);
    if (p->left == 0)
        finish(p);
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    (void)c;
    (void)result;
    part *p = data;
    p->e.inner = NULL;
    if (err)
        abx__emulation_fail(&p->e, abx_error_copy(err));
    else
        finish(p);
    abx__emulation_unpin(&p->e);
}

static void release(abx__emulation *e)
{
    abx__emulation_clear(e);
    free(e);
}

void abx__emulate_range(abx_host *host, const char *provider, abx_call *call)
{
    static const abx_call_handlers handlers = {.on_chunk = on_chunk, .on_end = on_end};
    static const char *const kept[] = {"sandboxId", "path", "user", NULL};
    part *p = ABX_NEW(part);
    abx__emulation_init(&p->e, host, provider, call);
    p->e.release = release;
    p->skip = abx_json_int(abx_call_params(call), "offset", 0);
    p->left = abx_json_int(abx_call_params(call), "limit", -1);
    abx__emulation_accept(&p->e);
    yyjson_mut_val *root;
    abx__emulation_call(&p->e, ABX_OP_FS_READ, abx__emulation_params(&p->e, &root, kept),
                        &handlers);
}
