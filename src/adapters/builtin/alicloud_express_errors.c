/* What the service and its gateway mean by a failure. */
#include <stdlib.h>
#include <string.h>

#include "adapters/builtin/alicloud_express.h"
#include "base/mem.h"
#include "base/text.h"

/* Put the advice behind what is told already. */
static void add_hint(abx_error *err, const char *advice)
{
    char *hint = err->hint ? abx_format("%s; %s", err->hint, advice) : abx_strdup(advice);
    free(err->hint);
    err->hint = hint;
}

static bool is_known_region(const char *region)
{
    size_t n = strlen(region);
    if (abx_has_suffix(region, "-vpc"))
        n -= strlen("-vpc");
    for (const char *c = express_regions(); *c;) {
        size_t len = strcspn(c, "|");
        if (len == n && memcmp(c, region, n) == 0)
            return true;
        c += len + (c[len] == '|');
    }
    return false;
}

static void explain_region(const char *region, abx_error *err)
{
    ABX_AUTO_FREE char *words = abx_strdup(express_regions());
    ABX_AUTO_FREE char *shown = abx_strdup(express_regions());
    const char *names[64];
    size_t count = 0;
    char *rest = words, *name;
    while (count < ABX_COUNT(names) && (name = strsep(&rest, "|")) != NULL)
        names[count++] = name;
    for (char *p = shown; *p; p++)
        if (*p == '|')
            *p = ' ';
    const char *near = abx_nearest(region, names, count);
    ABX_AUTO_FREE char *advice =
        near ? abx_format("region '%s' is not known; did you mean '%s'?", region, near)
             : abx_format("region '%s' is not known; there are: %s", region, shown);
    add_hint(err, advice);
}

/* The key, the region and the account belong together. */
static void explain_key(const express_place *place, const char *key, abx_error *err)
{
    if (!abx_has_prefix(key, "e2b_"))
        add_hint(err, "keys of this service begin with 'e2b_'; an AccessKey is something else");
    ABX_AUTO_FREE char *advice = abx_format(
        "it may be disabled, reset, expired or of another region%s%s%s: the console shows it",
        place->region ? " than '" : "", place->region ? place->region : "",
        place->region ? "'" : "");
    add_hint(err, advice);
}

static bool mentions(const abx_error *err, const char *word)
{
    return strcasestr(err->message, word) != NULL;
}

/* The gateway leads all ports of a sandbox to one proxy in it, which finds envd and the interpreter. */
static void explain_inside(abx_op_id op, abx_error *err)
{
    abx_feature feature = abx_op_row_of(op)->feature;
    bool code = feature == ABX_FEATURE_CODE || feature == ABX_FEATURE_CODE_CONTEXTS;
    if (mentions(err, "openresty") && mentions(err, "404"))
        add_hint(err,
                 "the image of the template has no proxy on port 5000 that knows the other ports");
    else if (code && feature == ABX_FEATURE_CODE_CONTEXTS &&
             (err->id == ABX_ERR_FEATURE_MISSING || err->id == ABX_ERR_BACKEND))
        add_hint(err, "contexts may not be supported by this template");
    else if (code && err->id == ABX_ERR_NETWORK)
        add_hint(err, "the interpreter does not run in this sandbox: make it from the template "
                      "'code-interpreter-v1'");
    else if (err->id == ABX_ERR_NETWORK && mentions(err, "502"))
        add_hint(err, "envd does not run in this sandbox, or its image listens on nothing at port "
                      "5000");
    else if (mentions(err, "after top-level value"))
        add_hint(err, "the gateway takes JSON only");
}

static void explain_plan(abx_op_id op, abx_error *err)
{
    switch (op) {
    case ABX_OP_SANDBOX_PAUSE:
    case ABX_OP_SANDBOX_CONNECT:
        add_hint(err, "the plan Eco has no pause; first-generation sandboxes have it for accounts "
                      "on a list only");
        break;
    case ABX_OP_SANDBOX_SNAPSHOT_CREATE:
    case ABX_OP_SANDBOX_SNAPSHOT_LIST:
        add_hint(err, "snapshots are for accounts on a list, and for running second-generation "
                      "sandboxes");
        break;
    case ABX_OP_SANDBOX_SET_TIMEOUT:
        add_hint(err,
                 "a sandbox runs at most 24 hours with the plans Eco and Std, 7 days with Pro");
        break;
    case ABX_OP_SANDBOX_METRICS:
        add_hint(err, "metrics are not available for every account");
        break;
    default: break;
    }
}

/* A refusal with a reason that the plan or the account has, not a state or a thing that is missing. */
static bool is_refusal(const abx_error *err)
{
    return err->id == ABX_ERR_USAGE || err->id == ABX_ERR_FORBIDDEN ||
           err->id == ABX_ERR_FEATURE_MISSING || err->id == ABX_ERR_QUOTA ||
           err->id == ABX_ERR_BACKEND;
}

static void explain_create(abx_error *err)
{
    if (err->id == ABX_ERR_TIMEOUT ||
        (err->id == ABX_ERR_NETWORK && !mentions(err, "resolve") && !mentions(err, "refused")))
        add_hint(err, "a template of your own whose image listens on nothing at port 5000 does not "
                      "start; 'abx gc' ends what is left of it");
    else if (err->id == ABX_ERR_TEMPLATE_NOT_FOUND)
        add_hint(err, "templates belong to one account and one region; 'base' and "
                      "'code-interpreter-v1' are everywhere");
    else if (err->id == ABX_ERR_USAGE && mentions(err, "timeout"))
        add_hint(err,
                 "a sandbox runs at most 24 hours with the plans Eco and Std, 7 days with Pro");
}

void express_explain(const express_place *place, const char *key, abx_op_id op, abx_error *err)
{
    bool inside = !abx_has_prefix(abx_op_row_of(op)->method, "sandbox.");
    if (err->id == ABX_ERR_TIMEOUT || err->id == ABX_ERR_CANCELLED) {
        if (op == ABX_OP_SANDBOX_CREATE && err->id == ABX_ERR_TIMEOUT)
            explain_create(err);
        return;
    }
    if (err->id == ABX_ERR_NETWORK && place->region && !is_known_region(place->region))
        explain_region(place->region, err);
    if (err->id == ABX_ERR_API_KEY && !inside)
        explain_key(place, key, err);
    else if (inside)
        explain_inside(op, err);
    else if (op == ABX_OP_SANDBOX_CREATE)
        explain_create(err);
    else if (is_refusal(err))
        explain_plan(op, err);
}
