/* Answers of a control plane that are failures, as errors of ours. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/control.h"
#include "e2b/foreign.h"

/* {"code":404,"message":"…"}: somebody who knows sandboxes has answered. */
static bool explains(yyjson_val *root)
{
    return yyjson_is_obj(root) && (abx_json_get(root, "code") || abx_json_get(root, "message"));
}

bool abx__ctl_no_route(const abx__ctl_reply *r)
{
    return r->status == 405 || r->status == 410 || (r->status == 404 && !explains(r->root));
}

abx_error *abx__ctl_misfit(const char *route, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    return abx_error_new(ABX_ERR_BACKEND_ANSWER, "the answer of '%s' does not fit: %s", route,
                         text);
}

static abx_err_id not_found(abx__about about)
{
    switch (about) {
    case ABX__ABOUT_SANDBOX: return ABX_ERR_SANDBOX_NOT_FOUND;
    case ABX__ABOUT_TEMPLATE: return ABX_ERR_TEMPLATE_NOT_FOUND;
    case ABX__ABOUT_SNAPSHOT: return ABX_ERR_SNAPSHOT_NOT_FOUND;
    default: return ABX_ERR_BACKEND;
    }
}

static bool mentions(const char *message, const char *word)
{
    return strcasestr(message, word) != NULL;
}

static abx_err_id id_of(const abx__ctl_reply *r, const char *message)
{
    bool quota = mentions(message, "quota") || mentions(message, "maximum number") ||
                 mentions(message, "no more resource");
    switch (r->status) {
    case 400:
    case 422:
        /* some say so of a template that is not there */
        return (r->about == ABX__ABOUT_TEMPLATE || r->about == ABX__ABOUT_SNAPSHOT) &&
                       mentions(message, "not found")
                   ? not_found(r->about)
                   : ABX_ERR_USAGE;
    case 401: return ABX_ERR_API_KEY;
    case 403: return quota ? ABX_ERR_QUOTA : ABX_ERR_FORBIDDEN;
    case 404: return not_found(r->about);
    case 408: return ABX_ERR_TIMEOUT;
    case 409: return ABX_ERR_CONFLICT;
    case 413: return ABX_ERR_TOO_LARGE;
    case 429: return quota ? ABX_ERR_QUOTA : ABX_ERR_RATE_LIMIT;
    case 501: return ABX_ERR_FEATURE_MISSING;
    case 502:
    case 503:
    case 504: return ABX_ERR_NETWORK;
    case 507: return ABX_ERR_NO_SPACE;
    default: return ABX_ERR_BACKEND;
    }
}

/* What the service says for itself, on one line; "" when it says nothing. */
static char *message_of(const abx__ctl_reply *r)
{
    const char *text = abx_json_str(r->root, "message", NULL);
    if (!text)
        text = abx_json_str(r->root, "error", NULL);
    if (!text && !r->root)
        text = abx_buf_cstr(r->body);
    ABX_AUTO_FREE char *message = abx__foreign_line(text ? text : "");
    const char *word = abx_json_str(r->root, "error_code", NULL);
    if (!word)
        return ABX_TAKE(message);
    ABX_AUTO_FREE char *code = abx__foreign_line(word);
    return *message ? abx_format("%s (%s)", message, code) : ABX_TAKE(code);
}

static abx_error *no_route_error(const abx__ctl_reply *r)
{
    abx_error *err =
        abx_error_new(ABX_ERR_FEATURE_MISSING, "the service has no route '%s %s' (status %d)",
                      r->method, r->path, r->status);
    (void)abx_hint(&err, "'abx config list' shows the address of the service, 'abx provider info' "
                         "the routes that differ");
    return err;
}

static abx_error *redirect_error(const abx__ctl_reply *r)
{
    ABX_AUTO_FREE char *to = abx__foreign_line(r->location ? r->location : "");
    abx_error *err =
        abx_error_new(ABX_ERR_BACKEND_ANSWER,
                      "'%s %s' was answered with a redirect (status %d)%s%s%s, which "
                      "is not followed",
                      r->method, r->path, r->status, *to ? " to '" : "", to, *to ? "'" : "");
    (void)abx_hint(&err, "the address of the service may be wrong: 'abx config list' shows it");
    return err;
}

static abx_error *status_error(const abx__ctl_reply *r)
{
    ABX_AUTO_FREE char *message = message_of(r);
    abx_err_id id = id_of(r, message);
    if (!*message)
        return abx_error_new(id, "'%s %s' was answered with status %d", r->method, r->path,
                             r->status);
    return abx_error_new(id, "%s", message);
}

abx_error *abx__ctl_error(const abx__ctl_reply *r)
{
    abx_error *err;
    if (abx__foreign_is_page(r->type, r->body))
        err = abx__foreign_page_error(r->status, r->body);
    else if (r->status >= 300 && r->status < 400)
        err = redirect_error(r);
    else if (abx__ctl_no_route(r))
        err = no_route_error(r);
    else
        err = status_error(r);
    if (r->after_ms != ABX_FOREVER &&
        (err->id == ABX_ERR_RATE_LIMIT || err->id == ABX_ERR_NETWORK)) {
        char wait[32];
        abx_format_duration(r->after_ms, wait);
        (void)abx_hint(&err, "the service asks to try again after %s", wait);
    }
    if (r->about == ABX__ABOUT_SANDBOX && r->subject)
        err->sandbox = abx_strdup(r->subject);
    if (r->request_id)
        err->request_id = abx__foreign_line(r->request_id);
    return err;
}
