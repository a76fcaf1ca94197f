/* What every process of a sandbox finds in its environment because E2B has it there. */
#include "doors/e2b/control.h"
#include "doors/e2b/data_inner.h"

static void put(yyjson_mut_doc *d, yyjson_mut_val *env, const e2b_box *box, const char *name,
                const char *value)
{
    if (!abx_json_get(box->env, name) && !yyjson_mut_obj_get(env, name))
        abx_mut_str(d, env, name, value);
}

void e2b_env_put(const e2b_data *data, yyjson_mut_doc *d, yyjson_mut_val *env)
{
    const e2b_box *box = data->box;
    put(d, env, box, "E2B_SANDBOX", "true");
    put(d, env, box, "E2B_SANDBOX_ID", box->id);
    put(d, env, box, "E2B_TEMPLATE_ID", e2b_box_template(box));
}
