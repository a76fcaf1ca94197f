/* What a sandbox may reach, and how its ports are reached: sandbox.set_network, sandbox.host; "network" of a create. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

/* --- what it may reach ------------------------------------------------------------------------------------ */
/* "allow:a,allow:b" or "allow:a,b": these and nothing else. */
static int put_hosts(const abx_e2b_service *s, const char *hosts, yyjson_mut_doc *d,
                     yyjson_mut_val *to, abx_error **err)
{
    yyjson_mut_val *allow = abx_mut_arr(d, to, "allowOut");
    yyjson_mut_val *deny = abx_mut_arr(d, to, "denyOut");
    yyjson_mut_arr_add_str(d, deny, "0.0.0.0/0");
    while (*hosts) {
        if (abx_has_prefix(hosts, "allow:"))
            hosts += strlen("allow:");
        size_t n = strcspn(hosts, ",");
        ABX_AUTO_FREE char *host = abx_strndup(hosts, n);
        const char *colon = strchr(host, ':');
        if (colon && !strchr(colon + 1, ':'))
            return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                            "provider '%s' allows a host with all its ports, not '%s' alone",
                            s->provider, host);
        yyjson_mut_arr_add_strcpy(d, allow, host);
        hosts += n + (hosts[n] == ',');
    }
    return 0;
}

int abx__svc_put_network(const abx_e2b_service *s, const char *network, bool update,
                         yyjson_mut_doc *d, yyjson_mut_val *body, abx_error **err)
{
    bool camel = update && s->dialect->camel_network;
    if (!network)
        return 0;
    if (strcmp(network, "none") == 0 || strcmp(network, "internet") == 0) {
        abx_mut_bool(d, body, camel ? "allowInternetAccess" : "allow_internet_access",
                     strcmp(network, "internet") == 0);
        return 0;
    }
    if (!abx_has_prefix(network, "allow:"))
        return abx_fail(err, ABX_ERR_USAGE, "'network' is none, internet or allow:HOST, not '%s'",
                        network);
    if (s->dialect->no_network_rules)
        return abx_fail(err, ABX_ERR_FEATURE_MISSING,
                        "provider '%s' has no 'allow:HOST': none or internet", s->provider);
    yyjson_mut_val *to = update ? body : abx_mut_obj(d, body, "network");
    return put_hosts(s, network, d, to, err);
}

static void on_set(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    (void)answer;
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, NULL);
}

int abx__svc_set_network(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    yyjson_mut_val *body;
    ABX_AUTO_MUT d = abx_mut_new(&body);
    const char *network = abx_json_str(abx_call_params(call), "network", "");
    if (abx__svc_put_network(s, network, true, d, body, err) < 0)
        return -1;
    abx__svc_job *job = abx__svc_job_new(s, call);
    abx__svc_ask(job, ABX_OP_SANDBOX_SET_NETWORK, "PUT", "/sandboxes/{id}/network", d, true,
                 on_set);
    return 0;
}

/* --- how a port of it is reached ---------------------------------------------------------------------------- */
static void tell_host(abx__svc_job *job, const abx__svc_box *box)
{
    const abx_e2b_service *s = job->service;
    const abx_e2b_dialect *dialect = s->dialect;
    int64_t port = job->call ? abx_json_int(abx_call_params(job->call), "port", 0) : 0;
    yyjson_mut_val *root;
    yyjson_mut_doc *d = abx_mut_new(&root);
    ABX_AUTO_FREE char *url = abx__svc_port_url(s, box->id, box->domain, (int)port);
    abx_mut_str(d, root, "url", url);
    yyjson_mut_val *headers = abx_mut_obj(d, root, "headers");
    if (dialect->data_url && !strstr(dialect->data_url, "{id}")) {
        ABX_AUTO_FREE char *number = abx_format("%d", (int)port);
        abx_mut_str(d, headers, "E2b-Sandbox-Id", box->id);
        abx_mut_str(d, headers, "E2b-Sandbox-Port", number);
    }
    abx_mut_str(d, headers, "E2b-Traffic-Access-Token", box->traffic_token);
    if (dialect->token_on_ports)
        abx_mut_str(d, headers, "X-Access-Token", box->token);
    abx__svc_job_end(job, d);
}

static void on_reached(abx__svc_job *job, yyjson_val *sandbox)
{
    (void)sandbox;
    tell_host(job, abx__svc_box_find(job->service, job->sandbox));
}

/* Only connect gives the token of the ports again; a running sandbox is not changed by it. */
static void go_on(abx__svc_job *job, const abx__svc_box *box)
{
    if (box->closed && !box->traffic_token && !box->paused) {
        job->reached = on_reached;
        abx__svc_reach(job, 1);
    } else {
        tell_host(job, box);
    }
}

static void on_info(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (!err)
        (void)abx__svc_check_sandbox(job->route, answer->root, &err);
    if (!err && !abx_str_eq(abx_json_str(answer->root, "sandboxID", ""), job->sandbox))
        err = abx__ctl_misfit(job->route, "'sandboxID' is another one's");
    if (err)
        abx__svc_job_fail(job, err);
    else
        go_on(job, abx__svc_box_learn(job->service, answer->root));
}

int abx__svc_host(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    int64_t port = abx_json_int(abx_call_params(call), "port", 0);
    if (port < 1 || port > 65535)
        return abx_fail(err, ABX_ERR_USAGE, "'port' is 1 to 65535");
    abx__svc_job *job = abx__svc_job_new(s, call);
    const abx__svc_box *box = abx__svc_box_find(s, job->sandbox);
    if (box && box->known && !box->paused)
        go_on(job, box);
    else
        abx__svc_ask(job, ABX_OP_SANDBOX_INFO, "GET", "/sandboxes/{id}", NULL, true, on_info);
    return 0;
}
