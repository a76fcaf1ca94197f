/* sandbox.create: POST /v2/sandboxes or the older POST /sandboxes, whichever the service has. Sent once: only the answer that there
 * is no such route allows the other one. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

int64_t abx__svc_seconds(int64_t ms)
{
    return ms / 1000 + (ms % 1000 != 0);
}

int abx__svc_put_timeout(const abx_e2b_service *s, yyjson_mut_doc *d, yyjson_mut_val *body,
                         int64_t timeout_ms, abx_error **err)
{
    if (timeout_ms < 0)
        return 0;
    if (timeout_ms > 0)
        abx_mut_int(d, body, "timeout", abx__svc_seconds(timeout_ms));
    else if (s->dialect->endless)
        abx_mut_int(d, body, "timeout", -1);
    else
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "provider '%s' has no sandboxes without a time limit", s->provider);
    return 0;
}

/* --- what can be asked for --------------------------------------------------------------------------------- */
static int refuse(const abx_e2b_service *s, const char *what, abx_error **err)
{
    return abx_fail(err, ABX_ERR_FEATURE_MISSING, "provider '%s' has no '%s' of a new sandbox",
                    s->provider, what);
}

/* Nothing of this is in E2B's protocol: the template decides. */
static int check_rest(const abx_e2b_service *s, yyjson_val *params, abx_error **err)
{
    static const char *const sizes[] = {"memoryBytes", "cpus", "diskBytes", "processes",
                                        "openFiles"};
    for (size_t i = 0; i < ABX_COUNT(sizes); i++)
        if (yyjson_get_num(abx_json_get(params, sizes[i])) > 0)
            return refuse(s, sizes[i], err);
    if (abx_json_get(params, "image"))
        return refuse(s, "image", err);
    if (yyjson_arr_size(abx_json_get(params, "allowWeaker")) > 0)
        return refuse(s, "allowWeaker", err);
    return 0;
}

static int put_life(const abx_e2b_service *s, yyjson_val *params, yyjson_mut_doc *d,
                    yyjson_mut_val *body, abx_error **err)
{
    int64_t timeout = abx_json_int(params, "timeoutMs", -1);
    int64_t idle = abx_json_int(params, "idleMs", 0);
    const char *then = abx_json_str(params, "onTimeout", "kill");
    if (idle > 0 && !s->dialect->idle_timeout)
        return refuse(s, "idleMs", err);
    if (idle > 0 && timeout > 0 && timeout != idle)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "provider '%s' has one time limit, which traffic renews: 'timeoutMs' and "
                        "'idleMs' cannot differ",
                        s->provider);
    if (abx__svc_put_timeout(s, d, body, idle > 0 ? idle : timeout, err) < 0)
        return -1;
    if (strcmp(then, "kill") == 0)
        return 0;
    if (strcmp(then, "pause") != 0)
        return abx_fail(err, ABX_ERR_USAGE, "'onTimeout' is kill or pause, not '%s'", then);
    if (s->dialect->no_auto_pause)
        return refuse(s, "onTimeout", err);
    abx_mut_bool(d, body, "autoPause", true);
    return 0;
}

/* --- the request's body -------------------------------------------------------------------------------------- */
static void put_labels(const abx_e2b_service *s, yyjson_val *params, yyjson_mut_doc *d,
                       yyjson_mut_val *body)
{
    yyjson_val *metadata = abx_json_get(params, "metadata");
    yyjson_mut_val *labels = metadata ? yyjson_val_mut_copy(d, metadata) : yyjson_mut_obj(d);
    yyjson_val *key, *value;
    size_t i, n;
    yyjson_obj_foreach(yyjson_doc_get_root(s->metadata), i, n, key, value)
    {
        if (!yyjson_mut_obj_get(labels, yyjson_get_str(key)))
            abx_mut_val(d, labels, yyjson_get_str(key), value);
    }
    abx_mut_str(d, labels, ABX__SVC_NAME_LABEL, abx_json_str(params, "name", NULL));
    if (yyjson_mut_obj_size(labels) > 0)
        abx_mut_put(d, body, "metadata", labels);
}

static int put_source(const abx_e2b_service *s, yyjson_val *params, yyjson_mut_doc *d,
                      yyjson_mut_val *body, abx_error **err)
{
    const char *snapshot = abx_json_str(params, "snapshot", NULL);
    const char *name = abx_json_str(params, "template", NULL);
    if (snapshot && name)
        return abx_fail(err, ABX_ERR_USAGE, "'template' and 'snapshot' exclude each other");
    if (!name)
        name = snapshot ? snapshot : s->template_name;
    if (!*name) {
        abx_fail(err, ABX_ERR_PROVIDER_CONFIG, "provider '%s' has no default template",
                 s->provider);
        return abx_hint(err, "name one: --template NAME");
    }
    abx_mut_str(d, body, "templateID", name);
    return 0;
}

/* All but what differs between the two routes. NULL and *err. */
static yyjson_mut_doc *make_body(const abx_e2b_service *s, yyjson_val *params, abx_error **err)
{
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    if (check_rest(s, params, err) < 0 || put_source(s, params, d, body, err) < 0 ||
        put_life(s, params, d, body, err) < 0 ||
        abx__svc_put_network(s, abx_json_str(params, "network", NULL), false, d, body, err) < 0)
        return NULL;
    put_labels(s, params, d, body);
    yyjson_val *env = abx_json_get(params, "env");
    if (env)
        abx_mut_val(d, body, "envVars", env);
    return ABX_TAKE(d);
}

/* --- the answer -------------------------------------------------------------------------------------------------- */
static void put_missing(const abx__svc_job *job, yyjson_mut_doc *d, yyjson_mut_val *root)
{
    yyjson_val *body = yyjson_doc_get_root(job->body);
    int64_t timeout = abx_json_int(body, "timeout", -1);
    char text[ABX_RFC3339_SIZE];
    if (!yyjson_mut_obj_get(root, "metadata")) {
        /* the answer of a create does not repeat what was asked for */
        yyjson_mut_val *labels = abx_mut_obj(d, root, "metadata");
        yyjson_val *key, *value;
        size_t i, n;
        yyjson_obj_foreach(abx_json_get(body, "metadata"), i, n, key, value)
        {
            const char *name = yyjson_get_str(key);
            if (strcmp(name, ABX__SVC_NAME_LABEL) == 0)
                abx_mut_val(d, root, "name", value);
            else
                abx_mut_val(d, labels, name, value);
        }
    }
    if (timeout > 0 && !yyjson_mut_obj_get(root, "expiresAt")) {
        abx_format_rfc3339(abx_now_wall_ms() + timeout * 1000, text);
        abx_mut_str(d, root, "expiresAt", text);
    }
}

/* Nobody wants it any more. */
static void on_unwanted_killed(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    (void)answer;
    if (err)
        abx_logf(job->service->log, ABX_LOG_WARN, "%s: a sandbox that was not wanted: %s",
                 job->service->provider, err->message);
    abx_error_free(err);
    abx__svc_job_fail(job, ABX_TAKE(job->why));
}

void abx__svc_kill_unwanted(abx__svc_job *job, abx_error *why)
{
    const char *method = "DELETE";
    char *path =
        abx__svc_route(job->service, ABX_OP_SANDBOX_KILL, "/sandboxes/{id}", job->sandbox, &method);
    abx__svc_box_forget(abx__svc_box_find(job->service, job->sandbox), false);
    job->why = why;
    job->deadline = ABX_FOREVER;
    abx__svc_send send = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_SANDBOX,
                          .subject = job->sandbox,
                          .then = on_unwanted_killed};
    abx__svc_job_send(job, &send);
}

void abx__svc_unwant(abx__svc_job *job)
{
    /* the sandbox may come to life all the same: its id is waited for, to end it */
    job->unwanted = true;
}

static void on_made(abx__svc_job *job, const abx__ctl_answer *answer)
{
    ABX_AUTO_ERROR err = NULL;
    yyjson_val *made = answer ? answer->root : NULL;
    if (abx__svc_check_sandbox(job->route, made, &err) < 0) {
        abx__svc_job_fail(job, ABX_TAKE(err));
        return;
    }
    abx__svc_box *box = abx__svc_box_learn(job->service, made);
    free(job->sandbox);
    job->sandbox = abx_strdup(box->id);
    if (job->unwanted || (job->call && abx_call_is_cancelled(job->call))) {
        abx__svc_kill_unwanted(job, abx_error_new(ABX_ERR_CANCELLED, "the call was cancelled"));
        return;
    }
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx__svc_put_sandbox(d, root, made);
    put_missing(job, d, root);
    if (job->service->dialect->ready_late && !job->service->dialect->connect_to)
        abx__svc_wait_ready(job, d);
    else
        abx__svc_job_end(job, d);
}

static void send_create(abx__svc_job *job);

static void on_answer(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    abx_e2b_service *s = job->service;
    bool own = s->dialect->routes && s->dialect->routes[ABX_OP_SANDBOX_CREATE];
    if (answer && answer->no_route && !s->create_known && !own && job->step++ == 0 &&
        !job->unwanted) {
        abx_error_free(err);
        s->create_v1 = !s->create_v1;
        send_create(job);
        return;
    }
    if (answer && answer->no_route && job->step > 0 && !s->create_known)
        s->create_v1 = s->dialect->v1_first; /* neither: begin anew the next time */
    else if (answer && !answer->no_route)
        s->create_known = true;
    if (err)
        abx__svc_job_fail(job, err);
    else
        on_made(job, answer);
}

/* The old route has a short life and no token unless it is told otherwise. */
static yyjson_mut_doc *body_for(const abx__svc_job *job, bool v1)
{
    yyjson_mut_doc *d = yyjson_doc_mut_copy(job->body, NULL);
    ABX_CHECK(d != NULL);
    yyjson_mut_val *body = yyjson_mut_doc_get_root(d);
    uint32_t otherwise = job->service->dialect->default_s;
    if (v1) {
        abx_mut_bool(d, body, "secure", true);
        if (!yyjson_mut_obj_get(body, "timeout"))
            abx_mut_int(d, body, "timeout", otherwise ? otherwise : 300);
    }
    return d;
}

static void send_create(abx__svc_job *job)
{
    abx_e2b_service *s = job->service;
    bool v1 = s->create_v1;
    const char *method = "POST";
    char *path = abx__svc_route(s, ABX_OP_SANDBOX_CREATE, v1 ? "/sandboxes" : "/v2/sandboxes", NULL,
                                &method);
    if (s->dialect->routes && s->dialect->routes[ABX_OP_SANDBOX_CREATE])
        v1 = !abx_has_prefix(path, "/v2/");
    ABX_AUTO_MUT body = body_for(job, v1);
    yyjson_val *template_id = abx_json_get(yyjson_doc_get_root(job->body), "templateID");
    abx__svc_send send = {.method = method,
                          .path = path,
                          .body = body,
                          .makes = true,
                          .about = job->about,
                          .subject = yyjson_get_str(template_id),
                          .then = on_answer};
    abx__svc_job_send(job, &send);
}

int abx__svc_create(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    ABX_AUTO_MUT body = make_body(s, abx_call_params(call), err);
    if (!body)
        return -1;
    abx__svc_job *job = abx__svc_job_new(s, call);
    job->cancel = abx__svc_unwant;
    job->about =
        abx_json_get(abx_call_params(call), "snapshot") ? ABX__ABOUT_SNAPSHOT : ABX__ABOUT_TEMPLATE;
    job->body = abx_json_freeze(body);
    send_create(job);
    return 0;
}
