/* sandbox.template_list, template_info and template_remove: what the account has. Templates are built by the services' own tools. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "e2b/service_inner.h"

static const char *first_name(yyjson_val *v)
{
    static const char *const lists[] = {"names", "aliases"};
    for (size_t i = 0; i < ABX_COUNT(lists); i++) {
        yyjson_val *name = yyjson_arr_get_first(abx_json_get(v, lists[i]));
        if (yyjson_is_str(name))
            return yyjson_get_str(name);
    }
    return abx_json_str(v, "name", NULL);
}

/* 0; -1 and *err. */
static int put_template(const char *route, yyjson_mut_doc *d, yyjson_mut_val *root, yyjson_val *v,
                        abx_error **err)
{
    const char *id = abx_json_str(v, "templateID", NULL);
    int64_t ms;
    if (!id || !*id)
        return abx_error_take(err, abx__ctl_misfit(route, "'templateID' is missing"));
    abx_mut_str(d, root, "id", id);
    abx_mut_str(d, root, "name", first_name(v));
    abx_mut_str(d, root, "kind", "image");
    const char *created = abx_json_str(v, "createdAt", NULL);
    if (created && abx_parse_rfc3339(created, &ms) == 0 && ms > 0)
        abx_mut_str(d, root, "createdAt", created);
    return 0;
}

static bool is_called(yyjson_val *v, const char *word)
{
    static const char *const lists[] = {"names", "aliases"};
    yyjson_val *name;
    size_t i, n;
    if (abx_str_eq(abx_json_str(v, "templateID", NULL), word) ||
        abx_str_eq(abx_json_str(v, "name", NULL), word))
        return true;
    for (size_t k = 0; k < ABX_COUNT(lists); k++)
        yyjson_arr_foreach(abx_json_get(v, lists[k]), i, n,
                           name) if (abx_str_eq(yyjson_get_str(name), word)) return true;
    return false;
}

static void ask_list(abx__svc_job *job,
                     void (*then)(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err))
{
    const char *method = "GET";
    char *path =
        abx__svc_route(job->service, ABX_OP_SANDBOX_TEMPLATE_LIST, "/templates", NULL, &method);
    abx__svc_send send = {.method = method, .path = path, .repeat = true, .then = then};
    abx__svc_job_send(job, &send);
}

static void on_list(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_mut_val *list = abx_mut_arr(d, root, "templates");
    yyjson_val *item;
    size_t i, n;
    if (!err && !yyjson_is_arr(answer->root))
        err = abx__ctl_misfit(job->route, "it is not a list");
    if (!err)
        yyjson_arr_foreach(answer->root, i, n, item)
        {
            yyjson_mut_val *one = yyjson_mut_arr_add_obj(d, list);
            if (put_template(job->route, d, one, item, &err) < 0)
                break;
        }
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, ABX_TAKE(d));
}

int abx__svc_template_list(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    ask_list(abx__svc_job_new(s, call), on_list);
    return 0;
}

/* The services differ in what they tell of one; the list has them all. */
static void on_look(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    const char *word = job->call ? abx_json_str(abx_call_params(job->call), "template", "") : "";
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    yyjson_val *item, *found = NULL;
    size_t i, n;
    if (!err && !yyjson_is_arr(answer->root))
        err = abx__ctl_misfit(job->route, "it is not a list");
    if (!err)
        yyjson_arr_foreach(answer->root, i, n, item) if (!found && is_called(item, word)) found =
            item;
    if (!err && !found)
        err = abx_error_new(ABX_ERR_TEMPLATE_NOT_FOUND, "no template is called '%s'", word);
    if (!err)
        (void)put_template(job->route, d, root, found, &err);
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, ABX_TAKE(d));
}

int abx__svc_template_info(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    ask_list(abx__svc_job_new(s, call), on_look);
    return 0;
}

static void on_removed(abx__svc_job *job, const abx__ctl_answer *answer, abx_error *err)
{
    if (err && err->id == ABX_ERR_TEMPLATE_NOT_FOUND && answer && answer->again)
        abx_error_free(ABX_TAKE(err));
    if (err)
        abx__svc_job_fail(job, err);
    else
        abx__svc_job_end(job, NULL);
}

int abx__svc_template_remove(abx_e2b_service *s, abx_call *call, abx_error **err)
{
    (void)err;
    const char *name = abx_json_str(abx_call_params(call), "template", "");
    const char *method = "DELETE";
    abx__svc_job *job = abx__svc_job_new(s, call);
    char *path =
        abx__svc_route(s, ABX_OP_SANDBOX_TEMPLATE_REMOVE, "/templates/{id}", name, &method);
    abx__svc_send send = {.method = method,
                          .path = path,
                          .repeat = true,
                          .about = ABX__ABOUT_TEMPLATE,
                          .subject = name,
                          .then = on_removed};
    abx__svc_job_send(job, &send);
    return 0;
}
